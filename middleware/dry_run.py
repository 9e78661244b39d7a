"""What would be sent: ``Gateway-Dry-Run: true`` asks to see the request instead of its answer."""

from urllib.parse import quote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gateway.auth.signer import Signer
from gateway.connections.opened import Opened
from gateway.wire.masked import shown
from middleware.facts import ASKED, CONNECTION, UPSTREAM

_EXPECTS_A_BODY = frozenset({"POST", "PUT", "PATCH"})  # RFC 9110 §8.6


@web.middleware
async def dry_run(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with UPSTREAM as it is, the credential masked. Nothing is sent, and the body is neither invited nor read."""
    if not request[ASKED].dry_run:
        return await handler(request)
    opened = request[CONNECTION]
    signed = _signed(request, opened.placement.signer)
    told = shown(
        request[UPSTREAM],
        slots=[*(name for name, _ in opened.placement.slots), *signed],
        query_slots=[quote(name, safe="") for name in opened.placement.query_names],
        base=_base_with_a_secret(opened),
        body=_body(request),
    )
    response = web.json_response(told, headers={hdrs.CACHE_CONTROL: "no-store", "Gateway-Attempts": "0"})
    if request.body_exists:
        response.force_close()
    return response


def _signed(request: web.Request, signer: Signer | None) -> tuple[str, ...]:
    """Sign UPSTREAM as far as that goes without its body; the names of the fields that carry the proof."""
    if signer is None:
        return ()
    upstream = request[UPSTREAM]
    if request.body_exists and signer.wants_body(upstream):
        for name in signer.fields:
            upstream.headers[name] = ""
    else:
        signer.sign(upstream, None if request.body_exists else b"")
    return signer.fields


def _base_with_a_secret(opened: Opened) -> str | None:
    """The entry's template of the base URL, if one of the settings it is filled with is secret."""
    template = opened.provider.proxy.base_url
    secret = (name for name, setting in opened.provider.connection_config.items() if setting.secret)
    return template.rstrip("/") if any(f"connectionConfig.{name}" in template for name in secret) else None


def _body(request: web.Request) -> tuple[str, int | None] | None:
    if request.body_exists:
        return "the caller, as it comes", request.content_length
    if hdrs.CONTENT_LENGTH in request.headers or request.method in _EXPECTS_A_BODY:
        return "nothing", 0
    return None
