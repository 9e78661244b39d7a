"""Text for people: counts and causes in words, the name that was probably meant, and what is not a name."""

import os
import socket
import uuid
from collections.abc import Iterable
from typing import Final

# ── What somebody may have meant who wrote a name that is not there.

CLOSE: Final = 0.75  # below it, strangers look alike: 'zoom' and 'zoho-crm' share more letters than meaning

LONGEST: Final = 64  # characters; comparing costs time with the square, and a longer name is not a slip of the pen


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is a slip of the pen for, whatever its case; None where none is close."""
    from difflib import SequenceMatcher  # here: an idle gateway has no use for it

    if len(name) > LONGEST:
        return None
    given = _folded(name)
    best, best_ratio = None, CLOSE
    for candidate in known:
        matcher = SequenceMatcher(None, _folded(candidate), given)
        if matcher.real_quick_ratio() >= best_ratio and matcher.quick_ratio() >= best_ratio:
            ratio = matcher.ratio()
            if ratio >= best_ratio and (best is None or ratio > best_ratio):
                best, best_ratio = candidate, ratio
    return best


def close_matches(name: str, known: Iterable[str], most: int, cutoff: float = 0.6) -> list[str]:
    """Up to `most` of the `known` names that are like `name`, the closest first; none where it is too long."""
    from difflib import get_close_matches  # here: an idle gateway has no use for it

    return get_close_matches(name, list(known), most, cutoff) if len(name) <= LONGEST else []


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'jira'?``, or nothing."""
    near = nearest(name, known)
    return f"; did you mean '{near}'?" if near else ""


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


ID_DIGITS: Final = 18  # digits of a row's number: what a database takes


def whole_number(text: str, most_digits: int = ID_DIGITS) -> int | None:
    """The number that ASCII digits spell; None for all else, and for more than `most_digits` of them."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most_digits else None


def is_uuid(text: str) -> bool:
    """Return whether `text` is a UUID, which names nothing to a person."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


# ── How counts and causes are put into words, in whatever we print, log or answer.


def counted(number: int, thing: str, things: str | None = None) -> str:
    """``1 connection``, ``2,000 connections``. `things`: the plural, where that is more than an s."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def sentence(text: str) -> str:
    """`text` with one full stop at its end. Providers' texts come with and without one."""
    return f"{text.rstrip('. ')}."


def unconnected(fault: OSError) -> str:
    """Why no connection came about: asyncio's own text holds the address as a tuple, or several of them."""
    if fault.errno is None or isinstance(fault, socket.gaierror):
        return fault.strerror or "no route"
    return os.strerror(fault.errno)
