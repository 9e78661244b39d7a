"""The query parameters of a page: each once, cut to its maximum length, empty if absent."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from aiohttp import web

from gateway.api.request_body import moment, wrong_query
from gateway.text import whole_number

LONGEST: Final = 255  # characters


def asked_of(given: Mapping[str, str], names: Sequence[str], longest: int = LONGEST) -> dict[str, str]:
    """Return `names` from a query or a form: each value stripped and cut to `longest` characters, empty if absent."""
    return {name: given.get(name, "").strip()[:longest] for name in names}


def asked(request: web.Request, names: Sequence[str], longest: int = LONGEST) -> dict[str, str]:
    return asked_of(request.query, names, longest)


def asked_moment(query: Mapping[str, str], name: str, now: datetime) -> datetime | None:
    """Return the time in the parameter `name`, or None if it is empty. Raises InvalidRequest."""
    return moment(query, name, now) if query[name] else None


def asked_number(query: Mapping[str, str], name: str) -> int | None:
    """Return the number in the parameter `name`, or None if it is empty. Raises InvalidRequest."""
    text = query[name]
    if not text:
        return None
    number = whole_number(text)
    if number is None:
        raise wrong_query(name, f"'{name}' must be a whole number.")
    return number
