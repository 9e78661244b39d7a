"""Turns a provider's response into a tool result that is small enough for a model. No I/O.

A result never contains a part of a JSON value that was cut in the middle.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jmespath.parser import ParsedResult

from gateway.http.shaped_body import ShapedBody, shaped_body
from gateway.text import counted

MAX_MESSAGE_CHARS: Final = 4000
OPEN_LINK: Final = "Ask the user to open this link, then call again:"
SELECT_EMPTY: Final = (
    "'select' found nothing: the response has no such member, or the member is null. To see the members, call again "
    "without 'select' and with a small 'max_bytes'."
)
SELECT_UNUSED: Final = "'select' was not applied, since the response is not JSON, or has too many values."


@dataclass(slots=True)
class ShapedResult:
    """A result of `tools/call`.

    `is_partial`: whether the result shows only a part of the response. Then the caller keeps the whole response and
    adds a link to it. `structured_json`: the result's ``structuredContent`` as compact JSON text; None if that text is
    not known. `only_names`: whether the result has only the names of the response's members, so no item of a list.
    """

    result: dict[str, Any]
    is_partial: bool = False
    structured_json: str | None = None
    only_names: bool = False


def provider_result(
    status: int, reason: str, media_type: str, body: bytes, select: ParsedResult | None, max_bytes: int
) -> ShapedResult:
    """Return the result for a provider's response.

    A status of 400 or above gives a tool error with the status and the body. `reason`: the phrase for the status; empty
    if unknown. `select`: the expression to apply to the body; None applies no expression. `max_bytes`: the maximum size
    of the result in bytes.
    """
    failed = status >= 400
    shaped = shaped_body(media_type, body, None if failed else select, max_bytes)
    if select is None and not failed and shaped.is_whole and shaped.is_json:  # the usual response
        tool_result = {"content": [text_block(shaped.text)], "isError": False, "structuredContent": shaped.value}
        return ShapedResult(tool_result, False, shaped.text)  # `text` is `value` as compact JSON
    note = note_of(shaped, media_type, len(body), max_bytes)
    if select is not None and not failed and shaped.is_json and shaped.is_whole and shaped.value is None:
        note = SELECT_EMPTY
    has_value = shaped.is_json and (shaped.is_whole or shaped.value is not None)
    content = []
    if failed or not body:
        content.append(text_block(f"The provider returned {status} {reason}.".replace(" .", ".")))
    if shaped.text:
        content.append(text_block(shaped.text))
    if note:
        content.append(text_block(note))
    result: dict[str, Any] = {"content": content, "isError": failed or bool(shaped.fault)}
    if failed:
        result["structuredContent"] = {"status": status, **({"body": shaped.value} if has_value else {})}
    elif has_value:
        result["structuredContent"] = shaped.value
        return ShapedResult(
            result, not shaped.is_whole, shaped.text, shaped.only_names
        )  # `text` is `value` as compact JSON
    return ShapedResult(result, not shaped.is_whole)


def note_of(shaped: ShapedBody, media_type: str, size: int, max_bytes: int) -> str:
    """Return a note for the model about an incomplete result; empty if the result is complete."""
    if shaped.fault:
        return f"{shaped.fault} The request was sent; the link has the whole response."
    unselected = f"{SELECT_UNUSED} " if shaped.select_ignored else ""
    if shaped.is_whole:
        return unselected.strip()
    if not shaped.is_text:
        content_type = media_type.partition(";")[0].strip().lower()
        return f"{counted(size, 'byte')} of {content_type or 'an unknown type'}: read the link."
    if shaped.is_json:
        return (
            f"Cut to {shaped.cut_to}: the response has {counted(size, 'byte')}, and max_bytes is {max_bytes}. Call "
            "again with 'select' (JMESPath) for the fields you need, with fewer items per page, or read the link."
        )
    return f"{unselected}This is the {shaped.cut_to} of {counted(size, 'byte')}. The link has the whole response."


def error_result(error: Mapping[str, Any], status: int) -> dict[str, Any]:
    """Return the result for an error of the gateway.

    The result has the message, the rule, who can change the rule, and either a link or the fix.
    """
    payload = error.get("payload") or {}
    lines = [str(error.get("message", "")).strip()]
    if "rule" in payload:
        lines.append(f"Rule: {payload['rule']}. Changed by: {payload.get('changed_by', '')}.")
    if "allowed" in payload:
        lines.append(f"Allowed: {'; '.join(map(str, payload['allowed'][:20]))}")
    if url := payload.get("connect_url"):
        lines.append(f"{OPEN_LINK} {url}")
    elif "fix" in payload:
        lines.append(str(payload["fix"]))
    error_object = {**error, "status": status}
    return {
        "content": [text_block("\n".join(lines)[:MAX_MESSAGE_CHARS])],
        "structuredContent": {"error": error_object},
        "isError": True,
    }


def failed_result(message: str) -> dict[str, Any]:
    """Return a failed result, for a call that was not sent or has a response that cannot be shown."""
    return {"content": [text_block(message[:MAX_MESSAGE_CHARS])], "isError": True}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def link_block(uri: str, media_type: str, size: int) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": "whole response", "mimeType": media_type, "size": size}
