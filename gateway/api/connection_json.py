"""Converts a connection and its diagnosis into the JSON that the API and the command line show."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gateway import clock
from gateway.api import responses
from gateway.connections.diagnosis import ConnectionDiagnosis, diagnose_connection
from gateway.connections.scope_drift import ScopeDrift, scope_drift
from gateway.errors import CredentialUnreadable, Unavailable
from gateway.generation import Generation
from gateway.records.connection import Connection, EndUser
from gateway.records.states import Change
from gateway.refresh.schedule import ends_with_token
from gateway.runtime import Runtime
from gateway.store import Store
from gateway.timestamps import iso

# ── A connection as the API shows it (docs/compatibility.md#connections).

NON_LETTERS: Final = re.compile(r"[^a-z]")


def listed_connection_json(connection: Connection) -> responses.ListedConnection:
    """Return a connection as a row of the list, without its credential and settings."""
    return {**_common_members(connection), "created": timestamp_with_offset(connection.created_at)}


def connection_state_json(connection: Connection) -> responses.ConnectionState:
    members = _common_members(connection)
    return {
        "connection_id": members["connection_id"],
        "provider_config_key": members["provider_config_key"],
        "provider": members["provider"],
        "state": members["state"],
        "errors": members["errors"],
    }


def full_connection_json(
    store: Store,
    connection: Connection,
    *,
    credentials: bool = True,
    with_refresh_token: bool = False,
    times_in_z: bool = False,
) -> responses.ConnectionJson:
    """Return the connection with its settings and, unless `credentials` is false, with its credential.

    Without `with_refresh_token`, every member named ``refresh_token`` is left out, in any spelling of the name and at
    any depth. `times_in_z`: write times with ``Z`` at the end instead of ``+00:00``, as the response to an import does.
    Raises CredentialUnreadable, Unavailable.
    """
    config: Any = store.settings_of(connection) if credentials else dict(connection.config)
    credential: Any = dict(store.open(connection.credential)) if credentials else {}
    if credential.get("type") == "NONE":
        credential = {}
    if not with_refresh_token:
        config, credential = _without_refresh_tokens(config), _without_refresh_tokens(credential)
    timestamp = iso if times_in_z else timestamp_with_offset
    return {
        **_common_members(connection),  # type: ignore[typeddict-item]  # mypy: it might have more members than its type
        "connection_config": config,
        "webhook_url_override": connection.webhook_url_override,
        "created_at": timestamp(connection.created_at),
        "updated_at": timestamp(connection.updated_at),
        "last_fetched_at": timestamp(connection.last_fetched_at) if connection.last_fetched_at else None,
        "credentials": credential,
    }


def _common_members(connection: Connection) -> responses.AnyConnection:
    failure, account = connection.failure, connection.account
    return {
        "id": connection.id,
        "connection_id": connection.ref.connection_id,
        "provider_config_key": connection.ref.integration_id,
        "provider": connection.provider,
        "state": connection.state.value,
        "dies_at": timestamp_with_offset(connection.life.dies_at) if connection.life.dies_at else None,
        "keep_alive_at": timestamp_with_offset(connection.life.keep_alive_at)
        if connection.life.keep_alive_at
        else None,
        "errors": [{"type": "auth", "log_id": f"{failure.code} {iso(failure.at)}"}] if failure else [],
        "end_user": end_user_json(connection.end_user),
        "account": {"id": account.id, "label": account.label} if account.label or account.id else None,
        "tags": dict(connection.tags),
        "metadata": None if connection.metadata is None else dict(connection.metadata),
    }


def timestamp_with_offset(moment: datetime) -> str:
    """Return the time as ``2026-01-02T03:04:05.678+00:00``."""
    return moment.isoformat(timespec="milliseconds")


def end_user_json(user: EndUser | None) -> responses.EndUserJson | None:
    """Return the end user as connections and connect sessions show them; None if there is no end user."""
    if user is None:
        return None
    organization: responses.Organization | None = None
    if user.organization_id is not None:
        organization = {"id": user.organization_id, "display_name": user.organization_display_name}
    return {
        "id": user.id,
        "display_name": user.display_name,
        "email": user.email,
        "tags": dict(user.tags) if user.tags is not None else None,
        "organization": organization,
    }


def _without_refresh_tokens(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _without_refresh_tokens(inner)
            for name, inner in value.items()
            if NON_LETTERS.sub("", str(name).lower()) != "refreshtoken"
        }
    if isinstance(value, list):
        return [_without_refresh_tokens(inner) for inner in value]
    return value


# ── The history and diagnosis of a connection, as the API and the command line show them.


async def add_history(
    connection_json: responses.ConnectionJson, runtime: Runtime, generation: Generation, row: Connection
) -> None:
    """Add the members of ``include=history`` to `connection_json`."""
    history = await history_json(runtime, generation, row)
    connection_json["history"] = history["history"]
    connection_json["diagnosis"] = history["diagnosis"]
    connection_json["scopes"] = history["scopes"]


async def history_json(
    runtime: Runtime, generation: Generation, row: Connection, *, in_serving_process: bool = True
) -> responses.History:
    """Return the members that ``include=history`` adds. ``history`` has each change of state, the oldest first.
    ``diagnosis`` has a timeline, the likely causes (the likeliest first), and the action that helps. ``scopes`` has the
    granted, needed and missing scopes.

    `in_serving_process`: whether this process serves calls. A command serves no calls.
    """
    changes = await runtime.store.history.changes_of(row.id)
    provider, now = generation.catalog.get(row.provider), clock.now()
    credential, readable = _open_credential(runtime, row)
    integration = generation.integrations.find(*row.ref[:2])
    drift = (
        scope_drift(credential, provider, integration, refused=row.refused_scopes)
        if provider is not None
        else ScopeDrift(None, ())
    )
    diagnosis = diagnose_connection(
        row,
        changes,
        provider,
        now,
        readable=readable,
        integration=integration,
        failovers=await runtime.store.failover.failover_times(),
        ends_with_token=provider is not None and credential is not None and ends_with_token(provider, credential),
        scopes=drift,
        client_since=generation.integrations.client_since(*row.ref[:2]) if in_serving_process else None,
    )
    scopes: responses.Scopes = {
        "granted": None if drift.granted is None else list(drift.granted),
        "needed": list(drift.needed),
        "missing": list(drift.missing),
    }
    if row.refused_scopes is not None:
        scopes["refused"] = {
            "scopes": list(row.refused_scopes.scopes),
            "at": timestamp_with_offset(row.refused_scopes.at),
            "path": row.refused_scopes.path,
        }
    return {
        "history": [_change_json(change) for change in changes],
        "diagnosis": _diagnosis_json(row, diagnosis),
        "scopes": scopes,
    }


def _open_credential(runtime: Runtime, row: Connection) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the connection's credential, and whether its stored values are intact. If an encryption key is missing,
    the credential is None, but the stored values count as intact."""
    try:
        credential = runtime.store.open(row.credential)
        runtime.store.open(row.secret_config)
    except CredentialUnreadable:
        return None, False
    except Unavailable:  # an encryption key is missing, which is not a fault of this connection
        return None, True
    return credential, True


def _change_json(change: Change) -> responses.ChangeJson:
    return {
        "at": timestamp_with_offset(change.at),
        "state": change.state.value,
        "previous_state": change.before.value if change.before else None,
        "reason": change.reason,
        "detail": change.detail,
    }


def _diagnosis_json(row: Connection, diagnosis: ConnectionDiagnosis) -> responses.Diagnosis:
    return {
        "state": row.state.value,
        "since": timestamp_with_offset(row.state_since or row.created_at),
        "causes": [{"cause": cause.name, "why": cause.why} for cause in diagnosis.causes],
        "action": {"do": diagnosis.action.name, "how": diagnosis.action.how},
        "timeline": [
            {
                "at": timestamp_with_offset(moment.at),
                "what": moment.what,
                "detail": moment.detail,
                "ahead": moment.ahead,
            }
            for moment in diagnosis.moments
        ],
    }
