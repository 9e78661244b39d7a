"""Makes a provider's response shorter: selects by JMESPath and cuts to a maximum size. JSON stays valid JSON. No I/O.

The MCP tools use this module, and so do proxied calls with ``Gateway-Select`` or ``Gateway-Max-Bytes``.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from jmespath.parser import ParsedResult

from gateway.http.compact_json import ENCODER, compact_json, parse_json
from gateway.http.json_select import MAX_VALUES, UnusableExpression, evaluate, is_quick, values_in
from gateway.off_loop import INLINE_BYTES

INLINE_VALUES: Final = 4000  # a list that must be cut takes up to 4 µs for each value

_NOT_TEXT: Final = (
    "image/",
    "audio/",
    "video/",
    "font/",
    "application/octet-stream",
    "application/zip",
    "application/pdf",
)


def needs_thread(body: bytes, select: ParsedResult | None) -> bool:
    """Return whether shaping the body would block the event loop for too long."""
    if len(body) > INLINE_BYTES or (len(body) > 2 * INLINE_VALUES and body.count(b",") > INLINE_VALUES):
        return True
    return select is not None and not is_quick(select, body)


@dataclass(slots=True)
class ShapedBody:
    """A response after selection and shortening.

    - `text`: the response as text. `value`: the parsed value of a JSON response.
    - `is_whole`: whether nothing was cut. `cut_to`: a description of the remaining part; empty if nothing was cut.
    - `is_json`: whether the response is JSON. `is_text`: False for files and images, which have no `text` here.
    - `select_ignored`: whether the expression was not applied, because the response is not JSON.
    - `fault`: why the expression could not be evaluated; empty if there was no fault.
    - `only_names`: whether the value has only the names of the response's members.
    """

    text: str
    value: Any = None
    is_whole: bool = True
    is_json: bool = False
    is_text: bool = True
    select_ignored: bool = False
    cut_to: str = ""
    fault: str = ""
    only_names: bool = False


def shaped_body(media_type: str, body: bytes, select: ParsedResult | None, max_bytes: int) -> ShapedBody:
    """Return `body`, shortened to at most `max_bytes` bytes.

    JSON is cut between values, other text between characters. `select`: the expression to apply to JSON; None applies
    no expression.
    """
    if not body:
        return ShapedBody("")
    is_text, has_json_type = _kind(media_type)
    if not is_text:
        return ShapedBody("", is_whole=False, is_text=False)
    if (has_json_type or body[:1] in (b"{", b"[")) and (len(body) < MAX_VALUES or values_in(body) <= MAX_VALUES):
        try:
            return _shape_json(parse_json(body), body, select, max_bytes)
        except (ValueError, RecursionError):
            pass  # invalid JSON, or JSON with forbidden numbers, is treated as text
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ShapedBody("", is_whole=False, is_text=False)
    if len(body) <= max_bytes:
        return ShapedBody(text, select_ignored=select is not None)
    beginning = body[:max_bytes].decode(errors="ignore")
    cut_to = f"first {len(beginning.encode())}"
    return ShapedBody(beginning, is_whole=False, select_ignored=select is not None, cut_to=cut_to)


@lru_cache(maxsize=64)
def _kind(media_type: str) -> tuple[bool, bool]:
    """Return whether a body of this media type is shown as text, and whether it is JSON."""
    kind = media_type.partition(";")[0].strip().lower()
    return not kind.startswith(_NOT_TEXT), "json" in kind


def _shape_json(document: Any, body: bytes, select: ParsedResult | None, max_bytes: int) -> ShapedBody:
    """Select from a JSON response and cut the result. Raises ValueError for numbers that JSON does not allow."""
    if select is not None:
        try:
            document = evaluate(select, document, values_in(body))
        except UnusableExpression as fault:
            return ShapedBody("", is_whole=False, fault=str(fault))
    try:
        whole_json = _json_within(document, max_bytes, small=select is None and len(body) <= INLINE_BYTES)
        if whole_json is not None:
            return ShapedBody(whole_json, document, is_json=True)
        return _first_part(document, max_bytes)
    except (ValueError, TypeError):  # TypeError: the result contains an expression, as that of not_null(&a)
        if select is None:
            raise
        return ShapedBody("", is_whole=False, fault="'select' gives infinity or another value that JSON does not have.")


def _json_within(value: Any, max_bytes: int, *, small: bool = False) -> str | None:
    """Return `value` as compact JSON; None if the JSON has more than `max_bytes` bytes.

    `small`: whether the value is small, so that it can be encoded as a whole. If `small` is False, encoding stops at
    the limit, because a selection can be larger than the response.
    """
    if small:
        text = compact_json(value)
        return text.decode() if len(text) <= max_bytes else None
    pieces: list[str] = []
    size = 0
    for piece in ENCODER.iterencode(value):
        size += len(piece) if piece.isascii() else len(piece.encode())
        if size > max_bytes:
            return None
        pieces.append(piece)
    return "".join(pieces)


def _first_part(document: Any, max_bytes: int) -> ShapedBody:
    """Return the first items that fit into `max_bytes`, from a list or from the longest list in an object.

    If no item fits, return the names of an object's members, and nothing for any other value.
    """
    if isinstance(document, list):
        items = _items_within(document, max_bytes)
        if items:
            return _cut_result(items, f"{len(items)} of {len(document)} items")
    if isinstance(document, dict):
        lists = {name: value for name, value in document.items() if isinstance(value, list) and value}
        name = max(lists, key=lambda member: len(lists[member]), default=None)
        if name is not None:
            without_items = {member: [] if member == name else value for member, value in document.items()}
            rest_json = _json_within(without_items, max_bytes)
            items = _items_within(lists[name], max_bytes - len(rest_json.encode())) if rest_json is not None else []
            if items:
                return _cut_result({**document, name: items}, f"{len(items)} of {len(lists[name])} of '{name[:64]}'")
        names = _items_within(list(document), max_bytes // 2)
        return _cut_result({"members": names}, "only the names of its members", only_names=True)
    return _cut_result(None, "nothing")


def _items_within(items: list[Any], max_bytes: int) -> list[Any]:
    kept_items: list[Any] = []
    bytes_left = max_bytes - 2
    for item in items:
        text = _json_within(item, max(bytes_left, 0))
        if text is None:
            break
        bytes_left -= len(text.encode()) + 1
        kept_items.append(item)
    return kept_items


def _cut_result(value: Any, cut_to: str, *, only_names: bool = False) -> ShapedBody:
    text = ENCODER.encode(value)
    return ShapedBody(text, value, is_whole=False, is_json=True, cut_to=cut_to, only_names=only_names)
