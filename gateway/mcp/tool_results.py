"""A provider's answer as the result of a tool: small enough for a model, and never half a JSON. No I/O."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jmespath.parser import ParsedResult

from gateway.mcp.json_select import MOST_VALUES, UnfitExpression, selected, values_in
from gateway.off_loop import INLINE_BYTES
from gateway.text import counted

LONGEST_MESSAGE: Final = 4000
_NOT_TEXT: Final = (
    "image/",
    "audio/",
    "video/",
    "font/",
    "application/octet-stream",
    "application/zip",
    "application/pdf",
)
CALL_AGAIN: Final = "Then call again."


@dataclass(frozen=True, slots=True)
class ShapedResult:
    """`result`: of `tools/call`. `keep`: the answer is not all in it, so the whole should be kept and linked."""

    result: dict[str, Any]
    keep: bool = False


@dataclass(slots=True)
class _Shaped:
    text: str
    value: Any = None
    has_value: bool = False
    note: str = ""
    keep: bool = False
    faulty: bool = False


def provider_result(
    status: int, reason: str, media_type: str, body: bytes, select: ParsedResult | None, max_bytes: int
) -> ShapedResult:
    """The answer of a provider, whatever its status. From 400 on it is an error of the tool, with status and body."""
    failed = status >= 400
    shaped = _shaped(media_type, body, None if failed else select, max_bytes)
    content = []
    if failed or not body:
        content.append(text_block(f"The provider answered {status} {reason}.".replace(" .", ".")))
    if shaped.text:
        content.append(text_block(shaped.text))
    if shaped.note:
        content.append(text_block(shaped.note))
    result: dict[str, Any] = {"content": content, "isError": failed or shaped.faulty}
    if failed:
        result["structuredContent"] = {"status": status, **({"body": shaped.value} if shaped.has_value else {})}
    elif shaped.has_value:
        result["structuredContent"] = shaped.value
    return ShapedResult(result, shaped.keep)


def refusal(error: Mapping[str, Any], status: int) -> dict[str, Any]:
    """An error of the gateway's own: which rule, who can change it, the next step; with a link, plain text to open it."""
    payload = error.get("payload") or {}
    lines = [str(error.get("message", "")).strip()]
    if "rule" in payload:
        lines.append(f"Rule: {payload['rule']}. Changed by: {payload.get('changed_by', '')}.")
    if "allowed" in payload:
        lines.append(f"Allowed: {'; '.join(map(str, payload['allowed'][:20]))}")
    if url := payload.get("connect_url"):
        lines.append(f"Ask the user to open {url} {CALL_AGAIN}")
    elif "fix" in payload:
        lines.append(str(payload["fix"]))
    shown = {**error, "status": status}
    return {
        "content": [text_block("\n".join(lines)[:LONGEST_MESSAGE])],
        "structuredContent": {"error": shown},
        "isError": True,
    }


def failure(message: str) -> dict[str, Any]:
    """Nothing was sent, or nothing came back that can be shown."""
    return {"content": [text_block(message[:LONGEST_MESSAGE])], "isError": True}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def link_block(uri: str, media_type: str, size: int) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": "whole answer", "mimeType": media_type, "size": size}


def _shaped(media_type: str, body: bytes, select: ParsedResult | None, max_bytes: int) -> _Shaped:
    if not body:
        return _Shaped("")
    kind = media_type.partition(";")[0].strip().lower()
    if kind.startswith(_NOT_TEXT):
        return _Shaped("", note=f"{counted(len(body), 'byte')} of {kind}, behind the link.", keep=True)
    if ("json" in kind or body[:1] in (b"{", b"[")) and values_in(body) <= MOST_VALUES:
        try:
            return _json(_document(body), body, select, max_bytes)
        except (ValueError, RecursionError):
            pass  # no JSON, or numbers that JSON does not have: a text like any other
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return _Shaped(
            "", note=f"{counted(len(body), 'byte')} of {kind or 'no named type'}, behind the link.", keep=True
        )
    note = (
        "'select' was not applied, since the answer is no JSON, or has too many values. " if select is not None else ""
    )
    if len(body) <= max_bytes:
        return _Shaped(text, note=note.strip())
    part = body[:max_bytes].decode(errors="ignore")
    return _Shaped(
        part, note=f"{note}The first {len(part.encode())} of {counted(len(body), 'byte')}; the link has all.", keep=True
    )


def _document(body: bytes) -> Any:
    """Raises ValueError. Half a surrogate pair, which no answer of ours may hold, becomes a question mark."""
    document = json.loads(body)
    if b"\\ud" in body or b"\\uD" in body:
        document = json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
    return document


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _json(document: Any, body: bytes, select: ParsedResult | None, max_bytes: int) -> _Shaped:
    """Raises ValueError for numbers that JSON does not have."""
    if select is not None:
        try:
            document = selected(select, document, values_in(body))
        except UnfitExpression as fault:
            return _Shaped("", note=f"{fault} The link has the whole answer.", keep=True, faulty=True)
    whole = _within(document, max_bytes, small=select is None and len(body) <= INLINE_BYTES)
    if whole is not None:
        return _Shaped(whole, document, has_value=True)
    return _first_part(document, len(body), max_bytes)


def _within(value: Any, max_bytes: int, *, small: bool = False) -> str | None:
    """`value` as compact JSON, if that has no more bytes. Unless it is `small`, encoding stops where it has more: a selection
    may be larger than its answer."""
    pieces: list[str] = []
    size = 0
    for piece in (_ENCODER.encode(value),) if small else _ENCODER.iterencode(value):
        size += len(piece.encode())
        if size > max_bytes:
            return None
        pieces.append(piece)
    return "".join(pieces)


def _first_part(document: Any, size: int, max_bytes: int) -> _Shaped:
    """As many whole items as fit of the list, or of the longest list among an object's members."""
    if isinstance(document, list):
        items = _items_within(document, max_bytes)
        if items:
            return _cut(items, f"{len(items)} of {len(document)} items", size, max_bytes)
    if isinstance(document, dict):
        lists = {name: value for name, value in document.items() if isinstance(value, list) and value}
        name = max(lists, key=lambda one: len(lists[one]), default=None)
        if name is not None:
            rest = {other: [] if other == name else value for other, value in document.items()}
            head = _within(rest, max_bytes)
            items = _items_within(lists[name], max_bytes - len(head.encode())) if head is not None else []
            if items:
                return _cut(
                    {**document, name: items}, f"{len(items)} of {len(lists[name])} of '{name[:64]}'", size, max_bytes
                )
        names = _items_within(list(document), max_bytes // 2)
        return _cut({"members": names}, "only the names of its members", size, max_bytes)
    return _cut(None, "nothing", size, max_bytes)


def _items_within(items: list[Any], max_bytes: int) -> list[Any]:
    taken: list[Any] = []
    left = max_bytes - 2
    for item in items:
        text = _within(item, max(left, 0))
        if text is None:
            break
        left -= len(text.encode()) + 1
        taken.append(item)
    return taken


def _cut(value: Any, what: str, size: int, max_bytes: int) -> _Shaped:
    text = _ENCODER.encode(value)
    note = (
        f"Cut to {what}: the answer has {counted(size, 'byte')}, and max_bytes is {max_bytes}. Call again with 'select' "
        "(JMESPath) for the fields you need, with fewer per page, or read the link."
    )
    return _Shaped(text, value, has_value=value is not None, note=note, keep=True)
