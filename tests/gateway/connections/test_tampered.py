"""An attacker who can write to the database, but has no key, cannot make the gateway send another connection's
credential."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.records.connection import Connection, ConnectionRef
from gateway.runtime import Runtime
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

Tamper = Callable[[Runtime, Connection, Connection], bytes]


def _with_flipped_bit(position: int) -> Tamper:
    def tamper(_: Runtime, own_row: Connection, _other: Connection) -> bytes:
        changed = bytearray(own_row.credential.ciphertext)
        changed[position] ^= 1
        return bytes(changed)

    return tamper


def _credential_of_other_row(_: Runtime, _mine: Connection, other_row: Connection) -> bytes:
    return other_row.credential.ciphertext


def _seal_for_other_place(**other_place: object) -> Tamper:
    """Return the same value, sealed by the gateway itself for another place."""

    def tamper(runtime: Runtime, own_row: Connection, _: Connection) -> bytes:
        place = replace(own_row.credential, **other_place)  # type: ignore[arg-type]
        value = runtime.store.open(own_row.credential)
        return runtime.store.vault.seal_json(
            value,
            environment=place.environment,
            table=place.table,
            row=place.row,
            column=place.column,
            version=place.version,
        ).ciphertext

    return tamper


def _write(database: Path, uid: str, credential: bytes) -> int:
    """Write to the database directly."""
    with closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as db:
        return db.execute("UPDATE connections SET credential = ? WHERE uid = ?", (credential, uid)).rowcount


TAMPERINGS = {
    "first byte": _with_flipped_bit(0),
    "key id": _with_flipped_bit(3),
    "nonce": _with_flipped_bit(10),
    "tag": _with_flipped_bit(-1),
    "cut short": lambda _, mine, _other: mine.credential.ciphertext[:-1],
    "nothing": lambda _, _mine, _other: b"",
    "another row": _credential_of_other_row,
    "another column": _seal_for_other_place(column="secret_config"),
    "another version": _seal_for_other_place(version=7),
    "another table": _seal_for_other_place(table="flows"),
}


@pytest.mark.parametrize("case", TAMPERINGS)
async def test_a_tampered_credential_is_refused_and_nothing_is_sent(
    running: RunningGateway, tracker: Tracker, case: str
) -> None:
    for name in ("c1", "c2"):
        await running.import_connection(tracker.grant(), name)
    get = running.runtime.store.connections.get
    mine, other = [await get(ConnectionRef("dev", "tracker", name)) for name in ("c1", "c2")]
    assert mine is not None
    assert other is not None
    tampered = TAMPERINGS[case](running.runtime, mine, other)
    assert await asyncio.to_thread(_write, running.folder / "gateway.db", mine.uid, tampered) == 1
    calls_before = tracker.calls.total()
    async with running.call_proxy("c1") as response:
        assert (response.status, response.headers["Gateway-Error"]) == (500, "credential_unreadable")
        assert "Retry-After" not in response.headers
        assert "cannot be opened" in (await response.json())["error"]["message"]
    assert tracker.calls.total() == calls_before
    async with running.call_proxy("c2") as response:
        assert response.status == 200
