"""A provider's own words, made fit to be shown: bounded, one line, printable."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.records.call import Reply

MAX_WORDS: Final = 500
_NAMES: Final = (
    "error_description", "message", "error_message", "errormessage", "msg", "detail", "title", "error", "reason",
    "description", "faultstring",
)  # fmt: skip
_INSIDE: Final = ("error", "errors", "fault", "status", "data", "response", "response_data", "result", "meta")


def short(words: str) -> str:
    """`words`, made fit to stand in a sentence: bounded, one line, printable, without a full stop."""
    printable = "".join(char if char.isprintable() else " " for char in words[:MAX_WORDS])
    return " ".join(printable.split()).rstrip(" .")


def said(reply: Reply) -> str:
    """What an answer that refuses says about it: the usual members of a JSON object, else the beginning of the text.

    Empty for a page of HTML, or for nothing. May quote what was sent: `Call.scrubbed` is the caller's to ask.
    """
    text = reply.body[:65536].decode("utf-8", "replace")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.lstrip()[:1] == "<" else short(" ".join(text.split()))
    found = dict.fromkeys(short(part) for part in _told(answer, 0))
    return short(": ".join(filter(None, found)))


def _told(answer: Any, depth: int) -> Iterator[str]:
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, list) and answer and depth < 4:
        yield from _told(answer[0], depth + 1)
    elif isinstance(answer, Mapping) and depth < 4:
        answer = {str(name).lower(): value for name, value in answer.items()}
        code = answer.get("error")
        if isinstance(code, str):
            yield code
        direct = next((answer[name] for name in _NAMES if isinstance(answer.get(name), str) and answer[name]), None)
        if direct is not None:
            yield direct
            return
        for name in _INSIDE:
            if isinstance(answer.get(name), Mapping | list):
                yield from _told(answer[name], depth + 1)
                return
