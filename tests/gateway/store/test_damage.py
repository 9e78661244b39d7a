"""A changed ciphertext is not reported as an outage: it has its own error code, event and metric.

Only the connection with the changed value is affected.
"""

import json
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import structlog
from structlog.typing import EventDict

from gateway import clock
from gateway.api.connection_json import history_json
from gateway.cli.connections.show_connections import _connection_json as shown
from gateway.errors import Unavailable
from gateway.records.connection import ConnectionRef
from gateway.refresh.keep_alive import KeepAlive
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.app.test_gauges import metric_values

EVENT = "stored_secret_unreadable"


def flip_bit(folder: Path, column: str = "credential", connection_id: str = "c1", at: int = -1) -> None:
    """Flip one bit of the connection's stored value."""
    with sqlite3.connect(folder / "gateway.db") as db:
        where = f"FROM connections WHERE connection_id = '{connection_id}'"
        (stored,) = db.execute(f"SELECT {column} {where}").fetchone()
        flipped = bytearray(stored)
        flipped[at] ^= 1
        db.execute(f"UPDATE connections SET {column} = ? WHERE connection_id = ?", (bytes(flipped), connection_id))
    db.close()


def replace_with_other(folder: Path, _column: str = "", connection_id: str = "c1") -> None:
    """Replace the credential with that of another connection."""
    with sqlite3.connect(folder / "gateway.db") as db:
        other = "SELECT credential FROM connections WHERE connection_id = 'c2'"
        db.execute(f"UPDATE connections SET credential = ({other}) WHERE connection_id = ?", (connection_id,))
    db.close()


def name_missing_key(folder: Path, column: str = "credential", connection_id: str = "c1") -> None:
    """Make the credential name a data key that does not exist."""
    flip_bit(folder, column, connection_id, at=3)


def replace_with_text(folder: Path) -> None:
    """Replace the credential with text. This is possible, because a column of SQLite accepts any type."""
    with sqlite3.connect(folder / "gateway.db") as db:
        db.execute("UPDATE connections SET credential = 'text' WHERE connection_id = 'c1'")
    db.close()


async def damage_while_stopped(running: RunningGateway, *harms: Callable[[Path], None]) -> None:
    """Stop the gateway, damage its database, and start it again with an empty memory."""
    await running.stop()
    for harm in harms:
        harm(running.folder)
    await running.start()


async def call_connection(
    running: RunningGateway, connection_id: str = "c1"
) -> tuple[int, str, str | None, dict[str, object]]:
    async with running.call_proxy(connection_id) as response:
        body = await response.read()
        reply = json.loads(body)["error"] if "Gateway-Error" in response.headers else {}
        return response.status, response.headers.get("Gateway-Error", ""), response.headers.get("Retry-After"), reply


def damage_events(logged: list[EventDict]) -> list[EventDict]:
    return [event for event in logged if event["event"] == EVENT]


@pytest.mark.parametrize("harm", [flip_bit, replace_with_other, name_missing_key, replace_with_text])
async def test_damage_is_reported_apart_from_an_outage_and_others_do_not_suffer(
    running: RunningGateway, tracker: Tracker, harm: Callable[[Path], None]
) -> None:
    for connection_id in ("c1", "c2"):
        await running.import_connection(tracker.grant(), connection_id)
    await damage_while_stopped(running, harm)
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            status, code, retry_after, reply = await call_connection(running)
            assert (status, code, retry_after) == (500, "credential_unreadable", None)
    assert "connection 'c1'" in str(reply["message"])
    assert "gateway restore" in str(reply["message"])
    (event,) = damage_events(logged)  # logged once a minute, for any number of calls
    wanted = {"environment": "dev", "integration": "tracker", "connection_id": "c1"}
    wanted |= {"table": "connections", "column": "credential", "log_level": "error"}
    assert {name: event[name] for name in wanted} == wanted
    assert metric_values(running, "gateway_stored_secrets_unreadable_total") == {("dev", "connections"): 3}
    for _ in range(3):
        assert (await call_connection(running, "c2"))[0] == 200
    async with running.http.get(f"{running.url}/connections", headers=running.headers) as response:
        assert response.status == 200
        assert {connection["connection_id"] for connection in (await response.json())["connections"]} == {"c1", "c2"}


async def test_a_key_that_is_not_given_is_not_reported_as_damage(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    row = await running.runtime.store.connections.get(ConnectionRef("dev", "tracker", "c1"))
    assert row is not None
    store = running.runtime.store
    store.vault._keys_by_id.clear()
    store.data_keys.locked = frozenset([row.credential.ciphertext[1:9].hex()])
    with structlog.testing.capture_logs() as logged, pytest.raises(Unavailable, match="SIGHUP") as refusal:
        store.open(row.credential)
    assert (refusal.value.status, refusal.value.code) == (503, "store_unavailable")
    assert damage_events(logged) == []


@pytest.mark.parametrize("column", ["credential", "secret_config"])
async def test_damaged_connection_can_be_reconnected_and_deleted(
    running: RunningGateway, tracker: Tracker, column: str
) -> None:
    for connection_id in ("c1", "c2"):
        await running.import_connection(tracker.grant(), connection_id)
    harms = [partial(flip_bit, column=column, connection_id=connection_id) for connection_id in ("c1", "c2")]
    await damage_while_stopped(running, *([seal_settings] if column == "secret_config" else []), *harms)
    await running.import_connection(tracker.grant(), "c1")
    assert (await call_connection(running))[0] == 200
    url = f"{running.url}/connections/c2?provider_config_key=tracker"
    async with running.http.delete(url, headers=running.headers) as response:
        assert response.status == 200, await response.text()
    async with running.http.get(url, headers=running.headers) as response:
        assert response.status == 404


def seal_settings(folder: Path) -> None:
    """Store a sealed value in the column of secret settings. The test damages this value later."""
    with sqlite3.connect(folder / "gateway.db") as db:
        db.execute("UPDATE connections SET secret_config = credential, secret_config_version = version")
    db.close()


async def test_history_and_show_command_say_how_to_replace_a_damaged_credential(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    await damage_while_stopped(running, flip_bit)
    runtime = running.runtime
    row = await runtime.store.connections.get(ConnectionRef("dev", "tracker", "c1"))
    assert row is not None
    diagnosis = (await history_json(runtime, runtime.generation, row))["diagnosis"]
    assert diagnosis["causes"][0]["cause"] == "credential_unreadable"
    assert diagnosis["action"]["do"] == "restore"
    assert "gateway restore" in diagnosis["action"]["how"]
    assert "authorize again" in diagnosis["action"]["how"]
    assert shown(runtime, row)["credential_type"] is None


async def test_damaged_row_does_not_prevent_keep_alive_of_others(running: RunningGateway, tracker: Tracker) -> None:
    for connection_id in ("c1", "c2"):
        await running.import_connection(tracker.grant(), connection_id)
    await damage_while_stopped(running, flip_bit)
    runtime = running.runtime
    keep_alive = KeepAlive(runtime.store, runtime.refresher, runtime.current)
    rows = [
        row
        for item in ("c1", "c2")
        if (row := await runtime.store.connections.get(ConnectionRef("dev", "tracker", item))) is not None
    ]
    provider = runtime.generation.catalog.get(rows[0].provider)
    assert provider is not None
    await keep_alive._plan_rows(provider, rows)


async def test_damage_is_logged_again_after_a_minute(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    await damage_while_stopped(running, flip_bit)
    started = clock.monotonic()
    with structlog.testing.capture_logs() as logged:
        await call_connection(running)
        monkeypatch.setattr(clock, "monotonic", lambda: started + timedelta(minutes=2).total_seconds())
        await call_connection(running)
    assert len(damage_events(logged)) == 2
