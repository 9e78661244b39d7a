"""The ways in, outermost first. A new step is one new line here."""

from gateway.middleware.access_log import access_log
from gateway.middleware.answer_shape import cors, error_shape, request_id
from gateway.middleware.chain import Chain
from gateway.middleware.dry_run import dry_run
from gateway.middleware.key_limits import key_rules, pace, scope
from gateway.middleware.request_message import invite_body, json_only, strict
from gateway.middleware.upstream import credentials, upstream
from gateway.middleware.wanted_answer import decompress, paginate, shape
from gateway.middleware.which_connection import connection, proxied
from gateway.middleware.who_calls import audit_actor, bearer_key, capability, session_or_key, session_token

# No key is needed: end users' browsers, load balancers, and providers' webhooks, which prove themselves by signature.
OPEN = Chain(request_id, access_log, error_shape, strict, audit_actor)

# Programs, scripts in browsers among them, whatever they want.
CALLED = Chain(request_id, access_log, cors, error_shape, strict)

# End users' browsers that post JSON: the connect session says who.
POSTED = Chain(*CALLED, audit_actor, json_only)

# The customer's back end.
API = Chain(*CALLED, bearer_key, audit_actor, scope, pace, json_only)

# The same, and the end user's browser under a connect session.
SHOWN = Chain(*CALLED, session_or_key, audit_actor, scope, pace, json_only)

# That browser alone.
CONNECTING = Chain(*CALLED, session_token, audit_actor, json_only)

# The customer's requests on their way to a provider.
SENT = (
    *(proxied, scope, pace, connection, upstream, paginate),
    *(key_rules, credentials, decompress, shape, dry_run, invite_body),
)
PROXY = Chain(*CALLED, bearer_key, *SENT)

# The same by an address that names key and connection, for clients that know no headers of ours.
CAPABILITY = Chain(*CALLED, capability, *SENT)

# An agent, by the Model Context Protocol. What it calls goes through PROXY, which counts it; other messages the door counts.
AGENT = Chain(*CALLED, bearer_key, audit_actor, scope, json_only)

# The same below a capability's address; the rest of the chain follows when it is known whose address that is.
CAPABILITY_AGENT = Chain(*CALLED, capability)
