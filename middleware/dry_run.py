"""What would be sent: ``Gateway-Dry-Run: true`` asks to see the request instead of its answer."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gateway.auth import modes
from gateway.auth.mode import Signer
from gateway.catalog.provider import Provider
from gateway.connections.opened import Opened
from gateway.http.headers import plain
from gateway.http.redacted_request import shown
from gateway.middleware.facts import ASKED, CONNECTION, UPSTREAM
from gateway.records.proxied_call import UpstreamRequest

_EXPECTS_A_BODY = frozenset({"POST", "PUT", "PATCH"})  # RFC 9110 §8.6


@web.middleware
async def dry_run(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with UPSTREAM as it is, the credential masked. Nothing is sent, and the body is neither invited nor read."""
    if not request[ASKED].dry_run:
        return await handler(request)
    preview = masked(request[CONNECTION], request[UPSTREAM], has_body=request.body_exists, body=_body(request))
    response = web.json_response(preview, headers={hdrs.CACHE_CONTROL: "no-store", "Gateway-Attempts": "0"})
    if request.body_exists:
        response.force_close()
    return response


def masked(
    opened: Opened, upstream: UpstreamRequest, *, has_body: bool, body: tuple[str, int | None] | None
) -> dict[str, Any]:
    """`upstream`, its credential placed, as a dry run shows it.

    What is masked follows from the entry's templates and not from values: what the caller wrote is shown as it is, so
    nobody can find out a credential by guessing it.
    """
    signed = _signed(upstream, opened.placement.signer, has_body=has_body)
    return shown(
        upstream,
        slots=[*(name for name, _ in opened.placement.slots), *signed],
        templates=_templates(opened.provider),
        query_slots=[quote(name, safe="") for name in opened.placement.query_names],
        base=opened.secret_base if _is_own(opened, upstream) else None,
        body=body,
    )


def _is_own(opened: Opened, upstream: UpstreamRequest) -> bool:
    """Whether it goes to the entry's base address, and not to one that the caller named."""
    base = opened.base
    there = (upstream.scheme, upstream.host, upstream.port, upstream.base_path)
    return there == (base.scheme, base.host, base.port, base.path)


def _templates(provider: Provider) -> Mapping[str, str]:
    """The templates of header fields, by name: what stands in them before the credential is no secret."""
    mode = modes().get(provider.auth_mode)
    default = mode.default_headers(provider) if mode is not None else {}
    return {plain(name): template for name, template in {**default, **provider.proxy.headers}.items()}


def _signed(upstream: UpstreamRequest, signer: Signer | None, *, has_body: bool) -> tuple[str, ...]:
    """Sign `upstream` as far as that goes without its body; the names of the fields that carry the proof."""
    if signer is None:
        return ()
    if has_body and signer.wants_body(upstream):
        for name in signer.fields:
            upstream.headers[name] = ""
    else:
        signer.sign(upstream, None if has_body else b"")
    return signer.fields


def _body(request: web.Request) -> tuple[str, int | None] | None:
    if request.body_exists:
        return "the caller, as it comes", request.content_length
    if hdrs.CONTENT_LENGTH in request.headers or request.method in _EXPECTS_A_BODY:
        return "nothing", 0
    return None
