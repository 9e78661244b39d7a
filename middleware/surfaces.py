"""The ways in, outermost first. A new step is one new line here."""

from middleware.access_log import access_log
from middleware.bearer_key import bearer_key
from middleware.chain import Chain
from middleware.connection import connection
from middleware.cors import cors
from middleware.credentials import credentials
from middleware.decompress import decompress
from middleware.dry_run import dry_run
from middleware.error_shape import error_shape
from middleware.expectation import invite_body
from middleware.json_only import json_only
from middleware.paginate import paginate
from middleware.request_id import request_id
from middleware.strict import strict
from middleware.upstream import upstream

# End users' browsers and load balancers: no key.
OPEN = Chain(request_id, access_log, error_shape, strict)

# Programs, scripts in browsers among them, whatever they want.
CALLED = Chain(request_id, access_log, cors, error_shape, strict)

# End users' browsers that post JSON: the connect session says who.
POSTED = Chain(*CALLED, json_only)

# The customer's back end.
API = Chain(*CALLED, bearer_key, json_only)

# The customer's requests on their way to a provider.
PROXY = Chain(*CALLED, bearer_key, connection, upstream, paginate, credentials, decompress, dry_run, invite_body)
