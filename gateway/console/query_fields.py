"""Reads the query parameters and form fields of a page.

Whitespace around a value is removed, and the value is cut to a maximum length. A missing value is empty.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from gateway.api.request_body import query_time, wrong_query
from gateway.text import whole_number

MAX_CHARS: Final = 255  # default maximum length of a value


def fields_of(source: Mapping[str, str], names: Sequence[str], max_chars: int = MAX_CHARS) -> dict[str, str]:
    """Return the values of `names` in a query or a form.

    Whitespace around a value is removed, and the value is cut to `max_chars` characters. A missing value is empty.
    """
    return {name: source.get(name, "").strip()[:max_chars] for name in names}


def time_in(fields: Mapping[str, str], name: str, now: datetime) -> datetime | None:
    """Return the time in the field `name`; None if the field is empty. Raises InvalidRequest."""
    return query_time(fields, name, now) if fields[name] else None


def number_in(fields: Mapping[str, str], name: str) -> int | None:
    """Return the number in the field `name`; None if the field is empty. Raises InvalidRequest."""
    text = fields[name]
    if not text:
        return None
    number = whole_number(text)
    if number is None:
        raise wrong_query(name, f"'{name}' must be a whole number.")
    return number
