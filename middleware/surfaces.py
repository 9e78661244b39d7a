"""The ways in, outermost first. A new step is one new line here."""

from gateway.middleware.access_log import access_log
from gateway.middleware.acting import acting
from gateway.middleware.bearer_key import bearer_key
from gateway.middleware.capability import capability
from gateway.middleware.chain import Chain
from gateway.middleware.cors import cors
from gateway.middleware.credentials import credentials
from gateway.middleware.decompress import decompress
from gateway.middleware.dry_run import dry_run
from gateway.middleware.error_shape import error_shape
from gateway.middleware.expectation import invite_body
from gateway.middleware.json_only import json_only
from gateway.middleware.pace import pace
from gateway.middleware.paginate import paginate
from gateway.middleware.policy import policy
from gateway.middleware.request_id import request_id
from gateway.middleware.scope import scope
from gateway.middleware.session_token import session_or_key, session_token
from gateway.middleware.shape import shape
from gateway.middleware.strict import strict
from gateway.middleware.upstream import upstream
from gateway.middleware.which_connection import connection

# End users' browsers and load balancers, and providers' webhooks, which their signature proves: no key.
OPEN = Chain(request_id, access_log, error_shape, strict, acting)

# Programs, scripts in browsers among them, whatever they want.
CALLED = Chain(request_id, access_log, cors, error_shape, strict)

# End users' browsers that post JSON: the connect session says who.
POSTED = Chain(*CALLED, acting, json_only)

# The customer's back end.
API = Chain(*CALLED, bearer_key, acting, scope, pace, json_only)

# The same, and the end user's browser under a connect session.
SHOWN = Chain(*CALLED, session_or_key, acting, scope, pace, json_only)

# That browser alone.
CONNECTING = Chain(*CALLED, session_token, acting, json_only)

# The customer's requests on their way to a provider.
SENT = (scope, pace, connection, upstream, paginate, policy, credentials, decompress, shape, dry_run, invite_body)
PROXY = Chain(*CALLED, bearer_key, *SENT)

# The same by an address that names key and connection, for clients that know no headers of ours.
CAPABILITY = Chain(*CALLED, capability, *SENT)

# An agent, by the Model Context Protocol. What it calls goes through PROXY, which counts it; other messages the door counts.
AGENT = Chain(*CALLED, bearer_key, acting, scope, json_only)

# The same below a capability's address; the rest of the chain follows when it is known whose address that is.
CAPABILITY_AGENT = Chain(*CALLED, capability)
