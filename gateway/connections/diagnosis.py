"""Explains a connection's state: a time line, the likely causes in order, and the one action that helps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from gateway.access import refusals
from gateway.catalog.provider import Provider
from gateway.connections.scope_drift import ScopeDrift
from gateway.oauth.error_codes import CLIENT_REFUSED
from gateway.records.connection import Connection, Lifespan
from gateway.records.integration import Integration
from gateway.records.states import ENDED, FAILOVER, REJECTED, RESTORED, Change, State
from gateway.refresh.backoff import (
    GRANT_ENDED_CODES,
    GRANT_MAYBE_ENDED_CODES,
    NOT_REFRESHABLE,
    REFUSED,
    ROTATION_LOST,
    TYPED_CREDENTIAL_CODES,
    refused_before,
)
from gateway.refresh.schedule import refresh_token_advice
from gateway.text import counted, sentence

EXPIRY_NOTICE: Final = timedelta(days=14)
UNREADABLE: Final = "Its stored credential was changed or damaged in the database and cannot be decrypted."
SCOPES_MISSING: Final = "scopes_missing"
INTEGRATION_CAUSES: Final = frozenset({"integration_missing", "provider_changed", "provider_missing"})
MAX_NAMED_SCOPES: Final = 10


@dataclass(frozen=True, slots=True)
class TimelineMoment:
    """An entry of the time line. `ahead`: whether the moment is in the future."""

    at: datetime
    what: str
    detail: str | None = None
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """A likely cause. `name`: identifier for programs. `why`: a sentence that explains the cause."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class SuggestedAction:
    """The recommended action. `how`: a sentence that says what to do.

    `name`: one of ``none``, ``wait``, ``reconnect``, ``fix_integration``, ``fix_settings``, ``import`` or ``restore``.
    """

    name: str
    how: str


@dataclass(frozen=True, slots=True)
class ConnectionDiagnosis:
    """The diagnosis of one connection. `causes`: the most likely cause first; empty if nothing is wrong."""

    moments: Sequence[TimelineMoment]
    causes: Sequence[LikelyCause]
    action: SuggestedAction


def diagnose_connection(
    row: Connection,
    changes: Sequence[Change],
    provider: Provider | None,
    now: datetime,
    *,
    readable: bool = True,
    integration: Integration | None = None,
    ends_with_token: bool = False,
    failovers: Sequence[datetime] = (),
    scopes: ScopeDrift | None = None,
    client_since: datetime | None = None,
) -> ConnectionDiagnosis:
    """Return the diagnosis of one connection.

    `changes`: the connection's state changes, oldest first. `provider`: the entry of the connection's provider, None if
    the catalog has none. `readable`: whether its stored data can be decrypted. `integration`: None if the environment has
    no such integration.
    `ends_with_token`: whether the connection has no refresh token and so ends with its access token. `failovers`: times
    of database failovers, oldest first. `scopes`: the granted and needed scopes, None if the credential cannot be
    decrypted. `client_since`: when this process loaded the integration's client, None if this process serves no calls.
    """
    expires_at = row.expires_at
    damage_causes = [] if readable else [LikelyCause("credential_unreadable", UNREADABLE)]
    if ends_with_token:
        row = replace(row, life=Lifespan())  # a lifespan is shown only for a refresh token
    if ends_with_token and row.failure is None and expires_at is not None and provider is not None:
        integration_causes = _integration_causes(row, provider, integration)
        causes = [*damage_causes, *integration_causes, _no_refresh_token_cause(expires_at, provider, integration)]
    else:
        causes = [
            *damage_causes,
            *_integration_causes(row, provider, integration),
            *_restore_causes(row, changes),
            *_failover_causes(row, failovers),
            *(
                _causes(refused_row, provider, integration, now)
                if (refused_row := _refused_before_outage(row, changes))
                else ()
            ),
            *_causes(row, provider, integration, now),
        ]
    causes += _missing_scope_causes(scopes)
    reloaded_at = client_since if client_since is not None and refused_before(row.failure, client_since) else None
    return ConnectionDiagnosis(_moments(row, changes, now, reloaded_at), causes, _action(row, causes, now, reloaded_at))


def _integration_causes(
    row: Connection, provider: Provider | None, integration: Integration | None
) -> Iterator[LikelyCause]:
    """Yield the cause if every call on the connection is refused because of its integration."""
    name = row.ref.integration_id
    if integration is None:
        yield LikelyCause(
            "integration_missing",
            f"Environment '{row.ref.environment}' has no integration '{name}', so every call on the connection gets 404. The "
            "integration was removed or renamed.",
        )
    elif integration.provider != row.provider:
        yield LikelyCause(
            "provider_changed",
            f"The connection was made with provider '{row.provider}', but integration '{name}' now uses "
            f"'{integration.provider}', so every call gets 424.",
        )
    elif provider is None:
        yield LikelyCause(
            "provider_missing",
            f"The catalog has no provider '{row.provider}', which integration '{name}' uses, so every call on the connection "
            "gets 404.",
        )


def _missing_scope_causes(scopes: ScopeDrift | None) -> list[LikelyCause]:
    if scopes is None:
        return []
    sentences = []
    if scopes.refused:
        sentences.append(
            f"The provider's API refused a call because the token lacks {_scope_names(scopes.refused)}. A reconnect requests "
            "it. To request it from every end user, add it to the integration's scopes."
        )
    if scopes.any_of:
        sentences.append(
            f"The provider's API refused a call because the token has none of {_scope_names(scopes.any_of)}. Add the "
            "narrowest of them that suffices to the integration's scopes; then let the end user reconnect."
        )
    missing_scopes = [scope for scope in scopes.missing if scope not in scopes.refused]
    if missing_scopes:
        sentences.append(
            f"The end user has not granted {_scope_names(missing_scopes)}, which the integration requests: they were added "
            "to it later, or the end user declined them. The provider refuses calls that need them."
        )
    return [LikelyCause(SCOPES_MISSING, sentence) for sentence in sentences]


def _scope_names(scopes: Sequence[str]) -> str:
    more_text = f" and {len(scopes) - MAX_NAMED_SCOPES} more" if len(scopes) > MAX_NAMED_SCOPES else ""
    return ", ".join(f"'{scope}'" for scope in scopes[:MAX_NAMED_SCOPES]) + more_text


def _restore_causes(row: Connection, changes: Sequence[Change]) -> Iterator[LikelyCause]:
    """Yield the cause if the connection ended before its first refresh after the restore of a backup."""
    restore_change = next((change for change in reversed(changes) if change.reason == RESTORED), None)
    if restore_change is None or restore_change.state in ENDED:
        return  # the connection had already ended when the backup was made, for another reason
    if row.state in ENDED and (row.last_refreshed_at is None or row.last_refreshed_at < restore_change.at):
        yield LikelyCause(
            RESTORED,
            f"It was restored {restore_change.detail or 'from a backup'}, and the provider had replaced its refresh "
            "token.",
        )


def _failover_causes(row: Connection, failovers: Sequence[datetime]) -> Iterator[LikelyCause]:
    """Yield the cause if the refresh token was refused after a failover, and the access token was due for a refresh
    before the failover."""
    failure, refreshed_at = row.failure, row.last_refreshed_at
    if (
        failure is None
        or not failure.final
        or failure.code not in GRANT_MAYBE_ENDED_CODES
        or refreshed_at is None
        or row.expires_at is None
    ):
        return
    half_way = refreshed_at + (row.expires_at - refreshed_at) / 2  # the earliest time at which a refresh starts
    failover_at = next((moment for moment in reversed(failovers) if half_way <= moment <= failure.at), None)
    if failover_at is not None:
        yield LikelyCause(
            FAILOVER,
            f"The database failed over on {failover_at:%Y-%m-%d %H:%M:%S} UTC and lost its last commits. A newer refresh "
            "token was most likely among them, and the provider refuses the older one.",
        )


def _refused_before_outage(row: Connection, changes: Sequence[Change]) -> Connection | None:
    """Return `row` with the refusal that ended it, if its newest failure is a temporary one after that refusal.

    Return None if its newest failure ended it, or if it has not ended.
    """
    failure = row.failure
    if row.state not in ENDED or failure is None or failure.final:
        return None
    ignored_codes = {failure.code, RESTORED, FAILOVER}
    final_refusal = next(
        (change for change in reversed(changes) if change.state in ENDED and change.reason not in ignored_codes), None
    )
    if final_refusal is None:
        return None
    message = final_refusal.detail or "the token endpoint refused"
    return replace(
        row,
        failure=replace(
            failure, code=final_refusal.reason, message=message, final=True, at=final_refusal.at, attempts=1
        ),
    )


def _moments(
    row: Connection, changes: Sequence[Change], now: datetime, reloaded_at: datetime | None
) -> list[TimelineMoment]:
    """Return the moments sorted by time. State changes keep the order of their writes, even if clocks of nodes
    differ."""
    increasing_times = accumulate((change.at for change in changes), max)
    moments = [
        TimelineMoment(at, f"{change.state.value}: {change.reason}", change.detail)
        for at, change in zip(increasing_times, changes, strict=True)
    ]
    if row.refreshed_at is not None and row.version > 1:
        moments.append(TimelineMoment(row.refreshed_at, "last refreshed"))
    failure = row.failure
    if failure is not None and failure.attempts > 1:
        event = "call rejected" if failure.code == REJECTED else "refresh failed"
        moments.append(
            TimelineMoment(failure.at, f"{event} for the {_ordinal(failure.attempts)} time in a row", failure.message)
        )
    if row.intent is not None:
        is_lost = failure is not None and failure.code == ROTATION_LOST
        outcome = "no response arrived" if is_lost else "outcome not known yet"
        moments.append(TimelineMoment(row.intent.at, f"refresh token sent, {outcome}"))
    if row.refused_scopes is not None:
        event = f"call to {row.refused_scopes.path} refused for missing scopes"
        moments.append(TimelineMoment(row.refused_scopes.at, event, " ".join(row.refused_scopes.scopes)))
    expiry_text = (
        "access token expired" if row.expires_at is not None and row.expires_at <= now else "access token expires"
    )
    end_moments = ((row.expires_at, expiry_text), (row.life.dies_at, "refresh token expires if it is not used"))
    retry_at = failure.retry_at if failure else None
    retry_text = "next try" if retry_at is None or retry_at > now else "retry due: the next call makes it"
    if reloaded_at is not None:
        retry_at, retry_text = reloaded_at, "client loaded again: the next call tries a refresh"
    future_moments = ((retry_at, retry_text), (row.life.keep_alive_at, "refreshed to keep it alive"))
    moments += [
        TimelineMoment(when, event, ahead=when > now)
        for when, event in (*end_moments, *future_moments)
        if when is not None
    ]
    return sorted(moments, key=lambda moment: moment.at)


def _no_refresh_token_cause(expires_at: datetime, provider: Provider, integration: Integration | None) -> LikelyCause:
    explanation = (
        f"{provider.display_name} gave no refresh token, so it ends with its access token on "
        f"{expires_at:%Y-%m-%d %H:%M} UTC."
    )
    return LikelyCause(NOT_REFRESHABLE, f"{explanation} {refresh_token_advice(provider, integration)}")


def _causes(
    row: Connection, provider: Provider | None, integration: Integration | None, now: datetime
) -> Iterator[LikelyCause]:
    failure = row.failure
    if row.state is State.INCOMPLETE:
        yield LikelyCause(
            "setting_missing", failure.message if failure else "A setting is missing that the refresh needs."
        )
        return
    if failure is None:
        yield from _coming_expiry_causes(row, now)
    elif failure.code == REJECTED:
        yield LikelyCause(
            "credential_rejected",
            f"The provider's API rejects its credential: {sentence(failure.message)} It may have been revoked, replaced or "
            "blocked at the provider.",
        )
        yield LikelyCause("permission_missing", "It may lack a permission that the call needs.")
    elif failure.code == REFUSED:
        yield LikelyCause(
            "refused_without_reason",
            f"The token endpoint refused {counted(failure.attempts, 'refresh', 'refreshes')} in a row without a known "
            f"error code: {sentence(failure.message)}",
        )
        yield LikelyCause("access_taken_back", "Most often the end user or an administrator revoked the access.")
    elif not failure.final:
        yield LikelyCause("provider_outage", f"The token endpoint gave no usable response: {sentence(failure.message)}")
    elif failure.code == ROTATION_LOST:
        yield LikelyCause(
            ROTATION_LOST, f"{sentence(failure.message)} A process of the gateway or the network failed at that moment."
        )
        yield LikelyCause("access_taken_back", "The end user or an administrator revoked the access.")
    elif failure.code == NOT_REFRESHABLE:
        advice = f" {refresh_token_advice(provider, integration)}" if provider is not None else ""
        yield LikelyCause(
            NOT_REFRESHABLE, f"Its access token has ended, and the provider gave no refresh token.{advice}"
        )
    elif failure.code in TYPED_CREDENTIAL_CODES:
        yield LikelyCause(
            "credential_changed", f"The password or key is no longer accepted: {sentence(failure.message)}"
        )
    elif failure.code in CLIENT_REFUSED:
        yield LikelyCause(
            "client_refused", f"The provider refuses the app itself ({failure.code}): {sentence(failure.message)}"
        )
        yield LikelyCause("access_taken_back", "Some providers return this error for a refresh token that has ended.")
    elif failure.code in GRANT_ENDED_CODES:
        yield from _revoked_or_expired_causes(row, provider)
    else:
        yield LikelyCause(
            "request_refused", f"The provider refuses the refresh ({failure.code}): {sentence(failure.message)}"
        )


def _revoked_or_expired_causes(row: Connection, provider: Provider | None) -> Iterator[LikelyCause]:
    failure, dies_at = row.failure, row.life.dies_at
    if failure is not None and dies_at is not None and dies_at <= failure.at:
        yield LikelyCause("died_of_disuse", f"Its refresh token expired unused on {dies_at:%Y-%m-%d}.")
    yield LikelyCause(
        "access_taken_back",
        "The end user or an administrator revoked the access, removed the app, or changed the password"
        + (f" ({failure.code}: {failure.message})." if failure else "."),
    )
    if provider is not None and provider.refresh is not None and provider.refresh.rotating:
        yield LikelyCause(
            "used_elsewhere",
            "Something else used the same refresh token: a copy of the database, or the system it was imported from.",
        )


def _coming_expiry_causes(row: Connection, now: datetime) -> Iterator[LikelyCause]:
    if row.life.dies_at is not None and row.life.keep_alive_at is None and row.life.dies_at - now < EXPIRY_NOTICE:
        yield LikelyCause("ends_soon", f"Its refresh token expires on {row.life.dies_at:%Y-%m-%d}, even if it is used.")


def _action(
    row: Connection, causes: Sequence[LikelyCause], now: datetime, reloaded_at: datetime | None
) -> SuggestedAction:
    ref, failure = row.ref, row.failure
    first_cause = causes[0].name if causes else ""
    if first_cause == "credential_unreadable":
        return SuggestedAction(
            "restore",
            "Find out who or what changed the database, and restore a backup with `gateway restore`. "
            "If only this connection is damaged, let the end user authorize again instead.",
        )
    if first_cause in INTEGRATION_CAUSES:
        return SuggestedAction("fix_integration", _integration_step(row, first_cause))
    if first_cause == "provider_outage" or (
        first_cause == "refused_without_reason" and failure is not None and not failure.final
    ):
        token_is_valid = row.expires_at is None or row.expires_at > now
        retry_at = failure.retry_at if failure is not None else None
        until = f", from {retry_at:%Y-%m-%d %H:%M:%S} UTC on" if retry_at is not None and retry_at > now else ""
        validity = "; the current token is still valid" if token_is_valid else ""
        return SuggestedAction("wait", f"Wait: the gateway retries with the next call{until}{validity}.")
    if first_cause == "client_refused" and reloaded_at is not None:
        return SuggestedAction(
            "wait",
            f"The client of integration '{ref.integration_id}' was loaded again on {reloaded_at:%Y-%m-%d %H:%M:%S} UTC, after "
            "this refusal: the next call tries a refresh.",
        )
    if first_cause in {"client_refused", "request_refused"}:
        refresh = f"gateway connections refresh --integration {ref.integration_id} {ref.connection_id}"
        return SuggestedAction(
            "fix_integration",
            f"Compare client_id, client_secret and scopes of integration '{ref.integration_id}' with the provider's "
            f"console; then: {refresh}. If they are right, {refusals.RECONNECT_STEP}.",
        )
    if first_cause == "setting_missing":
        return SuggestedAction("fix_settings", "Connect or import it again with that setting under connection_config.")
    if first_cause == "credential_rejected":
        return SuggestedAction(
            "reconnect",
            f"Check at the provider whether the credential is still valid. If it is not, {refusals.RECONNECT_STEP}, or import a "
            "new one under the same connection_id. A call that succeeds makes the connection active again.",
        )
    if first_cause == "credential_changed":
        return SuggestedAction(
            "import", f"Import the new password or key under the same connection_id, or {refusals.RECONNECT_STEP}."
        )
    return (
        SuggestedAction("reconnect", refusals.sentence(refusals.RECONNECT_STEP))
        if first_cause
        else SuggestedAction("none", "Nothing needs to be done.")
    )


def _integration_step(row: Connection, cause: str) -> str:
    name, provider = row.ref.integration_id, row.provider
    if cause == "integration_missing":
        return f"Declare integration '{name}' with provider '{provider}' again. Connections belong to an integration by its ID."
    if cause == "provider_changed":
        return f"Set the provider of integration '{name}' to '{provider}' again, or {refusals.RECONNECT_STEP}."
    return f"Put the entry of provider '{provider}' back into the catalog, or delete the integration."


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
