"""Decides whether a request may be retried and after how long; reads Retry-After and similar fields.

The protocol says which requests may be repeated (RFC 9110 §9.2.2), the provider says when,
and the gateway limits how often.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from gateway.http.headers import Fields

# ── When a server asks clients to retry: in seconds, as a date, or as a point in time (RFC 9110 §10.2.3).

_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
LONGEST_S: Final = 315_360_000.0  # ten years: a longer wait counts as ten years
_MILLISECONDS_FROM: Final = 1e11  # larger epoch values are milliseconds: in seconds this would be the year 5138


def seconds_until(text: str, now: datetime) -> float | None:
    """Return the seconds of a ``Retry-After``-like value, a number or an HTTP date;
    None if neither, 0 for a past date."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return min(float(text), LONGEST_S)
    when = _date(text)
    return None if when is None else min(max(0.0, (when - now).total_seconds()), LONGEST_S)


def seconds_until_point(text: str, now: datetime) -> float | None:
    """Return the seconds until an ``X-RateLimit-Reset``-like point in time; None if it is past or unreadable.

    The text is epoch seconds, epoch milliseconds or a date.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        point = float(text)
        left = (point / 1000 if point >= _MILLISECONDS_FROM else point) - now.timestamp()
    elif (when := _date(text)) is not None:
        left = (when - now).total_seconds()
    else:
        return None
    return min(left, LONGEST_S) if left > 0 else None


def _date(text: str) -> datetime | None:
    """Parse an HTTP date in any of its three forms (RFC 9110 §5.6.7), or an ISO date; without a zone it is UTC."""
    if len(text) > 64:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return None


MAX_RETRIES: Final = 10
LONGEST_WAIT_S: Final = 30.0  # if the provider asks for a longer wait, the caller gets its response and decides
ALL_WAITS_S: Final = 60.0
FIRST_WAIT_S: Final = 0.5
SPREAD: Final = 0.1  # jitter: maximum fraction added to a wait, so that waiting callers do not retry together

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
USUAL: Final = (range(429, 430), range(502, 505))
_STATUSES: Final = re.compile(r"(?P<first>[1-9])xx|(?P<low>[1-9][0-9]{2})(?:-(?P<high>[1-9][0-9]{2}))?", re.IGNORECASE)


def repeatable(method: str, *, keyed: bool, kept: bool, sent: bool) -> bool:
    """Return whether the request can be sent again without a second effect at the provider.

    `keyed`: the request has an Idempotency-Key; `kept`: the part of its body read so far is still buffered; `sent`: a
    byte of the request may have reached the provider.
    """
    return kept and (not sent or keyed or method in IDEMPOTENT)


def may_lead_to_more(status: int, *, retries: bool) -> bool:
    """Return whether another attempt may follow a response with this status.

    A 401 may lead to an attempt with a newer token, and an error to a retry if `retries` are left.
    """
    return status == 401 or (retries and status >= 400)


@dataclass(frozen=True, slots=True)
class Rules:
    """A provider's retry rules: which responses ask for another attempt, and which header fields say when.

    Lower-case names of header fields: `after` hold a number of seconds, `at` a point in time, `remaining` the number of
    calls left.
    """

    statuses: tuple[range, ...] = USUAL
    after: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    remaining: str | None = None

    @classmethod
    def of(
        cls,
        *,
        error_code: Iterable[str] | None = None,
        after: Iterable[str] | str | None = None,
        at: Iterable[str] | str | None = None,
        remaining: str | None = None,
        retry_on: Iterable[int] = (),
    ) -> "Rules":
        """Return the entry's ``proxy.retry`` with the caller's ``Retry-On`` added. `error_code` replaces `USUAL`."""
        codes = USUAL if error_code is None else tuple(filter(None, map(statuses, error_code)))
        added = tuple(range(status, status + 1) for status in retry_on)
        return cls(codes + added, _names(after), _names(at), remaining.lower() if remaining else None)

    def wanted(self, status: int, fields: Fields) -> bool:
        """Return whether this response asks for another attempt."""
        return status >= 400 and (any(status in codes for codes in self.statuses) or self._used_up(_lower(fields)))

    def requested_wait_s(self, status: int, fields: Fields, now: datetime) -> float | None:
        """Return the longest wait in seconds that the response asks for; None if it names none.

        The entry's fields count only on a 4xx, a 503 or a used-up quota: many providers send them with every response,
        and a 502 is unrelated to the time when the quota resets.
        """
        lines = _lower(fields)
        waits = [seconds_until(value, now) for value in lines.get("retry-after", ())]
        if status == 503 or 400 <= status < 500 or self._used_up(lines):
            waits += [seconds_until(value, now) for name in self.after for value in lines.get(name, ())]
            waits += [seconds_until_point(value, now) for name in self.at for value in lines.get(name, ())]
        return max((wait for wait in waits if wait is not None), default=None)

    def _used_up(self, lines: Mapping[str, list[str]]) -> bool:
        return self.remaining is not None and any(value.strip() == "0" for value in lines.get(self.remaining, ()))


def statuses(text: str) -> range | None:
    """Parse ``429``, ``5xx`` or ``500-502``; return None for anything else."""
    found = _STATUSES.fullmatch(text.strip())
    if found is None:
        return None
    if found["first"]:
        return range(int(found["first"]) * 100, int(found["first"]) * 100 + 100)
    return range(int(found["low"]), int(found["high"] or found["low"]) + 1)


def wait_s(
    asked_s: float | None,
    retry: int,
    chance: float,
    *,
    waited_s: float,
    longest_s: float = LONGEST_WAIT_S,
    all_s: float = ALL_WAITS_S,
) -> float | None:
    """Return the seconds before retry number `retry` (from 1); None: the wait is too long, pass the response on.

    `asked_s`: the wait that the provider asked for. `chance`: random, 0 … 1, for jitter; without `asked_s` the wait is
    spread over a whole interval, which doubles with each retry. `waited_s`: seconds that this request has waited so
    far; the total is limited to `all_s`, each asked wait to `longest_s`.
    """
    if asked_s is None:
        wait = min(FIRST_WAIT_S * 2 ** min(retry - 1, MAX_RETRIES), LONGEST_WAIT_S) * chance
    elif asked_s > longest_s:
        return None
    else:
        wait = asked_s * (1 + SPREAD * chance)
    return wait if wait <= all_s - waited_s else None


def _names(names: Iterable[str] | str | None) -> tuple[str, ...]:
    if names is None:
        return ()
    return tuple(name.lower() for name in ([names] if isinstance(names, str) else names))


def _lower(fields: Fields) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for name, value in fields:
        lines.setdefault(name.lower(), []).append(value)
    return lines
