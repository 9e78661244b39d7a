"""Decides whether and when the gateway retries a request; reads Retry-After and similar fields.

HTTP defines which requests can be repeated (RFC 9110 §9.2.2). The provider states the time of the retry, and the
gateway limits the number of retries.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from gateway.http.headers import Fields

# ── Reads the time at which a server asks clients to retry: seconds, a date or a timestamp (RFC 9110 §10.2.3).

_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
MAX_DELAY_S: Final = 315_360_000.0  # ten years: a longer wait counts as ten years
_MILLISECONDS_FROM: Final = 1e11  # larger numbers are milliseconds: as seconds, they would be after the year 5138


def seconds_until(text: str, now: datetime) -> float | None:
    """Return the seconds in the value of a header such as ``Retry-After``: a number of seconds or an HTTP date.

    Return 0 for a date in the past, and None if the value is neither a number nor a date.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return min(float(text), MAX_DELAY_S)
    date = _date(text)
    return None if date is None else min(max(0.0, (date - now).total_seconds()), MAX_DELAY_S)


def seconds_until_point(text: str, now: datetime) -> float | None:
    """Return the seconds until the time in the value of a header such as ``X-RateLimit-Reset``.

    `text`: seconds or milliseconds since 1970, or a date. Return None if the time is in the past, or if `text` is none
    of these.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        point = float(text)
        remaining_s = (point / 1000 if point >= _MILLISECONDS_FROM else point) - now.timestamp()
    elif (date := _date(text)) is not None:
        remaining_s = (date - now).total_seconds()
    else:
        return None
    return min(remaining_s, MAX_DELAY_S) if remaining_s > 0 else None


def _date(text: str) -> datetime | None:
    """Parse an HTTP date in any of its three formats (RFC 9110 §5.6.7), or an ISO date.

    A date without a zone is in UTC. Return None if `text` is not a date.
    """
    if len(text) > 64:
        return None
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            date = parse(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return None


MAX_RETRIES: Final = 10
MAX_WAIT_S: Final = 30.0  # if the provider asks for a longer wait, the caller gets the response and decides
ALL_WAITS_S: Final = 60.0
FIRST_WAIT_S: Final = 0.5
JITTER: Final = 0.1  # maximum fraction that is added to a wait, so that waiting callers do not retry together

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
DEFAULT_STATUSES: Final = (range(429, 430), range(500, 600))
_STATUSES: Final = re.compile(r"(?P<first>[1-9])xx|(?P<low>[1-9][0-9]{2})(?:-(?P<high>[1-9][0-9]{2}))?", re.IGNORECASE)


def may_send_again(method: str, *, has_key: bool, body_kept: bool, sent: bool) -> bool:
    """Return whether the request can be sent again without a second effect at the provider.

    `has_key`: whether the request has an Idempotency-Key. `body_kept`: whether the part of the body that was read is
    still in memory. `sent`: whether a byte of the request may have reached the provider.
    """
    return body_kept and (not sent or has_key or method in IDEMPOTENT)


def allows_another_attempt(status: int, *, retries: bool) -> bool:
    """Return whether another attempt can follow a response with this status.

    After a 401, an attempt with a newer token can follow. After any error, a retry can follow if `retries` is True.
    """
    return status == 401 or (retries and status >= 400)


@dataclass(frozen=True, slots=True)
class RetryRules:
    """A provider's retry rules: which responses ask for another attempt, and which header fields tell its time.

    `statuses`: the statuses that ask for another attempt. `after`: the header fields with a number of seconds. `at`:
    the header fields with a time. `remaining`: the header field with the number of remaining calls; None if the
    provider has no such field. Names of header fields are in lower case.
    """

    statuses: tuple[range, ...] = DEFAULT_STATUSES
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
    ) -> "RetryRules":
        """Return the rules of ``proxy.retry`` in a catalog entry, with the caller's ``Retry-On`` added.

        `error_code`: the statuses in place of `DEFAULT_STATUSES`; None uses `DEFAULT_STATUSES`.
        """
        codes = DEFAULT_STATUSES if error_code is None else tuple(filter(None, map(parse_statuses, error_code)))
        added_codes = tuple(range(status, status + 1) for status in retry_on)
        return cls(codes + added_codes, _lower_names(after), _lower_names(at), remaining.lower() if remaining else None)

    def asks_for_retry(self, status: int, fields: Fields) -> bool:
        """Return whether this response asks for another attempt."""
        return status >= 400 and (
            any(status in codes for codes in self.statuses) or self._is_used_up(_values_by_name(fields))
        )

    def requested_wait_s(self, status: int, fields: Fields, now: datetime) -> float | None:
        """Return the longest wait in seconds that the response asks for; None if it asks for no wait.

        The header fields of the catalog entry count only for a 4xx, a 503 or a used-up quota. Many providers send these
        fields with every response, and a 502 has no relation to the time at which the quota resets.
        """
        values_by_name = _values_by_name(fields)
        waits = [seconds_until(value, now) for value in values_by_name.get("retry-after", ())]
        if status == 503 or 400 <= status < 500 or self._is_used_up(values_by_name):
            waits += [seconds_until(value, now) for name in self.after for value in values_by_name.get(name, ())]
            waits += [seconds_until_point(value, now) for name in self.at for value in values_by_name.get(name, ())]
        return max((wait for wait in waits if wait is not None), default=None)

    def _is_used_up(self, values_by_name: Mapping[str, list[str]]) -> bool:
        return self.remaining is not None and any(
            value.strip() == "0" for value in values_by_name.get(self.remaining, ())
        )


def parse_statuses(text: str) -> range | None:
    """Parse ``429``, ``5xx`` or ``500-502``; return None for anything else."""
    match = _STATUSES.fullmatch(text.strip())
    if match is None:
        return None
    if match["first"]:
        return range(int(match["first"]) * 100, int(match["first"]) * 100 + 100)
    return range(int(match["low"]), int(match["high"] or match["low"]) + 1)


def wait_s(
    asked_s: float | None,
    retry: int,
    jitter: float,
    *,
    waited_s: float,
    max_wait_s: float = MAX_WAIT_S,
    all_s: float = ALL_WAITS_S,
) -> float | None:
    """Return the seconds to wait before retry number `retry`, which begins at 1.

    Return None if the wait would be too long; then the caller gets the response. `asked_s`: the wait that the provider
    asked for; None if it asked for none. Without `asked_s`, the wait is a random part of an interval that doubles with
    each retry.

    `jitter`: a random number from 0 to 1. `waited_s`: the seconds that this request has waited before. `max_wait_s`:
    the maximum of `asked_s`. `all_s`: the maximum of all waits together, in seconds.
    """
    if asked_s is None:
        wait = min(FIRST_WAIT_S * 2 ** min(retry - 1, MAX_RETRIES), MAX_WAIT_S) * jitter
    elif asked_s > max_wait_s:
        return None
    else:
        wait = asked_s * (1 + JITTER * jitter)
    return wait if wait <= all_s - waited_s else None


def _lower_names(names: Iterable[str] | str | None) -> tuple[str, ...]:
    if names is None:
        return ()
    return tuple(name.lower() for name in ([names] if isinstance(names, str) else names))


def _values_by_name(fields: Fields) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name.lower(), []).append(value)
    return values
