"""What a token endpoint gave, on the disk before the database has it (ADR 32).

A commit waits for its turn, for other processes and for half a dozen statements; a process that is killed meanwhile would
take with it a pair that exists nowhere else. So the answer goes, sealed, into a file beside the database first, in a tenth
of that time. Whoever takes the refresh up afterwards finds it there (`leftovers`) and asks nobody.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog

from gateway.records.connection import Connection
from gateway.store.data_keys import DataKeys
from gateway.store.notes import Note, new_attempt, new_key
from gateway.store.own_file import OwnFile
from gateway.store.slot_file import SlotFile
from gateway.vault import Vault, VaultError

TABLE: Final = "pairs"  # of no database: what such a value is bound to
PAIR: Final = "answer"
KEY: Final = "key"

log = structlog.get_logger(__name__)


class Pairs:
    """`place`: what the file's name begins with; None where there is no folder of our own, and nothing is noted."""

    def __init__(self, place: Path | None, vault: Vault, keys: DataKeys) -> None:
        self._place = place
        self._vault = vault
        self._keys = keys
        self._own = None if place is None else OwnFile(place)

    @property
    def can_note(self) -> bool:
        """Whether there is a folder of our own."""
        return self._place is not None

    async def file_name(self) -> str | None:
        """By which others on this machine can see whether this process lives (`Holders.of`); None where there is none."""
        file = None if self._own is None else await self._own.ready()
        return None if file is None else file.name

    async def prepare(self, environment: str) -> None:
        """Before the call, so that afterwards nothing but the note itself takes time. Never raises for want of a file."""
        if self._own is not None:
            await self._keys.allow(environment)
            await self._own.ready()

    def note(self, row: Connection) -> Note | None:
        """How a courier is to note what an attempt to renew the credential of `row` is answered; None where it cannot."""
        if self._place is None:
            return None
        attempt, key = new_attempt(), new_key()
        try:
            sealed = self._vault.seal_json({"key": key.hex()}, environment=row.ref.environment, **place_of(row, KEY))
        except VaultError as fault:
            log.warning("pair_not_noted", connection_id=row.ref.connection_id, detail=str(fault))
            return None
        about = {**_about(row), "attempt": attempt, "key": sealed.ciphertext.hex()}
        return Note(self._place.absolute(), attempt, json.dumps(about), key)

    async def keep(
        self, row: Connection, credential: Mapping[str, Any], expires_at: datetime | None
    ) -> Callable[[], None]:
        """On the disk when this returns, as far as that can be. To be called once the database has it."""
        file = None if self._own is None else await self._own.ready()
        if file is None:
            return _nothing
        try:
            value = {"credential": credential, "expires_at": expires_at.isoformat() if expires_at else None}
            sealed = self._vault.seal_json(value, environment=row.ref.environment, **place_of(row, PAIR))
            about = json.dumps(_about(row)).encode()
            room = await _noted(file, about + b"\n" + sealed.ciphertext)
        except Exception as fault:  # noqa: BLE001 (whatever it was, the commit comes next)
            log.warning("pair_not_noted", connection_id=row.ref.connection_id, detail=str(fault))
            return _nothing
        return lambda: file.give_back(room)

    def close(self) -> None:
        """What was noted and could not be stored stays, for the next start."""
        if self._own is not None:
            self._own.close()


def place_of(row: Connection, column: str) -> Any:
    """What a value of `column` about the credential that is to replace that of `row` is bound to."""
    return {"table": TABLE, "row": row.uid, "column": column, "version": row.version + 1}


def _about(row: Connection) -> dict[str, Any]:
    return {"ref": row.ref, "row": row.uid, "version": row.version}


async def _noted(file: SlotFile, record: bytes) -> range:
    """On the disk when this returns, and safe from a kill of this process at once, where there is room."""
    room = file.jotted(record)
    if room is None:
        return await asyncio.to_thread(file.noted, record)
    try:
        await asyncio.to_thread(file.sync)
    except OSError:
        file.give_back(room)
        raise
    return room


def _nothing() -> None:
    pass
