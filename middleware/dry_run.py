"""Shows the request that would be sent: ``Gateway-Dry-Run: true`` returns the request instead of sending it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gateway.auth import modes
from gateway.auth.mode import Signer
from gateway.authority import DEFAULT_PORTS, bracketed
from gateway.catalog.provider import Provider
from gateway.connections.opened import Opened
from gateway.http.headers import Fields, normalized_name
from gateway.http.url import with_query
from gateway.middleware.facts import CONNECTION, PROXY_OPTIONS, UPSTREAM
from gateway.records.proxied_call import UpstreamRequest

_EXPECTS_A_BODY = frozenset({"POST", "PUT", "PATCH"})  # RFC 9110 §8.6


@web.middleware
async def dry_run(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return UPSTREAM as JSON, the credential masked. Nothing is sent to the provider, and the body is not read here
    (`key_rules` has read it if a rule needs it)."""
    if not request[PROXY_OPTIONS].dry_run:
        return await handler(request)
    preview = masked_request(
        request[CONNECTION], request[UPSTREAM], has_body=request.body_exists, body=_body_source(request)
    )
    response = web.json_response(preview, headers={hdrs.CACHE_CONTROL: "no-store", "Gateway-Attempts": "0"})
    if request.body_exists:
        response.force_close()
    return response


def masked_request(
    opened: Opened, upstream: UpstreamRequest, *, has_body: bool, body: tuple[str, int | None] | None
) -> dict[str, Any]:
    """Return the request that `upstream` and the credential make, as a dry run shows it: with the credential masked.

    The entry's templates decide what is masked, not the values: text from the caller is shown unchanged, so nobody can
    confirm a guessed credential.
    """
    signed = _sign(upstream, opened.placement.signer, has_body=has_body)
    return request_json(
        upstream,
        slots=[*(name for name, _ in opened.placement.slots), *signed],
        templates=_header_templates(opened.provider),
        query_slots=[quote(name, safe="") for name in opened.placement.query_names],
        base=opened.secret_base if _goes_to_own_base(opened, upstream) else None,
        body=body,
    )


def _goes_to_own_base(opened: Opened, upstream: UpstreamRequest) -> bool:
    """Return whether the request goes to the entry's base URL, and not to a base URL that the caller named."""
    base = opened.base
    used = (upstream.scheme, upstream.host, upstream.port, upstream.base_path)
    return used == (base.scheme, base.host, base.port, base.path)


def _header_templates(provider: Provider) -> Mapping[str, str]:
    """Return the templates of header fields by name: their text before the credential is not secret."""
    mode = modes().get(provider.auth_mode)
    default = mode.default_headers(provider) if mode is not None else {}
    return {normalized_name(name): template for name, template in {**default, **provider.proxy.headers}.items()}


def _sign(upstream: UpstreamRequest, signer: Signer | None, *, has_body: bool) -> tuple[str, ...]:
    """Sign `upstream` as far as possible without its body; return the names of the fields that carry the signature."""
    if signer is None:
        return ()
    if has_body and signer.wants_body(upstream):
        for name in signer.fields:
            upstream.headers[name] = ""
    else:
        signer.sign(upstream, None if has_body else b"")
    return signer.fields


def _body_source(request: web.Request) -> tuple[str, int | None] | None:
    if request.body_exists:
        return "the caller, as it comes", request.content_length
    if hdrs.CONTENT_LENGTH in request.headers or request.method in _EXPECTS_A_BODY:
        return "nothing", 0
    return None


# ── A request as it would be sent, with its credential hidden: for people who want to see the outgoing request.

MASK: Final = "***"
NO_TEMPLATES: Final[Mapping[str, str]] = {}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,19} +(?=\S)")  # RFC 9110 §11.4: Bearer, Basic, token …


def request_json(
    request: UpstreamRequest,
    *,
    slots: Iterable[str],
    query_slots: Iterable[str],
    templates: Mapping[str, str] = NO_TEMPLATES,
    base: str | None = None,
    body: tuple[str, int | None] | None = None,
) -> dict[str, Any]:
    """Return ``{"method", "url", "headers": [[name, value], …], "body"}``, headers in the order of sending.

    `slots`, `query_slots`: names of the header fields and (percent-encoded) query parameters that carry the credential.
    `templates`: templates of those header fields; a scheme before the credential is not secret. `base` replaces the
    beginning of the URL, and the host, if they hold a secret. `body`: its source, and its length in bytes, None if it
    will be sent in chunks.
    """
    target = with_query(request.target, ((name, MASK) for name in query_slots), ())
    authority = bracketed(request.host)
    if request.port != DEFAULT_PORTS[request.scheme]:
        authority = f"{authority}:{request.port}"
    start = f"{request.scheme}://{authority}{request.base_path}" if base is None else base
    hidden = {normalized_name(name) for name in slots}
    headers: Fields = [("Host", authority if base is None else base.partition("://")[2].partition("/")[0])]
    headers += [
        (name, _masked_value(templates.get(normalized_name(name), value)) if normalized_name(name) in hidden else value)
        for name, value in request.headers.items()
    ]
    if body is not None:
        length = body[1]
        headers.append(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length)))
    return {
        "method": request.method,
        "url": start + target[len(request.base_path) :],
        "headers": [list(field) for field in headers],
        "body": None if body is None else {"from": body[0], "length_bytes": body[1]},
    }


def _masked_value(template: str) -> str:
    """Return ``Bearer ***``: the scheme is not secret, and showing it helps to find a wrong one.

    The scheme is read from the template, since a password may also begin with a word and a space. A signature has no
    template; its scheme is ours.
    """
    scheme = _SCHEME.match(template)
    return (scheme[0] if scheme else "") + MASK
