"""Finds requests that two servers can read differently: as another method, another path or another object.

The gateway compares a request with a key's rules. The provider, or a server in front of it, must not understand another
request than the gateway has compared. So the gateway refuses each request that can be read in two ways, if the key has
rules.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_plus, unquote_to_bytes

from gateway.http.url import has_dot_segment

# ── Paths.

MAX_PATH_LENGTH: Final = 2048  # maximum length of a path; a longer path matches no rule
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_DELIMITERS: Final = frozenset(b"/\\?#%;")
_PUNCTUATION: Final = frozenset("/\\?#%;.")
# Windows converts these characters to a slash or a backslash if its code page lacks them ("best fit").
_LOOKALIKES: Final = frozenset("\u2044\u2215\u29f8\u2216\u29f5\u00a5\u20a9")


def path_ambiguity(path: str) -> str | None:
    """Return why two servers can read `path` as different paths; None if they cannot.

    The text is the end of a sentence that begins with "a path that".

    `path` is visible ASCII without ``\\`` and ``#``, as `http.url.parse_proxied_target` returns it.
    """
    if len(path) > MAX_PATH_LENGTH:
        return f"has more than {MAX_PATH_LENGTH} characters"
    if "//" in path:
        return "contains '//'"
    if ";" in path:
        return "contains ';'"
    if has_dot_segment(path):
        return "contains a '.' or '..' segment"
    if "./" in path or path.endswith("."):
        return "has a segment that ends in '.'"
    return _escape_ambiguity(path) if "%" in path else None


def _escape_ambiguity(path: str) -> str | None:
    for escape in _ESCAPE.finditer(path):
        if escape[1] is None:
            return "contains a '%' that encodes nothing"
        byte = int(escape[1], 16)
        if byte in _DELIMITERS or byte < 0x20 or byte == 0x7F:
            return f"contains '{escape[0]}', an encoded delimiter or control character"
        if byte in _UNRESERVED:
            return f"contains '{escape[0]}', which must be written as '{chr(byte)}'"
    try:
        text = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return "is not UTF-8 once it is decoded"
    if any(segment != segment.strip() for segment in text.split("/")):
        return "has a segment that begins or ends with a space"
    if not _LOOKALIKES.isdisjoint(text):
        return "contains a character that some parsers read as a delimiter"
    normalized_text = unicodedata.normalize("NFKC", text)
    if not _LOOKALIKES.isdisjoint(normalized_text):  # for example U+FFE5, a wide yen sign
        return "contains a character that some parsers read as a delimiter"
    if sum(map(normalized_text.count, _PUNCTUATION)) != sum(map(text.count, _PUNCTUATION)):
        return "contains a character that some parsers read as a delimiter"
    return None


# ── Headers.

# Headers that make frameworks and gateways replace the method or path of the request line, or that make a request read
# or write a second path.
OVERRIDES: Final = frozenset(
    {
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
        "x-method",
        "http-method-override",
        "x-http-verb-override",
        "x-http-verb",
        "x-httpmethod-override",
        "x-httpmethod",
        "x-ms-http-method-override",
        "x-original-method",
        "x-original-url",
        "x-original-uri",
        "x-original-path",
        "x-request-uri",
        "x-rewrite-uri",
        "x-rewrite-url",
        "x-override-url",
        # Headers with the path of another object, which `_OTHER_OBJECT` does not match.
        "x-emc-path",  # Dell EMC Atmos: the object's new name
        "x-object-manifest",  # OpenStack Swift
    }
)
# Headers that name another object, such as ``x-amz-copy-source`` and ``x-oss-symlink-target``. The provider copies or
# moves this object to the path of the request line, or links to it. Storage services use similar names for such
# headers, so the pattern also matches headers that are not known yet.
_OTHER_OBJECT: Final = re.compile(
    r"x-(?:.+-)?(?:(?:copy|fetch|move|rename)-(?:from|source)|symlink-target)|x-.+-source-?ur[il]"
)
_DESTINATION: Final = "destination"
_WITH_DESTINATION: Final = frozenset({"COPY", "MOVE"})  # RFC 4918 §10.3; other methods ignore this header


@lru_cache(maxsize=512)  # the fast path passes the same set for each request with the same header fields
def override_header(method: str, names: frozenset[str]) -> str | None:
    """Return the header in `names` that can change the request's method or path, or can name another object.

    Return None if no header can, and the first by name if several can. `method`: the request's method.
    """
    headers = [
        name
        for name in names
        if name in OVERRIDES or _OTHER_OBJECT.fullmatch(name) or (name == _DESTINATION and method in _WITH_DESTINATION)
    ]
    return min(headers, default=None)


# ── Query parameters.

# Query parameters with the same effect. Some providers read the headers' names in the query, too.
QUERY_OVERRIDES: Final = frozenset({"_method", "_httpmethod", "$httpmethod", "httpmethod", "$method"}) | {
    name for name in OVERRIDES if "method" in name
}
_METHOD_PARAMETER: Final = "method"  # also an ordinary parameter, so an override only if its value is a method
_METHODS: Final = frozenset({"get", "head", "post", "put", "patch", "delete", "options"})
MAY_OVERRIDE: Final = re.compile(r"method|%", re.IGNORECASE)


def override_parameter(query: str) -> str | None:
    """Return the query parameter with which some providers and frameworks replace the method.

    Return None if the query has no such parameter. If `MAY_OVERRIDE` finds nothing in the query, the query has none.
    """
    for pair in re.split("[&;?]", query):
        name, _, value = pair.partition("=")
        name, value = unquote_plus(name).strip().lower(), unquote_plus(value).strip().lower()
        for spelling in (name, _php_name(name)):
            if spelling in QUERY_OVERRIDES or (spelling == _METHOD_PARAMETER and value in _METHODS):
                return spelling
    return None


def _php_name(name: str) -> str:
    """Return PHP's variable name for a parameter: ``.method``, ``_method[]`` and ``_method%00x`` become ``_method``."""
    return name.partition("\0")[0].partition("[")[0].lstrip(" ").replace(".", "_").replace(" ", "_")
