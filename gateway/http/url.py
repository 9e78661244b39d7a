"""Paths and queries of a request line, joined byte for byte; dot segments as the most lenient reader sees them.

From the request line of a proxied call to the one the provider gets: joined as text, byte for byte.

No URL library touches the path or the query: each normalises something, and what it normalises may be what
a provider has signed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from gateway.errors import InvalidRequest
from gateway.http.origin import ABSOLUTE, parse_authority

# ── Dot segments, seen as the most lenient reader behind us might see them.
#
# One reading for what callers send and for what fills a template: where two differ, one lets through what the other
# stops.

_SEPARATOR: Final = re.compile(r"/|\\|%2f|%5c", re.IGNORECASE)


def has_dot_segment(path: str) -> bool:
    """Return whether a segment is ``.`` or ``..`` after one percent-decoding.

    Encoded and backward slashes separate, too. What follows ``;`` in a segment does not count, since some servers drop
    it (RFC 3986 §3.3).

    What follows ``;`` in a segment does not count, since some servers drop it (RFC 3986 §3.3).
    """
    if "." not in path and "%2" not in path:
        return False
    return any(unquote(segment).partition(";")[0] in {".", ".."} for segment in _SEPARATOR.split(path))


# ── Nested names in a query, as published clients write them (docs/compatibility.md#requests).


def members(query: Mapping[str, str], name: str) -> dict[str, str]:
    """``params[subdomain]=acme`` as ``{"subdomain": "acme"}``."""
    start = name + "["
    return {key[len(start) : -1]: text for key, text in query.items() if key.startswith(start) and key.endswith("]")}


_NOT_A_TARGET: Final = re.compile(r"[^!-~]|[\\#]")


class Rest(NamedTuple):
    """The address behind the mount prefix and ``/proxy``; `path` is empty or begins with ``/``, `query` so with ``?``."""

    path: str
    query: str


def origin_form(target: str, host: str) -> str:
    """The target without scheme and authority (RFC 9112 §3.2.1, §3.2.2); ``*`` stays.

    `host` is what Host says, found to be a host name by `head`: of one such as ``my_gw`` only the same text is accepted.

    Raises InvalidRequest ``bad_framing`` if an absolute target's authority is not the one in Host, a default port aside.
    """
    if target.startswith(("/", "*")):
        return target
    absolute = ABSOLUTE.match(target)
    if absolute is not None:
        scheme, authority = absolute["scheme"].lower(), absolute["authority"]
        asked = parse_authority(scheme, authority)
        if authority.lower() == host.lower() or (asked is not None and asked == parse_authority(scheme, host)):
            rest = target[absolute.end() :]
            return rest if rest.startswith("/") else f"/{rest}"
    raise InvalidRequest(
        "bad_framing", "The target's authority is not the one in Host. Send the path alone.", close=True
    )


def rest_of(target: str, mounted_at: str, shown: str | None = None) -> Rest:
    """Return the path and query to request from the provider. `mounted_at` is the literal start, for example
    ``/gateway/proxy``; `shown`: how a fault calls it, where it is secret.

    Raises InvalidRequest ``bad_path`` for another start (``/%70roxy``), dot segments in any spelling, and bytes that
    must be percent-encoded. The query may hold dot segments.
    """
    if _NOT_A_TARGET.search(target):
        raise InvalidRequest(
            "bad_path", "Percent-encode control characters, spaces, '\\', '#' and all that is not ASCII in the address."
        )
    rest = target.removeprefix(mounted_at)
    if not target.startswith(mounted_at) or rest[:1] not in ("", "/", "?"):
        raise InvalidRequest("bad_path", f"The path must begin literally with {shown or mounted_at}/.")
    path, mark, query = rest.partition("?")
    if has_dot_segment(path):
        raise InvalidRequest("bad_path", "The path holds a '.' or '..' segment; send the path it resolves to.")
    return Rest(path, mark + query)


def join(base_path: str, rest: Rest) -> str:
    """The target for the provider. `base_path` has no trailing slash; a `rest` without a path asks for the base."""
    return (base_path + rest.path or "/") + rest.query


def with_query(target: str, slots: Iterable[tuple[str, str]], defaults: Iterable[tuple[str, str]]) -> str:
    """`target` with pairs in its query, all percent-encoded already: `slots` replace what the caller sent under that
    name, in whatever encoding; `defaults` stand in where the caller sent none. The other pairs stay byte for byte."""
    path, _, query = target.partition("?")
    pairs = query.split("&") if query else []
    sent = [name_of(pair) for pair in pairs]
    added: list[str] = []
    replaced: set[str] = set()
    for name, value in slots:
        replaced.add(unquote_plus(name))
        added.append(f"{name}={value}")
    for name, value in defaults:
        if unquote_plus(name) not in sent and unquote_plus(name) not in replaced:
            added.append(f"{name}={value}")
    if not added:
        return target
    kept = [pair for pair, name in zip(pairs, sent, strict=True) if name not in replaced]
    return f"{path}?{'&'.join(kept + added)}"


def name_of(pair: str) -> str:
    """The name in ``name=value``, decoded."""
    return unquote_plus(pair.partition("=")[0])
