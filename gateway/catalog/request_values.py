"""What templates in `proxy.headers` and `proxy.query` may name of the request they stand in, as it is sent."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

FORM: Final = "application/x-www-form-urlencoded"


def request_values(method: str, url: str, *, content_type: str = "", body: bytes = b"") -> dict[str, str]:
    """The values called ``method``, ``host`` (with a port that is not the scheme's own), ``path``, ``params`` (the query),
    ``endpoint`` (path and query), ``contentType``, ``urlCanonicalParams`` and ``bodyCanonicalParams``.

    `url` is the final one, percent-encoded; all but the canonical parameters are its own text. `body` is given where it is
    known whole: members of a form or of a JSON object; of any other body the canonical parameters are empty.
    """
    parts = urlsplit(url)
    path = parts.path or "/"
    return {
        "method": method,
        "host": parts.netloc,
        "path": path,
        "params": parts.query,
        "endpoint": f"{path}?{parts.query}" if parts.query else path,
        "contentType": content_type,
        "urlCanonicalParams": canonical(parse_qsl(parts.query, keep_blank_values=True)),
        "bodyCanonicalParams": canonical(_members(content_type, body)),
    }


def canonical(pairs: Iterable[tuple[str, str]]) -> str:
    """``a=1&b=2``: sorted by name, then by value, each percent-encoded but for unreserved characters (RFC 3986 §2.3)."""
    return "&".join(
        f"{name}={value}" for name, value in sorted((_encoded(name), _encoded(text)) for name, text in pairs)
    )


def _encoded(text: str) -> str:
    return quote(text, safe="~")


def _members(content_type: str, body: bytes) -> list[tuple[str, str]]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == FORM:
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    if kind != "application/json":
        return []
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return []
    return [(name, _text(member)) for name, member in value.items()] if isinstance(value, Mapping) else []


def _text(member: Any) -> str:
    return member if isinstance(member, str) else json.dumps(member, separators=(",", ":"), ensure_ascii=False)
