"""What a token endpoint gave, on the disk before the database has it (ADR 32).

A commit waits for its turn, for other processes and for half a dozen statements; a process that is killed meanwhile would
take with it a pair that exists nowhere else. So the answer goes, sealed, into a file beside the database first, in a tenth
of that time. Whoever takes the refresh up afterwards finds it there and asks nobody.
"""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog

from gateway import clock
from gateway.records.connection import Connection, ConnectionRef, Sealed
from gateway.store.data_keys import DataKeys
from gateway.store.notes import Note, Noted, new_attempt, new_key, opened
from gateway.store.slot_file import SlotFile, all_files, is_dead, records
from gateway.vault import Vault, VaultError

TABLE: Final = "pairs"  # of no database: what such a value is bound to
COLUMN: Final = "answer"
OWN: Final = {"ref", "row", "version"}
KEYS: Final = (OWN, OWN | {"attempt", "key", "step"})
LOOK_AGAIN_S: Final = 0.05
WAIT_S: Final = 30.0  # longer than any token call

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A pair that was noted and may not have been stored."""

    credential: Mapping[str, Any]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Left:
    """What one that died has left: a pair that it read, or what a courier was answered for it, by the calls' order."""

    pair: Found | None = None
    answers: tuple[Noted, ...] = ()


class Pairs:
    """`place`: what the files' names begin with; None where there is no folder of our own, and nothing is noted."""

    def __init__(self, place: Path | None, vault: Vault, keys: DataKeys) -> None:
        self._place = place
        self._vault = vault
        self._keys = keys
        self._file: SlotFile | None = None
        self._opening = asyncio.Lock()  # refreshes that begin together shall have one file

    @property
    def can_note(self) -> bool:
        """Whether there is a folder of our own."""
        return self._place is not None

    async def new_owner(self) -> str:
        """A name for one attempt, by which others on this machine can tell whether its process lives: see `is_gone`."""
        await self._open()
        return f"{self._file.name if self._file is not None else ''}.{uuid.uuid4().hex}"

    async def is_gone(self, owner: str) -> bool:
        """Whether the process is known to be dead whose name that is. A file that is not here tells nothing: a living process of
        another machine has its own there.
        """
        name, dot, _ = owner.partition(".")
        if self._place is None or not dot or not name.isalnum():
            return False
        return await asyncio.to_thread(is_dead, self._place.with_name(f"{self._place.name}-{name}"))

    async def prepare(self, environment: str) -> None:
        """Before the call, so that afterwards nothing but the note itself takes time. Never raises for want of a file."""
        if self._place is not None:
            await self._keys.allow(environment)
            await self._open()

    async def _open(self) -> None:
        async with self._opening:
            if self._place is not None and self._file is None:
                try:
                    self._file = await asyncio.to_thread(SlotFile, self._place)
                except OSError as fault:
                    log.warning("pairs_cannot_be_noted", detail=f"{self._place}: {fault.strerror}")

    def note(self, row: Connection) -> Note | None:
        """How a courier is to note what an attempt to renew the credential of `row` is answered; None as for `place`."""
        if self._place is None:
            return None
        attempt, key = new_attempt(), new_key()
        sealed = self._vault.seal_json({"key": key.hex()}, environment=row.ref.environment, **_place_of(row))
        about = {**_about(row), "attempt": attempt, "key": sealed.ciphertext.hex()}
        return Note(self._place.absolute(), attempt, json.dumps(about), key)

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
            about = json.dumps(_about(row)).encode()
            room = await _noted(file, about + b"\n" + sealed.ciphertext)
        except (OSError, VaultError, TypeError) as fault:  # the commit comes next, and has its own troubles
            log.warning("pair_not_noted", connection_id=row.ref.connection_id, detail=str(fault))
            return _nothing
        return lambda: file.give_back(room)

    async def left(self, row: Connection) -> Left:
        """What another got for the credential that `row` has still. Waits for a courier that is still asking for it."""
        if self._place is None:
            return Left()
        until = clock.monotonic() + WAIT_S
        while True:
            asking, found = False, dict[str, list[tuple[int, Noted]]]()
            for living, about, ciphertext in await asyncio.to_thread(_all_in, self._place):
                if (about["row"], about["version"]) != (row.uid, row.version):
                    continue
                if "attempt" not in about:
                    pair = await self._pair(row, ciphertext)
                    if pair is not None:
                        return Left(pair)
                    continue
                noted = await self._noted(row, about, ciphertext)
                if noted is not None:
                    found.setdefault(about["attempt"], []).append((about["step"], noted))
                asking = asking or (living and noted is None)
            if not asking or clock.monotonic() >= until:
                break
            await clock.sleep(LOOK_AGAIN_S)
        newest = max(found.values(), key=lambda steps: max(noted.reply.asked_at for _, noted in steps), default=[])
        return Left(answers=tuple(noted for _, noted in sorted(newest, key=lambda step: step[0])))

    async def sweep(self, current: Callable[[ConnectionRef], Awaitable[Connection | None]]) -> None:
        """Remove files of processes that died, once all that is in them is in the database or of no use any more."""
        if self._place is None:
            return
        for path in await asyncio.to_thread(_dead, self._place):
            needed = False
            for about, ciphertext in await asyncio.to_thread(_read, path):
                if not ciphertext:  # of a call that was not answered, or is of no use
                    continue
                row = await current(ConnectionRef(*about["ref"]))
                needed = needed or (row is not None and (row.uid, row.version) == (about["row"], about["version"]))
            if not needed:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """What was noted and could not be stored stays, for the next start."""
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _pair(self, row: Connection, ciphertext: bytes) -> Found | None:
        value = await self._opened(row, ciphertext)
        if value is None:
            return None
        ends = value["expires_at"]
        return Found(value["credential"], datetime.fromisoformat(ends) if ends else None)

    async def _noted(self, row: Connection, about: Mapping[str, Any], sealed: bytes) -> Noted | None:
        """None while there is no answer."""
        value = await self._opened(row, bytes.fromhex(about["key"])) if sealed else None
        return None if value is None else opened(bytes.fromhex(value["key"]), about, sealed)

    async def _opened(self, row: Connection, ciphertext: bytes) -> dict[str, Any] | None:
        sealed = Sealed(ciphertext, row.ref.environment, **_place_of(row))
        try:
            await self._keys.learn(sealed)
            return self._vault.open_json(sealed)
        except VaultError as fault:  # cut off by the kill, or sealed under a key that is gone
            log.warning("pair_unreadable", connection_id=row.ref.connection_id, detail=str(fault))
            return None


def _about(row: Connection) -> dict[str, Any]:
    return {"ref": row.ref, "row": row.uid, "version": row.version}


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


def _all_in(place: Path) -> list[tuple[bool, dict[str, Any], bytes]]:
    """Each record, and whether its writer may be at it still."""
    found = []
    for path in all_files(place):
        living = not is_dead(path)  # before it is read: what it writes last is then not missed
        found += [(living, about, ciphertext) for about, ciphertext in _read(path)]
    return found


def _read(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    found = []
    try:
        for record in records(path):
            about, newline, ciphertext = record.partition(b"\n")
            try:
                told = json.loads(about) if newline else None
            except ValueError:
                continue
            if isinstance(told, dict) and told.keys() in KEYS:
                found.append((told, ciphertext))
    except OSError:  # removed meanwhile
        pass
    return found
