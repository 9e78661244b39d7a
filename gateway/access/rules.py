"""Rules such as ``GET /ex/*/rest/api/3/search*``: which methods, on which paths.

    rule     = methods SP path
    methods  = "*" / method *("," method)      a method is compared as it is sent; ``WEBSOCKET`` stands for an upgrade
    path     = "/" ...                         ``*`` is any run of characters but "/", ``**`` any run at all, once a rule

The path of a rule is held against the path that the provider gets, base URL included, byte for byte and without its
query. `ambiguous` says which paths are not compared at all, since another reader may take them for another path.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.dot_segments import has_dot_segment

WEBSOCKET: Final = "WEBSOCKET"
MOST_CHARS: Final = 512  # of a rule
LONGEST_PATH: Final = 2048  # of a path that is held against rules

_METHOD: Final = re.compile(r"[A-Z]+(?:-[A-Z]+)*")
_LITERAL: Final = re.compile(r"[!\"$-:<->@-\[\]-~]*")  # visible, but for # ; ? and \
_PIECES: Final = re.compile(r"\*\*|\*|/|[^*/]+")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_DELIMITERS: Final = frozenset(b"/\\?#%;")
_PUNCTUATION: Final = frozenset("/\\?#%;.")


@dataclass(frozen=True, slots=True)
class Rule:
    """`text` as it was written; `methods` None: any."""

    text: str
    methods: frozenset[str] | None
    path: re.Pattern[str]

    def fits(self, method: str, path: str) -> bool:
        return (self.methods is None or method in self.methods) and self.path.fullmatch(path) is not None


def parse(text: str) -> Rule:
    """Raises ValueError, in words that follow the rule's name: ``'GET' has no path …``."""
    methods, space, path = text.partition(" ")
    if len(text) > MOST_CHARS:
        raise ValueError(f"is longer than {MOST_CHARS} characters")
    if not space or not path.startswith("/"):
        raise ValueError("has no path: write METHOD /path, for example 'GET /v1/items/*'")
    named = None if methods == "*" else frozenset(methods.split(","))
    if named is not None and not all(_METHOD.fullmatch(method) for method in named):
        raise ValueError("must begin with methods in capitals joined by commas, or with *")
    bare = path.replace("*", "")
    if not _LITERAL.fullmatch(bare):
        raise ValueError("holds a character that no path has as it is; percent-encode it, and leave the query out")
    if path.count("**") > 1 or "***" in path:
        raise ValueError("may hold '**' once")
    if (fault := ambiguous(path.replace("*", "x"))) is not None:
        raise ValueError(f"would never fit, since a path that {fault} is refused")
    return Rule(text, named, _compiled(path))


def _compiled(path: str) -> re.Pattern[str]:
    """As a regular expression that takes linear time, but for its one ``**``.

    A run within a segment that another one follows ends at the first place where its text goes on: ending later could
    never help, so the group is atomic.
    """
    pieces: list[str] = _PIECES.findall(path)
    out: list[str] = []
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        following = pieces[at + 1] if at + 1 < len(pieces) else "/"
        after = pieces[at + 2] if at + 2 < len(pieces) else "/"
        if piece == "*" and following not in ("*", "**", "/") and after in ("*", "**"):
            out.append(f"(?>[^/]*?{re.escape(following)})")
            at += 1
        else:
            out.append({"*": "[^/]*", "**": ".*"}.get(piece) or re.escape(piece))
        at += 1
    return re.compile("".join(out), re.DOTALL)


def ambiguous(path: str) -> str | None:
    """Why two readers may take `path` for different paths; words that follow "a path that". None: it is plain.

    `path` is visible ASCII without ``\\`` and ``#``, as `wire.url.rest_of` leaves it.
    """
    if len(path) > LONGEST_PATH:
        return f"has more than {LONGEST_PATH} characters"
    if "//" in path:
        return "holds '//'"
    if ";" in path:
        return "holds ';'"
    if has_dot_segment(path):
        return "holds a '.' or '..' segment"
    if any(segment.endswith(".") for segment in path.split("/")):
        return "has a segment that ends in '.'"
    return _ambiguous_escapes(path) if "%" in path else None


def _ambiguous_escapes(path: str) -> str | None:
    for found in _ESCAPE.finditer(path):
        if found[1] is None:
            return "holds a '%' that encodes nothing"
        byte = int(found[1], 16)
        if byte in _DELIMITERS or byte < 0x20 or byte == 0x7F:
            return f"holds '{found[0]}', an encoded delimiter or control character"
        if byte in _UNRESERVED:
            return f"holds '{found[0]}', which is '{chr(byte)}' and must be written so"
    try:
        text = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return "is not UTF-8 once it is decoded"
    if any(segment != segment.strip() for segment in text.split("/")):
        return "has a segment that begins or ends with a space"
    folded = unicodedata.normalize("NFKC", text)
    if sum(map(folded.count, _PUNCTUATION)) != sum(map(text.count, _PUNCTUATION)):
        return "holds a character that some readers take for a delimiter"
    return None
