"""Who is connecting: a connect session's token in Authorization (docs/compatibility.md#authentication)."""

from aiohttp import hdrs, web

from gateway.authorization.connect_sessions import SESSION_PREFIX
from gateway.middleware.bearer_key import bearer_key, key_in
from gateway.middleware.chain import Handler
from gateway.middleware.facts import CONNECT_SESSION, ENVIRONMENT
from gateway.records.access import Environment
from gateway.runtime import RUNTIME


@web.middleware
async def session_token(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn CONNECT_SESSION and ENVIRONMENT. Raises Unauthorized."""
    session = await request.app[RUNTIME].sessions.find(key_in(request.headers.get(hdrs.AUTHORIZATION)))
    request[CONNECT_SESSION], request[ENVIRONMENT] = session, Environment(session.environment)
    return await handler(request)


@web.middleware
async def session_or_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Either that, or a secret key as `bearer_key` learns it. What begins like a token is never tried as a key."""
    _, _, key = request.headers.get(hdrs.AUTHORIZATION, "").strip().partition(" ")
    by_session = key.strip().startswith(SESSION_PREFIX)
    return await (session_token if by_session else bearer_key)(request, handler)
