"""Decides when a failed refresh is retried, what error callers get, and when refusals are final."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gateway.access import refusals
from gateway.errors import GatewayError, InvalidRequest, NotFound, ReconnectNeeded, Unavailable
from gateway.oauth.error_codes import CLIENT_REFUSED
from gateway.oauth.token_responses import GRANT_GONE, TokenRefused, TokenUnavailable
from gateway.records.connection import Connection, RefreshFailure
from gateway.records.states import REJECTED, HistoryNote, State
from gateway.text import printable

# ── Limits for token endpoints and for APIs: how often a refusal must repeat before it changes the state of a
# connection. docs/connections.md lists them.
#
# A refusal that names its reason needs no limit, because its error code decides (`oauth.error_codes`). Outages are not
# refusals: 5xx, 408, 425, 429, a timeout, a failed connection.


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit for consecutive refusals.

    `count`: minimum number of refusals. `duration`: minimum time between the first refusal and the last. `paths`:
    minimum number of distinct request paths, 1 or 2.
    """

    count: int
    duration: timedelta = timedelta()
    paths: int = 1

    def is_reached(self, count: int, duration: timedelta, paths: int = 1) -> bool:
        return count >= self.count and duration >= self.duration and paths >= self.paths


FIVE_MINUTES: Final = timedelta(minutes=5)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)

TOKEN_ENDPOINT_ENDED: Final[Mapping[int, Limit]] = {
    400: Limit(5, FIVE_MINUTES),
    401: Limit(5, FIVE_MINUTES),
    403: Limit(5, HOUR),
}
"""Limits for a token endpoint's responses without a known error code, by status.

At the limit, the connection becomes ``needs_reauth``. Refusals with 403 must go on for an hour, because a wrongly
configured firewall also returns 403.
"""
TOKEN_ENDPOINT_ENDED_2XX: Final = Limit(5, FIVE_MINUTES)
"""Limit for 2xx responses with an unknown `error`. At the limit, the connection becomes ``needs_reauth``."""
API_DEGRADED: Final[Mapping[int, Limit]] = {401: Limit(3), 403: Limit(10, HOUR)}
"""Limits for an API's responses to proxied calls, by status. At the limit, the connection becomes ``degraded``.

Any 2xx response resets the count.
"""
API_ENDED: Final[Mapping[int, Limit]] = {401: Limit(5, FIVE_MINUTES), 403: Limit(20, DAY, paths=2)}
"""Limits for an API's responses to proxied calls, by status. At the limit, the connection becomes ``needs_reauth``.

A 403 can also mean a missing permission, so 403 responses on one path alone never cause ``needs_reauth``.
"""


def refusals_are_final(status: int, count: int, duration: timedelta) -> bool:
    """Return whether `count` consecutive refusals of unknown meaning are final.

    `status`: status of the last refusal. `duration`: time between the first refusal and the last.
    """
    return TOKEN_ENDPOINT_ENDED.get(status, TOKEN_ENDPOINT_ENDED_2XX).is_reached(count, duration)


def api_verdict(status: int, count: int, duration: timedelta, paths: int) -> bool | None:
    """Judge a credential after `count` consecutive responses with `status`.

    Return True if the credential is dead, False if the credential is in doubt, and None if the responses are too few.
    `duration`: time between the first response and the last. `paths`: number of distinct request paths, 1 or 2.
    """
    ended_limit, degraded_limit = API_ENDED.get(status), API_DEGRADED.get(status)
    if ended_limit is not None and ended_limit.is_reached(count, duration, paths):
        return True
    return False if degraded_limit is not None and degraded_limit.is_reached(count, duration) else None


FIRST_WAIT: Final = timedelta(seconds=30)
TYPED_CREDENTIAL_CODES: Final = frozenset({"credentials_refused", "invalid_key"})
MAX_WAIT: Final = timedelta(minutes=15)
ROTATION_LOST: Final = "rotation_lost"
NOT_REFRESHABLE: Final = "no_refresh_token"
PART_REFUSED: Final = "user_grant_refused"
REFUSED: Final = "token_endpoint_refused"
INTERRUPTED: Final = "refresh_interrupted"
CLOCK_RETRY_S: Final = 30
FAILED_OVER_RETRY_S: Final = 5
PARENT_ENDED_RETRY_S: Final = 5
MAX_REASON_CHARS: Final = 500  # of the message that is stored
GRANT_ENDED_CODES: Final = GRANT_GONE | {ROTATION_LOST}
GRANT_MAYBE_ENDED_CODES: Final = GRANT_ENDED_CODES | {REFUSED}


def refresh_failure(
    fault: TokenRefused | TokenUnavailable,
    former: RefreshFailure | None,
    now: datetime,
    *,
    lost_at: datetime | None = None,
    since: datetime | None = None,
) -> RefreshFailure:
    """Return the failure to store.

    Its `retry_at` is None if the grant is gone. Otherwise the wait until `retry_at` grows with consecutive failures.

    A refused client (``invalid_client`` …) is final for the caller. The refresh is still retried, because the operator
    can correct the client without the end user. A refusal of unknown meaning is also retried, and becomes final if it
    repeats often enough. `former`: the failure that is stored now, or None. `since`: when the first of the consecutive
    failures with the code of `former` was stored, or None. `lost_at`: when an earlier attempt sent this refresh token
    and its reply was lost; None if no reply was lost. If the provider refuses the token now, it has most likely
    replaced the token at `lost_at`.
    """
    unknown_refusal = isinstance(fault, TokenUnavailable) and fault.refused_with is not None
    code = (
        fault.code if isinstance(fault, TokenRefused) else REFUSED if unknown_refusal else "token_endpoint_unavailable"
    )
    same_code = former is not None and former.code == code
    attempts = former.attempts + 1 if former is not None and same_code else 1
    wait = _wait(attempts, former)
    if isinstance(fault, TokenRefused):
        reason, grant_ended, final = fault.description or "the token endpoint refused", code in GRANT_GONE, True
    else:
        reason, grant_ended, final = fault.reason, False, False
        if fault.refused_with is not None:
            duration = now - since if since is not None and same_code else timedelta()
            final = bool(same_code and former and former.final) or refusals_are_final(
                fault.refused_with, attempts, duration
            )
        if fault.retry_after_s is not None:
            wait = max(wait, min(timedelta(seconds=fault.retry_after_s), MAX_WAIT))
    reason = printable(reason)  # from the provider; a text that the database refuses would leave the failure unrecorded
    if lost_at is not None and (grant_ended or (final and code == REFUSED)):
        loss = f"The refresh token was sent at {lost_at:%Y-%m-%d %H:%M:%S} UTC and no new token arrived here"
        reason = f"{loss}; the provider now refuses it ({code}: {reason})"
        return RefreshFailure(ROTATION_LOST, reason[:MAX_REASON_CHARS], True, now, attempts, None)
    return RefreshFailure(code, reason[:MAX_REASON_CHARS], final, now, attempts, None if grant_ended else now + wait)


def _wait(attempts: int, former: RefreshFailure | None) -> timedelta:
    """Return the wait before the next attempt.

    The wait doubles after each failure with the same code, up to `MAX_WAIT`, and does not become shorter if the code
    changes. A random part of up to 20% is added.
    """
    last_wait = former.retry_at - former.at if former is not None and former.retry_at is not None else timedelta()
    wait: timedelta = min(max(FIRST_WAIT * 2.0 ** min(attempts - 1, 10), last_wait), MAX_WAIT)
    return wait * random.uniform(1, 1.2)  # noqa: S311 (spreads load only)


def lost_token_failure(connection: Connection, sent_at: datetime, now: datetime) -> RefreshFailure:
    """Return the failure for a refresh token that works only once, if a node sent the token and then stopped."""
    message = (
        f"A node sent the refresh token at {sent_at:%Y-%m-%d %H:%M:%S} UTC and then stopped. The token works only once, so "
        "the gateway does not send it again. The connection recovers by itself if that node returns with the provider's reply."
    )
    attempts = connection.failure.attempts + 1 if connection.failure else 1
    return RefreshFailure(ROTATION_LOST, message, True, now, attempts, None)


def token_end_failure(now: datetime) -> RefreshFailure:
    """Return the failure of a connection whose access token has expired and cannot be refreshed."""
    message = "the access token has expired, and the provider gave no refresh token"
    return RefreshFailure(NOT_REFRESHABLE, message, True, now, 1)


def dropped_part_note(part: str, lost_at: datetime | None) -> HistoryNote:
    """Return the report that a refresh has dropped a part of the credential, because the provider refuses the part.

    `part`: what was dropped, for people. `lost_at`: as in `refresh_failure`.
    """
    refused_part = f"The provider refuses to refresh {part}, so this part of the credential was dropped"
    fix = "The connection works without it; to get it back, let the end user connect again."
    if lost_at is None:
        return HistoryNote(PART_REFUSED, f"{refused_part}. {fix}")
    loss = f"An earlier refresh began at {lost_at:%Y-%m-%d %H:%M:%S} UTC, and a response never arrived here"
    return HistoryNote(ROTATION_LOST, f"{refused_part}. {loss}. {fix}")


def interrupted_error(connection: Connection, until: datetime, now: datetime) -> Unavailable:
    """Return the error for callers after another node stopped during a refresh.

    Until the time `until`, that node can still return with the provider's reply.
    """
    wait_s = max(1, math.ceil((until - now).total_seconds()))
    ref = connection.ref
    return Unavailable(
        "token_endpoint_unavailable",
        f"The node that was refreshing connection '{ref.connection_id}' has stopped. Other nodes wait for it until "
        f"{until:%H:%M:%S} UTC. Retry in {wait_s} s.",
        payload={
            "provider_config_key": ref.integration_id,
            "connection_id": ref.connection_id,
            "reason": INTERRUPTED,
            "retry_at": until.isoformat(timespec="milliseconds"),
        },
        retry_after_s=wait_s,
    )


def clock_off_error(offset_s: float) -> Unavailable:
    """Return the error of a node that cannot judge expiry, because its clock is wrong.

    `offset_s`: difference between this node's clock and the database's clock, in seconds.
    """
    return Unavailable(
        "store_unavailable",
        f"This node's clock differs from the database's by {abs(offset_s):.0f} s, so it does not refresh "
        "tokens. Synchronize the clocks with NTP.",
        payload={"reason": "clock_offset"},
        retry_after_s=CLOCK_RETRY_S,
    )


def parent_ended_error() -> Unavailable:
    """Return the error of a worker whose parent, which sends the token requests, has ended."""
    return Unavailable(
        "token_endpoint_unavailable",
        f"This process of the gateway is ending and refreshes no tokens. Retry in {PARENT_ENDED_RETRY_S} s.",
        payload={"reason": "parent_ended"},
        retry_after_s=PARENT_ENDED_RETRY_S,
    )


def failed_over_error() -> Unavailable:
    """Return the error for callers after a failover of the database.

    The refresh token in the database might be spent: another node can have a newer one.
    """
    return Unavailable(
        "store_unavailable",
        "The database failed over. Token refresh is paused until all nodes have written back their newest tokens. Retry "
        f"in {FAILED_OVER_RETRY_S} s.",
        payload={"reason": "failover"},
        retry_after_s=FAILED_OVER_RETRY_S,
    )


def may_try(connection: Connection, now: datetime, client_since: datetime | None = None) -> bool:
    """Return whether to call the token endpoint again.

    `client_since`: when the integration got its current client; None if unknown. A refusal of the client before that
    time is ignored, because it refused another client.
    """
    failure = connection.failure
    if failure is None or failure.code == REJECTED:
        return True
    if client_since is not None and refused_before(failure, client_since):
        return True
    return failure.retry_at is not None and now >= failure.retry_at


def refused_before(failure: RefreshFailure | None, client_since: datetime) -> bool:
    """Return whether the provider refused the client that the integration had before `client_since`."""
    return failure is not None and failure.code in CLIENT_REFUSED and failure.at < client_since


def refresh_error(connection: Connection, failure: RefreshFailure, now: datetime) -> GatewayError:
    """Return the error for callers of a connection without a usable token."""
    if failure.code == NOT_REFRESHABLE:
        return not_refreshable_error(connection)
    if connection.state is State.INCOMPLETE:
        return InvalidRequest("unresolved_setting", failure.message)
    ref = connection.ref
    payload = {
        "provider_config_key": ref.integration_id,
        "connection_id": ref.connection_id,
        "reason": failure.code,
        "provider_message": failure.message,
        "failed_at": failure.at.isoformat(timespec="milliseconds"),
    }
    retry_at = failure.retry_at or call_again_at(failure, now)
    wait_s = max(1, round((retry_at - now).total_seconds()))
    payload["retry_at"] = retry_at.isoformat(timespec="milliseconds")
    if failure.final:
        fix = refusals.sentence(refusals.RECONNECT_STEP)
        if failure.code in TYPED_CREDENTIAL_CODES:
            fix = refusals.sentence(f"{refusals.RECONNECT_STEP}, or import the new password or key under the same id")
        elif failure.code not in GRANT_MAYBE_ENDED_CODES:
            fix = (
                f"Check client_id, client_secret and scopes of integration '{ref.integration_id}'; if they are right, "
                f"{refusals.RECONNECT_STEP}."
            )
        return ReconnectNeeded(
            "reconnect_needed",
            f"The provider refuses to refresh connection '{ref.connection_id}' ({failure.code}). {fix}",
            payload=payload,
            retry_after_s=wait_s,
        )
    return Unavailable(
        "token_endpoint_unavailable",
        f"The token of connection '{ref.connection_id}' has expired and cannot be refreshed now "
        f"({failure.message.rstrip('. ')}). Retry in {wait_s} s.",
        payload=payload,
        retry_after_s=wait_s,
    )


def call_again_at(failure: RefreshFailure, now: datetime) -> datetime:
    """Return the time at which a caller should call again. Until then, the end user may have connected again."""
    return now + min(max(FIRST_WAIT, (now - failure.at) / 2), MAX_WAIT)


def no_catalog_entry_error(integration_id: str, provider: str) -> NotFound:
    """Return the error for an integration that was made through the API and has no catalog entry any more."""
    return NotFound(
        "unknown_provider_template",
        f"Integration '{integration_id}' uses provider '{provider}', which is no longer in the catalog. Put its entry "
        "back, or delete the integration.",
        payload={"provider_config_key": integration_id},
    )


def not_refreshable_error(connection: Connection) -> ReconnectNeeded:
    """Return the error for a connection with an expired access token and no refresh token."""
    ref = connection.ref
    return ReconnectNeeded(
        "reconnect_needed",
        f"The token of connection '{ref.connection_id}' has expired and the provider gave no refresh token. "
        + refusals.sentence(
            f"{refusals.RECONNECT_STEP}; `gateway connections why {ref.connection_id}` shows how to get a refresh token"
        ),
        payload={
            "provider_config_key": ref.integration_id,
            "connection_id": ref.connection_id,
            "reason": NOT_REFRESHABLE,
        },
    )
