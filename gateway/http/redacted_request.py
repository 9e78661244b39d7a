"""A request as it would be sent, with its credential out of sight: for people who want to see what leaves."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gateway.authority import DEFAULT_PORTS, bracketed
from gateway.http.headers import Fields, plain
from gateway.http.url import with_query
from gateway.records.proxied_call import UpstreamRequest

MASK: Final = "***"
NONE: Final[Mapping[str, str]] = {}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,19} +(?=\S)")  # RFC 9110 §11.4: Bearer, Basic, token …


def shown(
    request: UpstreamRequest,
    *,
    slots: Iterable[str],
    query_slots: Iterable[str],
    templates: Mapping[str, str] = NONE,
    base: str | None = None,
    body: tuple[str, int | None] | None = None,
) -> dict[str, Any]:
    """``{"method", "url", "headers": [[name, value], …], "body"}``, headers in the order of sending.

    `slots`, `query_slots`: names of the header fields and (percent-encoded) query parameters that carry the credential;
    `templates`: what the former are made from, in which a scheme before the credential is no secret. `base` stands in for
    the beginning of the URL, and for the host, where that holds a secret. `body`: where it comes from, and its length
    in bytes, None if it will be sent in chunks.
    """
    target = with_query(request.target, ((name, MASK) for name in query_slots), ())
    authority = bracketed(request.host)
    if request.port != DEFAULT_PORTS[request.scheme]:
        authority = f"{authority}:{request.port}"
    start = f"{request.scheme}://{authority}{request.base_path}" if base is None else base
    hidden = {plain(name) for name in slots}
    headers: Fields = [("Host", authority if base is None else base.partition("://")[2].partition("/")[0])]
    headers += [
        (name, _masked(templates.get(plain(name), value)) if plain(name) in hidden else value)
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


def _masked(template: str) -> str:
    """``Bearer ***``: the scheme is no secret, and a wrong one is worth seeing.

    It is read from the template, since a password may begin with a word and a space too. A signature has no template; its
    scheme is ours.
    """
    scheme = _SCHEME.match(template)
    return (scheme[0] if scheme else "") + MASK
