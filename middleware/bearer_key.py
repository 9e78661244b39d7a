"""Who is calling: the secret key in Authorization names one environment (RFC 6750 §2.1)."""

from typing import Final

from aiohttp import hdrs, web

from gateway.errors import Unauthorized
from gateway.services import SERVICES
from middleware.chain import Handler
from middleware.facts import CALLER, ENVIRONMENT

SCHEMES: Final = frozenset({"bearer", "token"})  # GitHub's client libraries say `token`


@web.middleware
async def bearer_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn CALLER and ENVIRONMENT. Raises Unauthorized."""
    caller = await request.app[SERVICES].keys.caller(key_in(request.headers.get(hdrs.AUTHORIZATION)))
    request[CALLER] = caller
    request[ENVIRONMENT] = caller.environment
    return await handler(request)


def key_in(field: str | None) -> str:
    """The bearer's key. Raises Unauthorized where the field is missing, or is no ``Bearer <key>`` with one key."""
    if field is None:
        raise Unauthorized("missing_auth_header", "Send the environment's secret key as 'Authorization: Bearer <key>'.")
    scheme, _, key = field.strip().partition(" ")
    key = key.strip()
    if scheme.lower() not in SCHEMES or not key or " " in key or "," in key:
        raise Unauthorized(
            "malformed_auth_header",
            "Authorization must be 'Bearer <key>' with one secret key and nothing else.",
        )
    return key
