"""What a token endpoint gave, on the disk before the database has it (ADR 32).

A commit waits for its turn, for other processes and for half a dozen statements; a process that is killed meanwhile would
take with it a pair that exists nowhere else. So the answer goes, sealed, into a file beside the database first, in a tenth
of that time. Whoever takes the refresh up afterwards finds it there and asks nobody.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog

from gateway.records.connection import Connection, ConnectionRef, Sealed
from gateway.store.data_keys import DataKeys
from gateway.store.slot_file import SlotFile, all_files, is_dead, records
from gateway.vault import Vault, VaultError

TABLE: Final = "pairs"  # of no database: what such a value is bound to
COLUMN: Final = "answer"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A pair that was noted and may not have been stored."""

    credential: Mapping[str, Any]
    expires_at: datetime | None


class Pairs:
    """`place`: what the files' names begin with; None where there is no folder of our own, and nothing is noted."""

    def __init__(self, place: Path | None, vault: Vault, keys: DataKeys) -> None:
        self._place = place
        self._vault = vault
        self._keys = keys
        self._file: SlotFile | None = None
        self._opening = asyncio.Lock()  # refreshes that begin together shall have one file

    async def prepare(self, environment: str) -> None:
        """Before the call, so that afterwards nothing but the note itself takes time. Never raises for want of a file."""
        if self._place is None:
            return
        await self._keys.allow(environment)
        async with self._opening:
            if self._file is None:
                try:
                    self._file = await asyncio.to_thread(SlotFile, self._place)
                except OSError as fault:
                    log.warning("pairs_cannot_be_noted", detail=f"{self._place}: {fault.strerror}")

    async def keep(
        self, row: Connection, credential: Mapping[str, Any], expires_at: datetime | None
    ) -> Callable[[], None]:
        """On the disk when this returns, as far as that can be. To be called once the database has it."""
        file = self._file
        if file is None:
            return _nothing
        try:
            value = {"credential": credential, "expires_at": expires_at.isoformat() if expires_at else None}
            sealed = self._vault.seal_json(value, environment=row.ref.environment, **_place_of(row))
            about = json.dumps({"ref": row.ref, "row": row.uid, "version": row.version}).encode()
            room = await _noted(file, about + b"\n" + sealed.ciphertext)
        except (OSError, VaultError, TypeError) as fault:  # the commit comes next, and has its own troubles
            log.warning("pair_not_noted", connection_id=row.ref.connection_id, detail=str(fault))
            return _nothing
        return lambda: file.give_back(room)

    async def left(self, row: Connection) -> Found | None:
        """What a process that died got for the credential that `row` has still."""
        if self._place is None:
            return None
        for about, ciphertext in await asyncio.to_thread(_all_in, self._place):
            if (about["row"], about["version"]) == (row.uid, row.version):
                found = await self._opened(row, ciphertext)
                if found is not None:
                    return found
        return None

    async def sweep(self, current: Callable[[ConnectionRef], Awaitable[Connection | None]]) -> None:
        """Remove files of processes that died, once all that is in them is in the database or of no use any more."""
        if self._place is None:
            return
        for path in await asyncio.to_thread(_dead, self._place):
            needed = False
            for about, _ in await asyncio.to_thread(_read, path):
                row = await current(ConnectionRef(*about["ref"]))
                needed = needed or (row is not None and (row.uid, row.version) == (about["row"], about["version"]))
            if not needed:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """What was noted and could not be stored stays, for the next start."""
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _opened(self, row: Connection, ciphertext: bytes) -> Found | None:
        sealed = Sealed(ciphertext, row.ref.environment, **_place_of(row))
        try:
            await self._keys.learn(sealed)
            value = self._vault.open_json(sealed)
        except VaultError as fault:  # cut off by the kill, or sealed under a key that is gone
            log.warning("pair_unreadable", connection_id=row.ref.connection_id, detail=str(fault))
            return None
        ends = value["expires_at"]
        return Found(value["credential"], datetime.fromisoformat(ends) if ends else None)


def _place_of(row: Connection) -> Any:
    return {"table": TABLE, "row": row.uid, "column": COLUMN, "version": row.version + 1}


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


def _dead(place: Path) -> list[Path]:
    return [path for path in all_files(place) if is_dead(path)]


def _all_in(place: Path) -> list[tuple[dict[str, Any], bytes]]:
    return [one for path in all_files(place) for one in _read(path)]


def _read(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    found = []
    try:
        for record in records(path):
            about, newline, ciphertext = record.partition(b"\n")
            try:
                told = json.loads(about) if newline else None
            except ValueError:
                continue
            if isinstance(told, dict) and told.keys() == {"ref", "row", "version"}:
                found.append((told, ciphertext))
    except OSError:  # removed meanwhile
        pass
    return found
