"""How the tracker cuts long lists: by `startAt` and `maxResults`, or by the `nextPageToken` of the page before."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

PAGE_SIZE: Final = 50
PAGE_LIMIT: Final = 100


class BadPage(Exception):
    """The text names the parameter and what it takes."""


def cut(records: Sequence[Any], asked: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """One page as the tracker words it, records under `name`; the last has no `nextPageToken`. Raises BadPage."""
    token = asked.get("nextPageToken")
    start = position_in(token) if token else _whole_number(asked, "startAt", 0)
    size = min(_whole_number(asked, "maxResults", PAGE_SIZE), PAGE_LIMIT)
    chosen = list(records[start : start + size])
    page: dict[str, Any] = {"startAt": start, "maxResults": size, "total": len(records), name: chosen}
    page["isLast"] = start + len(chosen) >= len(records)
    if not page["isLast"]:
        page["nextPageToken"] = token_for(start + len(chosen))
    return page


def token_for(position: int) -> str:
    """A token by which the page from `position` on is asked for."""
    return base64.urlsafe_b64encode(f"from:{position}".encode()).decode().rstrip("=")


def _whole_number(asked: Mapping[str, Any], name: str, default: int) -> int:
    text = str(asked.get(name, default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadPage(f"{name} must be a whole number from 0, not {text!r}.")
    return int(text)


def position_in(token: object) -> int:
    """What `token_for` was given. Raises BadPage."""
    text = str(token)
    try:
        word, _, number = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).partition(b":")
    except (binascii.Error, ValueError):
        word = number = b""
    if word != b"from" or not number.isdigit() or len(number) > 9:
        raise BadPage("The page's token must be taken as it is from the page before.")
    return int(number)
