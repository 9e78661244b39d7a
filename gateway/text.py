"""Text for people: counts and causes in words, and the closest match of a mistyped name."""

import os
import socket
import uuid
from collections.abc import Iterable
from typing import Final

# ── The closest match for a name that does not exist.

# The minimum similarity, from 0 to 1. With a lower minimum, unrelated names match: 'zoom' and 'zoho-crm' share letters.
MIN_SIMILARITY: Final = 0.75

# Longer names are not compared: comparing takes quadratic time, and a longer name is not a typo.
MAX_NAME_CHARS: Final = 64


def nearest(name: str, known_names: Iterable[str]) -> str | None:
    """Return the name in `known_names` that is most similar to `name`, ignoring case; None if no name is similar enough."""
    from difflib import SequenceMatcher  # imported here: an idle gateway does not need it

    if len(name) > MAX_NAME_CHARS:
        return None
    folded = _fold(name)
    best_match, best_ratio = None, MIN_SIMILARITY
    for candidate in known_names:
        matcher = SequenceMatcher(None, _fold(candidate), folded)
        if matcher.real_quick_ratio() >= best_ratio and matcher.quick_ratio() >= best_ratio:
            ratio = matcher.ratio()
            if ratio >= best_ratio and (best_match is None or ratio > best_ratio):
                best_match, best_ratio = candidate, ratio
    return best_match


def close_matches(name: str, known_names: Iterable[str], limit: int, cutoff: float = 0.6) -> list[str]:
    """Return up to `limit` names from `known_names` that are similar to `name`, the closest first.

    `cutoff`: the minimum similarity, from 0 to 1. The list is empty if `name` is longer than MAX_NAME_CHARS.
    """
    from difflib import get_close_matches  # imported here: an idle gateway does not need it

    return get_close_matches(name, list(known_names), limit, cutoff) if len(name) <= MAX_NAME_CHARS else []


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Return a suggestion such as ``; did you mean 'jira'?``, or an empty text if no known name is close to `name`."""
    closest = nearest(name, known_names)
    return f"; did you mean '{closest}'?" if closest else ""


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


MAX_ID_DIGITS: Final = 18  # maximum digits of a row's id in the database


def whole_number(text: str, max_digits: int = MAX_ID_DIGITS) -> int | None:
    """Return the number in a text of ASCII digits; None for any other text, and for more than `max_digits` digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= max_digits else None


def is_uuid(text: str) -> bool:
    """Return whether `text` is a UUID. Pages do not show UUIDs as names, because people cannot recognize them."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


# ── Counts and causes in words, for output, logs and responses.


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as ``1 connection`` or ``2,000 connections``.

    `plural`: the noun for other numbers than 1; None: `singular` with an s.
    """
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def printable(text: str) -> str:
    """Return `text` as one line that every database can store.

    A space replaces each group of white space and of characters that cannot be printed. Such characters are NUL, which
    PostgreSQL cannot store, and half of a surrogate pair, which has no UTF-8.
    """
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def sentence(text: str) -> str:
    """Return `text` with one full stop at its end. Texts from providers often have no full stop."""
    return f"{text.rstrip('. ')}."


def connect_failure(fault: OSError) -> str:
    """Return why a network connection failed, without IP addresses.

    The text of asyncio is not used, because it shows IP addresses as Python tuples.
    """
    if fault.errno is None or isinstance(fault, socket.gaierror):
        return fault.strerror or "no route"
    return os.strerror(fault.errno)
