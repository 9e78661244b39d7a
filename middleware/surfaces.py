"""The chains of all surfaces, outermost link first. A new step is one new line here."""

from gateway.middleware.access_log import access_log
from gateway.middleware.chain import Chain
from gateway.middleware.dry_run import dry_run
from gateway.middleware.key_limits import key_rules, pace, scope
from gateway.middleware.request_message import invite_body, json_only, strict
from gateway.middleware.response_shape import cors, error_shape, request_id
from gateway.middleware.upstream import credentials, upstream
from gateway.middleware.wanted_response import decompress, paginate, shape
from gateway.middleware.which_connection import connection, proxied
from gateway.middleware.who_calls import audit_actor, bearer_key, capability, session_or_key, session_token

# No key is needed: end users' browsers, load balancers, and providers' webhooks, which are verified by signature.
OPEN = Chain(request_id, access_log, error_shape, strict, audit_actor)

# Programs, including scripts in browsers: the start of all chains below.
PROGRAM = Chain(request_id, access_log, cors, error_shape, strict)

# End users' browsers that post JSON; the connect session identifies the user.
SESSION_POST = Chain(*PROGRAM, audit_actor, json_only)

# The customer's back end.
API = Chain(*PROGRAM, bearer_key, audit_actor, scope, pace, json_only)

# The customer's back end, or the end user's browser under a connect session.
SESSION_OR_API = Chain(*PROGRAM, session_or_key, audit_actor, scope, pace, json_only)

# Only the end user's browser under a connect session.
SESSION = Chain(*PROGRAM, session_token, audit_actor, json_only)

# The links for the customer's requests to a provider.
PROXY_LINKS = (
    *(proxied, scope, pace, connection, upstream, paginate),
    *(key_rules, credentials, decompress, shape, dry_run, invite_body),
)
PROXY = Chain(*PROGRAM, bearer_key, *PROXY_LINKS)

# The same for a capability URL, which names key and connection: for clients that cannot send our headers.
CAPABILITY = Chain(*PROGRAM, capability, *PROXY_LINKS)

# An agent, by the Model Context Protocol. Its tool calls go through PROXY, which counts them; the agent door counts
# other messages.
AGENT = Chain(*PROGRAM, bearer_key, audit_actor, scope, json_only)

# The same below a capability URL; the rest of the chain follows once the connection's provider is known.
CAPABILITY_AGENT = Chain(*PROGRAM, capability)
