"""Reports what was done through an integration or with a key within a time span.

The report is for operators who suspect that a key was stolen. The console's page Incident and the command
``gateway incident`` use this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gateway import clock
from gateway.api.audit_endpoints import audit_record_json, credential_uses_json
from gateway.api.connection_json import timestamp_with_offset
from gateway.api.keys import key_json
from gateway.console.call_views import rows
from gateway.errors import InvalidRequest, NotFound
from gateway.records.access import MintedKey
from gateway.records.audit import AuditAction, AuditFilter, ChainedRecord, CredentialUseFilter, CredentialUsePage
from gateway.records.connection import ConnectionRef
from gateway.records.operation import OperationFilter
from gateway.runtime import Runtime

DEFAULT_SPAN: Final = timedelta(hours=24)
MAX_SPAN: Final = timedelta(days=31)
MAX_CONNECTIONS: Final = 100
MAX_CALLS_SHOWN: Final = 25
MAX_REFUSED: Final = 1000  # maximum number of refused calls that are read
MAX_RECORDS_SHOWN: Final = 25
MAX_REFUSED_SHOWN: Final = 100
MAX_KEYS_SHOWN: Final = 50  # maximum number of the report's keys that are shown
MAX_KEYS: Final = 10_000
REFUSALS: Final = frozenset({"forbidden", "too_many_request", "unknown_connection"})
"""The error codes of refused calls.

The key's scopes, rules, rate limit or budget do not allow the call, or the connection does not exist, or the key may
not use the connection.
"""
GROUP_FIELDS: Final = ("key_id", "error", "rule", "provider_config_key", "connection_id", "method", "path")
REPORTED_ACTIONS: Final = (  # audited actions, other than calls, that the holder of a stolen key can take
    AuditAction.CREDENTIAL_READ,
    AuditAction.CLIENT_SECRET_READ,
    AuditAction.KEY_CREATED,
    AuditAction.KEY_FIRST_USED,
    AuditAction.CONNECTION_EXPORTED,
    AuditAction.CONNECTION_DELETED,
)


@dataclass(frozen=True, slots=True)
class IncidentSubject:
    """What a report is about: an integration, a key, or the calls of a key to an integration.

    The keys that a key minted are always included.
    """

    environment: str
    since: datetime
    until: datetime
    integration_id: str | None = None
    key_id: int | None = None


def incident_subject(
    environment: str, *, integration_id: str | None, key_id: int | None, since: datetime | None, until: datetime | None
) -> IncidentSubject:
    """Return the subject of a report. Raises InvalidRequest.

    `until`: the end of the time span; None: now. `since`: the start of the time span; None: 24 hours before the end.
    """
    if integration_id is None and key_id is None:
        raise InvalidRequest("invalid_query_params", "Give an integration, a key or both.")
    until = until or clock.now()
    since = since or until - DEFAULT_SPAN
    if not since < until:
        raise InvalidRequest("invalid_query_params", "'until' must be later than 'since'.")
    if until - since > MAX_SPAN:
        raise InvalidRequest("invalid_query_params", f"A report covers at most {MAX_SPAN.days} days.")
    return IncidentSubject(environment, since, until, integration_id, key_id)


async def report(
    runtime: Runtime,
    subject: IncidentSubject,
    *,
    max_connections: int = MAX_CONNECTIONS,
    max_keys: int = MAX_KEYS_SHOWN,
) -> dict[str, Any]:
    """Return the report as JSON values. Raises NotFound for an unknown key.

    In the report, `connections` has the connections of the `max_connections` most used pairs of key and connection, and
    `keys` has the `max_keys` oldest keys.
    """
    keys = await _keys(runtime, subject)
    more_keys, keys = len(keys) > MAX_KEYS, keys[:MAX_KEYS]
    ids = frozenset(key.id for key in keys)
    use_filter = CredentialUseFilter(
        subject.environment, subject.since, subject.until, ids, subject.integration_id, limit=max_connections
    )
    uses = await runtime.store.uses.find(use_filter)
    calls, more_calls = await _calls(runtime, _call_filter(subject, ids, MAX_CALLS_SHOWN, excluded_codes=REFUSALS))
    refused_calls, more_refused = await _calls(runtime, _call_filter(subject, ids, MAX_REFUSED, error_codes=REFUSALS))
    combined_calls = _combine_similar(refused_calls)
    records = await _records(runtime, subject, ids)
    connections = [await _connection(runtime, ref, counts) for ref, counts in _sum_by_connection(subject, uses)]
    now = clock.now()
    integrations = runtime.generation.integrations
    return {
        "environment": subject.environment,
        "integration": subject.integration_id,
        "unknown_integration": subject.integration_id is not None
        and integrations.find(subject.environment, subject.integration_id) is None,
        "key": subject.key_id,
        "since": timestamp_with_offset(subject.since),
        "until": timestamp_with_offset(subject.until),
        "made_at": timestamp_with_offset(now),
        "uses": credential_uses_json(use_filter, uses),
        "connections": connections,
        "keys": [_key(key) for key in keys[:max_keys]],
        "keys_in_all": len(keys),
        "more_keys": more_keys,
        "calls": calls,
        "more_calls": more_calls,
        "refused": combined_calls[:MAX_REFUSED_SHOWN],
        "refused_kinds": len(combined_calls),
        "refused_calls": len(refused_calls),
        "more_refused": more_refused,
        "records": [audit_record_json(record) for record in records[:MAX_RECORDS_SHOWN]],
        "more_records": len(records) > MAX_RECORDS_SHOWN,
    }


async def _records(runtime: Runtime, subject: IncidentSubject, key_ids: frozenset[int]) -> list[ChainedRecord]:
    """Return the audit records of the keys or of the integration, the newest first."""
    records = []
    for action in REPORTED_ACTIONS:
        records += await runtime.store.audit.find(
            AuditFilter(
                environment=subject.environment,
                since=subject.since,
                until=subject.until,
                action=action,
                key_ids=key_ids,
                integration_id=subject.integration_id,
                limit=MAX_RECORDS_SHOWN + 1,
            )
        )
    return sorted(records, key=lambda record: -record.sequence)


def _call_filter(
    subject: IncidentSubject,
    key_ids: frozenset[int],
    limit: int,
    *,
    error_codes: frozenset[str] = frozenset(),
    excluded_codes: frozenset[str] = frozenset(),
) -> OperationFilter:
    return OperationFilter(
        subject.environment,
        since=subject.since,
        until=subject.until,
        kind="call",
        integration_id=subject.integration_id,
        key_ids=key_ids,
        error_codes=error_codes,
        excluded_codes=excluded_codes,
        limit=limit,
    )


async def _calls(runtime: Runtime, operation_filter: OperationFilter) -> tuple[list[dict[str, Any]], bool]:
    """Return the newest calls that match the filter, and whether the call log has more matching calls."""
    page = await runtime.store.call_log.find(operation_filter)
    return await rows(runtime.store, operation_filter.environment, page.operations), page.more


def _combine_similar(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Combine calls with equal `GROUP_FIELDS` into one row: the newest of these calls, with their number in `times`."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for call in calls:
        group = groups.setdefault(tuple(call[name] for name in GROUP_FIELDS), {**call, "times": 0})
        group["times"] += 1
    return list(groups.values())


async def _keys(runtime: Runtime, subject: IncidentSubject) -> list[MintedKey]:
    """Return the subject's key and all keys that descend from this key; empty if the subject has no key."""
    if subject.key_id is None:
        return []
    keys = await runtime.store.keys.family(subject.environment, subject.key_id, limit=MAX_KEYS + 1)
    if not keys:
        raise NotFound("not_found", f"Environment '{subject.environment}' has no key {subject.key_id}.")
    return keys


def _sum_by_connection(
    subject: IncidentSubject, page: CredentialUsePage
) -> list[tuple[ConnectionRef, tuple[int, int]]]:
    sums: dict[ConnectionRef, tuple[int, int]] = {}
    for use, calls, failed in page.uses:
        ref = ConnectionRef(subject.environment, use.integration_id, use.connection_id)
        sum_so_far = sums.get(ref, (0, 0))
        sums[ref] = (sum_so_far[0] + calls, sum_so_far[1] + failed)
    return list(sums.items())


async def _connection(runtime: Runtime, ref: ConnectionRef, counts: tuple[int, int]) -> dict[str, Any]:
    connection = await runtime.store.connections.get(ref)
    return {
        "provider_config_key": ref.integration_id,
        "connection_id": ref.connection_id,
        "calls": counts[0],
        "failed": counts[1],
        "state": "deleted" if connection is None else connection.state.value,
        "last_refreshed_at": None
        if connection is None or connection.refreshed_at is None
        else timestamp_with_offset(connection.refreshed_at),
    }


def _key(key: MintedKey) -> dict[str, Any]:
    key_object: Mapping[str, Any] = key_json(key)
    names = ("id", "display_name", "kind", "last_four", "created_by", "last_used_at", "revoked_at")
    return {
        **{name: key_object.get(name) for name in names},
        "parent_id": key.parent_id,
        "alive": key.is_valid(clock.now()),
    }


async def revoke_all(
    runtime: Runtime,
    subject: IncidentSubject,
    incident: Mapping[str, Any],
    person: str,
    *,
    keys: bool = True,
    connections: bool,
) -> list[str]:
    """Revoke the report's keys and delete its connections; return one line for each result.

    `incident`: the report. `person`: the name of the person who revokes. `keys`: whether to revoke the subject's key
    and all keys that descend from it. `connections`: whether to delete the report's connections, in the gateway and at
    their providers.
    """
    actions = []
    if (
        keys
        and subject.key_id is not None
        and (revoked_count := await runtime.issuer.revoke(subject.environment, subject.key_id, person))
    ):
        actions.append(f"Key {subject.key_id} and the keys that it minted: {revoked_count} revoked.")
    for connection in incident["connections"] if connections else ():
        name = f"{connection['provider_config_key']}/{connection['connection_id']}"
        ref = ConnectionRef(subject.environment, connection["provider_config_key"], connection["connection_id"])
        if connection["state"] == "deleted":
            continue
        deletion = await runtime.deleter.delete(ref)
        if deletion is None:
            actions.append(f"{name}: was already deleted.")
            continue
        tokens = ", ".join(f"{outcome.token} {outcome.outcome}" for outcome in deletion.revocation)
        provider_result = (
            "revoked at the provider" if deletion.at_provider else "the credential may still work at the provider"
        )
        actions.append(f"{name}: deleted here; {provider_result}{f' ({tokens})' if tokens else ''}.")
    return actions
