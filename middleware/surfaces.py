"""The middleware chains of all surfaces, the outermost link first. To add a step to a surface, add a line here."""

from gateway.middleware.access_log import access_log, proxied
from gateway.middleware.chain import Chain
from gateway.middleware.dry_run import dry_run
from gateway.middleware.key_limits import key_rules, rate_limit, scope
from gateway.middleware.request_message import invite_body, json_only, strict
from gateway.middleware.response_shape import cors, error_shape, request_id
from gateway.middleware.upstream import connection, credentials, upstream
from gateway.middleware.wanted_response import decompress, paginate, shape
from gateway.middleware.who_calls import audit_actor, bearer_key, capability, session_or_key, session_token

# For requests without a key: end users' browsers, load balancers, and providers' webhooks. Webhooks are verified by
# their signature.
OPEN = Chain(request_id, access_log, error_shape, strict, audit_actor)

# For programs, including scripts in browsers. All chains below begin with these links.
PROGRAM = Chain(request_id, access_log, cors, error_shape, strict)

# For end users' browsers that post JSON. The connect session identifies the end user.
SESSION_POST = Chain(*PROGRAM, audit_actor, json_only)

# For the customer's back end.
API = Chain(*PROGRAM, bearer_key, audit_actor, scope, rate_limit, json_only)

# For the customer's back end, or the end user's browser with a connect session.
SESSION_OR_API = Chain(*PROGRAM, session_or_key, audit_actor, scope, rate_limit, json_only)

# For the end user's browser with a connect session.
SESSION = Chain(*PROGRAM, session_token, audit_actor, json_only)

# The links for the customer's requests to a provider.
PROXY_LINKS = (
    *(proxied, scope, rate_limit, connection, upstream, paginate),
    *(key_rules, credentials, decompress, shape, dry_run, invite_body),
)
PROXY = Chain(*PROGRAM, bearer_key, *PROXY_LINKS)

# The chain of PROXY for a capability URL, which identifies the key and the connection. This chain is for clients that
# cannot send the gateway's headers.
CAPABILITY = Chain(*PROGRAM, capability, *PROXY_LINKS)

# For an agent that uses the Model Context Protocol. The agent's tool calls go through PROXY, which counts them for the
# key's rate limit. The MCP endpoint itself counts all other messages.
AGENT = Chain(*PROGRAM, bearer_key, audit_actor, scope, json_only)

# For an agent that uses a capability URL. The other links depend on the connection's provider, so the handler calls
# them (`gateway.mcp.lazy_endpoint`).
CAPABILITY_AGENT = Chain(*PROGRAM, capability)
