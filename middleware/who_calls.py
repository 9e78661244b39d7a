"""Identifies the caller by a secret key, a connect session's token, or a capability URL.
Sets the actor for the audit trail."""

import re
from typing import Final
from urllib.parse import quote, unquote

from aiohttp import hdrs, web

from gateway.access.caller import Caller
from gateway.access.client_window import client_network
from gateway.access.known_keys import invalid_key_error
from gateway.authorization.connect_sessions import SESSION_PREFIX
from gateway.errors import Unauthorized
from gateway.middleware.chain import Handler
from gateway.middleware.facts import CALLER, CAPABILITY, CONNECT_SESSION, ENVIRONMENT, REQUEST_ID
from gateway.records.access import Capability, Environment, KeyKind
from gateway.records.audit import AuditActor, current_actor
from gateway.runtime import RUNTIME, generation_of
from gateway.secret import Secret, digest

SCHEMES: Final = frozenset({"bearer", "token"})  # GitHub's client libraries send `token`


# ── The secret key in Authorization (RFC 6750 §2.1) identifies the environment.


@web.middleware
async def bearer_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Identify the caller by a secret key, and set CALLER and ENVIRONMENT. Raises Unauthorized."""
    caller = await caller_of(request, key_in(request.headers.get(hdrs.AUTHORIZATION)), "key")
    request[CALLER] = caller
    request[ENVIRONMENT] = caller.environment
    return await handler(request)


async def caller_of(request: web.Request, text: str, kind: KeyKind) -> Caller:
    """Return the caller that the key identifies. `text`: the key.

    Raises Unauthorized for an invalid key, and TooManyRequests after too many invalid keys from the client's network.
    """
    runtime, generation = request.app[RUNTIME], generation_of(request)
    try:
        caller = await generation.keys.caller(text, kind)
    except Unauthorized as fault:
        client = client_network(request.remote)
        raise runtime.invalid_keys.response(fault, client, request[REQUEST_ID]) from fault
    runtime.minted.record_first_use(caller, request.remote or "")
    return caller


def key_in(field: str | None) -> str:
    """Return the key in an Authorization field. `field`: the field's value; None: the field is missing.

    Raises Unauthorized if the field is missing or is not ``Bearer <key>`` with exactly one key.
    """
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


# ── The end user who connects: a connect session's token in Authorization (docs/compatibility.md#authentication).


@web.middleware
async def session_token(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find the connect session by its token, and set CONNECT_SESSION and ENVIRONMENT. Raises Unauthorized."""
    session = await request.app[RUNTIME].sessions.find(key_in(request.headers.get(hdrs.AUTHORIZATION)))
    request[CONNECT_SESSION], request[ENVIRONMENT] = session, Environment(session.environment)
    return await handler(request)


@web.middleware
async def session_or_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Identify the caller with `session_token` if the text has a session token's prefix, else with `bearer_key`."""
    _, _, key = request.headers.get(hdrs.AUTHORIZATION, "").strip().partition(" ")
    by_session = key.strip().startswith(SESSION_PREFIX)
    return await (session_token if by_session else bearer_key)(request, handler)


# ── A capability URL, ``/c/<capability>/…``, identifies the key and the connection, so no header is needed.

CAPABILITY_PARAMETER: Final = "capability"  # the name of the parameter in the route's path
REFERRER_POLICY: Final = ("Referrer-Policy", "no-referrer")
_CAPABILITY_IN_PATH: Final = re.compile(r"(^/c/|/c/(?=gw_cap_))([^/?]+)")
_MINTED_KEY: Final = re.compile(r"gw_(?:cap|sk)_[A-Za-z0-9_-]+")
_UNQUOTED: Final = "/?&=:@!$'()*+,;~"


@web.middleware
async def capability(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Identify the caller by a capability URL, and set CALLER, ENVIRONMENT and CAPABILITY. Raises Unauthorized.

    `with_referrer_policy` is called here for a response that is not prepared yet. Code that prepares a streamed
    response calls this function itself, and so does `error_shape` for errors.
    """
    token = request.match_info[CAPABILITY_PARAMETER]
    caller = await caller_of(request, token, "capability")
    request[CALLER] = caller
    request[ENVIRONMENT] = caller.environment
    request[CAPABILITY] = capability_of(caller, Secret(token), capability_mount(request, token))
    response = await handler(request)
    return response if response.prepared else with_referrer_policy(response, request)


def capability_of(caller: Caller, token: Secret, mount: str) -> Capability:
    """Return the capability of the caller's key. Raises Unauthorized if the key is not bound to a connection.

    `token`: the key. `mount`: the start of the URL's path, with the key.
    """
    ref = caller.access.bound_connection if caller.access is not None else None
    if ref is None:
        raise invalid_key_error("capability")
    return Capability(Secret(mount), token, ref)


def capability_mount(request: web.Request, token: str) -> str:
    """Return the start of the capability URL's path: a host application's prefix, if it has one, and ``/c/<token>``."""
    resource = request.match_info.route.resource
    prefix = resource.canonical.partition("{")[0] if resource is not None else "/c/"
    return prefix + token


def with_referrer_policy(response: web.StreamResponse, request: web.BaseRequest) -> web.StreamResponse:
    """Return `response`. For a call by a capability URL, set the gateway's Referrer-Policy first.

    The policy keeps browsers from sending the secret URL to other sites.
    """
    if CAPABILITY in request:
        name, value = REFERRER_POLICY
        response.headers[name] = value
    return response


def mask_secrets_in_path(path: str) -> str:
    """Return `path` for a log: each capability or key in `path` is replaced with the first characters of its digest.

    Percent-encoded secrets are replaced too, because the router decodes paths before it matches them. Secrets are
    replaced at every position, because a mistyped URL also contains the secret.
    """
    decoded = unquote(path) if "%" in path else path
    if decoded != path and _CAPABILITY_IN_PATH.search(decoded):
        path = quote(decoded, safe=_UNQUOTED)
    return mask_keys(_CAPABILITY_IN_PATH.sub(lambda match: match[1] + digest(match[2])[:8], path, count=1))


def mask_keys(text: str) -> str:
    """Return `text` with each key or capability replaced with the first characters of its digest.

    `text`: a part of a URL, or the value of a header. Percent-encoded keys are replaced too.
    """
    if "%" in text:
        decoded = unquote(text)
        if _MINTED_KEY.search(decoded):
            text = quote(decoded, safe=_UNQUOTED)
    elif "gw_" not in text:  # true for nearly every text
        return text
    return _MINTED_KEY.sub(lambda match: digest(match[0])[:8], text)


# ── The actor for the audit trail: the key, the connect session or the browser, and its network address.


@web.middleware
async def audit_actor(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set `gateway.records.audit.current_actor` during the request.

    In a chain, this link must come after the links that identify the caller.
    """
    token = current_actor.set(_actor(request))
    try:
        return await handler(request)
    finally:
        current_actor.reset(token)  # the next request on this connection may have another actor


def _actor(request: web.Request) -> AuditActor:
    caller: Caller | None = request.get(CALLER)
    address, session = request.remote or "", request.get(CONNECT_SESSION)
    if caller is not None:
        return caller.actor(address)
    if session is None:
        return AuditActor("browser", address=address)
    key_id = int(session.key_id) if session.key_id else None
    return AuditActor("session", key_id=key_id, session=session.digest[:16], address=address)
