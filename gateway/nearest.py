"""What somebody may have meant who wrote a name that is not there."""

from collections.abc import Iterable
from typing import Final

CLOSE: Final = 0.75  # below it, strangers look alike: 'zoom' and 'zoho-crm' share more letters than meaning


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is a slip of the pen for, whatever its case; None where none is close."""
    from difflib import SequenceMatcher  # here: an idle gateway has no use for it

    given = _folded(name)
    best, best_ratio = None, CLOSE
    for candidate in known:
        matcher = SequenceMatcher(None, _folded(candidate), given)
        if matcher.real_quick_ratio() >= best_ratio and matcher.quick_ratio() >= best_ratio:
            ratio = matcher.ratio()
            if ratio >= best_ratio and (best is None or ratio > best_ratio):
                best, best_ratio = candidate, ratio
    return best


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'jira'?``, or nothing."""
    near = nearest(name, known)
    return f"; did you mean '{near}'?" if near else ""


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")
