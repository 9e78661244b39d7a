"""The ways in, outermost first. A new step is one new line here."""

from middleware.access_log import access_log
from middleware.bearer_key import bearer_key
from middleware.capability import capability
from middleware.chain import Chain
from middleware.connection import connection
from middleware.cors import cors
from middleware.credentials import credentials
from middleware.decompress import decompress
from middleware.dry_run import dry_run
from middleware.error_shape import error_shape
from middleware.expectation import invite_body
from middleware.json_only import json_only
from middleware.pace import pace
from middleware.paginate import paginate
from middleware.policy import policy
from middleware.request_id import request_id
from middleware.scope import scope
from middleware.session_token import session_or_key, session_token
from middleware.strict import strict
from middleware.upstream import upstream

# End users' browsers and load balancers, and providers' webhooks, which their signature proves: no key.
OPEN = Chain(request_id, access_log, error_shape, strict)

# Programs, scripts in browsers among them, whatever they want.
CALLED = Chain(request_id, access_log, cors, error_shape, strict)

# End users' browsers that post JSON: the connect session says who.
POSTED = Chain(*CALLED, json_only)

# The customer's back end.
API = Chain(*CALLED, bearer_key, scope, pace, json_only)

# The same, and the end user's browser under a connect session.
SHOWN = Chain(*CALLED, session_or_key, scope, pace, json_only)

# That browser alone.
CONNECTING = Chain(*CALLED, session_token, json_only)

# The customer's requests on their way to a provider.
_SENT = (scope, pace, connection, upstream, paginate, policy, credentials, decompress, dry_run, invite_body)
PROXY = Chain(*CALLED, bearer_key, *_SENT)

# The same by an address that names key and connection, for clients that know no headers of ours.
CAPABILITY = Chain(*CALLED, capability, *_SENT)
