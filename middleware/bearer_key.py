"""Who is calling: the secret key in Authorization names one environment (RFC 6750 §2.1)."""

from typing import Final

from aiohttp import hdrs, web

from gateway.access.caller import Caller
from gateway.access.client_window import client_network
from gateway.errors import Unauthorized
from gateway.middleware.chain import Handler
from gateway.middleware.facts import CALLER, ENVIRONMENT, REQUEST_ID
from gateway.records.access import Kind
from gateway.runtime import RUNTIME, generation_of

SCHEMES: Final = frozenset({"bearer", "token"})  # GitHub's client libraries say `token`


@web.middleware
async def bearer_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn CALLER and ENVIRONMENT. Raises Unauthorized."""
    caller = await caller_of(request, key_in(request.headers.get(hdrs.AUTHORIZATION)), "key")
    request[CALLER] = caller
    request[ENVIRONMENT] = caller.environment
    return await handler(request)


async def caller_of(request: web.Request, text: str, kind: Kind) -> Caller:
    """Raises Unauthorized, or TooManyRequests where too many invalid keys have come from the client's address."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    try:
        caller = await generation.keys.caller(text, kind)
    except Unauthorized as fault:
        client = client_network(request.remote)
        raise runtime.invalid_keys.answer(fault, client, request[REQUEST_ID]) from fault
    runtime.minted.first_used(caller, request.remote or "")
    return caller


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
