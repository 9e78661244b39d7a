"""Dry runs: for ``Gateway-Dry-Run: true``, returns the outgoing request to the caller instead of sending it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gateway.auth import modes
from gateway.auth.mode import Signer
from gateway.catalog.provider import Provider
from gateway.connections.opened import OpenedConnection
from gateway.http.headers import Fields, normalized_name
from gateway.http.request_head import LENGTH_EXPECTED
from gateway.http.url import with_query
from gateway.middleware.facts import CONNECTION, PROXY_OPTIONS, UPSTREAM
from gateway.origin import DEFAULT_PORTS, bracketed
from gateway.records.proxied_call import UpstreamRequest


@web.middleware
async def dry_run(request: web.Request, handler: Handler) -> web.StreamResponse:
    """For a dry run, return UPSTREAM as JSON with the credential masked, and send nothing to the provider.

    The request's body is not read here. If a rule of the key needs the body, `key_rules` has read it before.
    """
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
    opened: OpenedConnection, upstream: UpstreamRequest, *, has_body: bool, body: tuple[str, int | None] | None
) -> dict[str, Any]:
    """Return the outgoing request `upstream` as JSON, with the credential masked.

    The templates of the provider's catalog entry decide which parts are masked. The values are not compared with the
    credential. A text from the caller is shown unchanged even if it equals the credential, so nobody can confirm a
    guessed credential. `has_body`, `body`: whether the request has a body, and its description for `request_json`.
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


def _goes_to_own_base(opened: OpenedConnection, upstream: UpstreamRequest) -> bool:
    """Return whether the request goes to the entry's base URL, and not to a base URL that the caller named."""
    base = opened.base
    request_base = (upstream.scheme, upstream.host, upstream.port, upstream.base_path)
    return request_base == (base.scheme, base.host, base.port, base.path)


def _header_templates(provider: Provider) -> Mapping[str, str]:
    """Return the templates of header fields by name. The text before the credential in a template is not secret."""
    mode = modes().get(provider.auth_mode)
    default = mode.default_headers(provider) if mode is not None else {}
    return {normalized_name(name): template for name, template in {**default, **provider.proxy.headers}.items()}


def _sign(upstream: UpstreamRequest, signer: Signer | None, *, has_body: bool) -> tuple[str, ...]:
    """Sign `upstream`, and return the names of the header fields that carry the signature.

    If the signature covers the body, which a dry run does not read, these fields stay empty.
    """
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
    if hdrs.CONTENT_LENGTH in request.headers or request.method in LENGTH_EXPECTED:
        return "nothing", 0
    return None


# ── The outgoing request as JSON for people to read, with the credential masked.

MASK: Final = "***"
NO_TEMPLATES: Final[Mapping[str, str]] = {}
# Matches the authentication scheme before a credential, such as Bearer, Basic or token (RFC 9110 §11.4).
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,19} +(?=\S)")


def request_json(
    request: UpstreamRequest,
    *,
    slots: Iterable[str],
    query_slots: Iterable[str],
    templates: Mapping[str, str] = NO_TEMPLATES,
    base: str | None = None,
    body: tuple[str, int | None] | None = None,
) -> dict[str, Any]:
    """Return ``{"method", "url", "headers": [[name, value], …], "body"}``, with the headers in the order of sending.

    - `slots`, `query_slots`: names of the header fields and (percent-encoded) query parameters that carry the
      credential
    - `templates`: templates of those header fields; a scheme before the credential is not secret
    - `base`: a text that is shown instead of the request's base URL and host, if they contain a secret; else None
    - `body`: where the body comes from, and its length in bytes (None if it is sent in chunks); None for a request
      without a body
    """
    target = with_query(request.target, ((name, MASK) for name in query_slots), ())
    authority = bracketed(request.host)
    if request.port != DEFAULT_PORTS[request.scheme]:
        authority = f"{authority}:{request.port}"
    base_url = f"{request.scheme}://{authority}{request.base_path}" if base is None else base
    hidden = {normalized_name(name) for name in slots}
    headers: Fields = [("Host", authority if base is None else base.partition("://")[2].partition("/")[0])]
    headers += [
        (
            name,
            _masked_value(templates.get(normalized_name(name), value))
            if normalized_name(name) in hidden
            else _readable(value),
        )
        for name, value in request.headers.items()
    ]
    if body is not None:
        length = body[1]
        headers.append(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length)))
    return {
        "method": request.method,
        "url": base_url + target[len(request.base_path) :],
        "headers": [list(field) for field in headers],
        "body": None if body is None else {"from": body[0], "length_bytes": body[1]},
    }


def _readable(value: str) -> str:
    """Return a field value as valid Unicode: each byte that is not UTF-8 is shown as ``\\xff``.

    Without this, the JSON would contain half of a surrogate pair, which many parsers refuse.
    """
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _masked_value(template: str) -> str:
    """Return the masked value of a header field, such as ``Bearer ***``.

    The scheme is shown, because it is not secret and can be the fault that the caller looks for. The scheme comes from
    the template and not from the value, because a password can also begin with a word and a space. A signature has no
    template; the gateway itself writes its scheme.
    """
    scheme = _SCHEME.match(template)
    return (scheme[0] if scheme else "") + MASK
