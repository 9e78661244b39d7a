"""What processes of this machine that died have left of refreshes (ADR 32, ADR 33): found, taken up, and swept."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog

from gateway import clock
from gateway.records.connection import Connection, ConnectionRef, Sealed
from gateway.store.data_keys import DataKeys
from gateway.store.notes import Noted, opened
from gateway.store.pairs import KEY, PAIR, place_of
from gateway.store.slot_file import all_files, is_dead, records, unfinished_files
from gateway.vault import Vault, VaultError

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
    """A pair that somebody has read; or what couriers were answered, the newest attempt first, each by its calls' order."""

    pair: Found | None = None
    answers: tuple[Noted, ...] = ()


Record = tuple[bool, dict[str, Any], bytes]
"""Whether its writer may be at it still; whose it is; what was sealed, empty while nothing was answered."""


class Leftovers:
    """`place`: what the files' names begin with; None where there is no folder for them."""

    def __init__(self, place: Path | None, vault: Vault, keys: DataKeys) -> None:
        self._place = place
        self._vault = vault
        self._keys = keys

    async def recorded(self, row: Connection) -> bool:
        """Whether there is a readable reply for the credential that `row` has still. Waits for nothing."""
        if self._place is None:
            return False
        for _, about, sealed in await asyncio.to_thread(_all_in, self._place):
            if not sealed or (about["row"], about["version"]) != (row.uid, row.version):
                continue
            read = self._noted(row, about, sealed) if "attempt" in about else self._pair(row, sealed)
            if await read is not None:
                return True
        return False

    async def of(self, row: Connection) -> Left:
        """What another got for the credential that `row` has still. Waits for a courier that is still asking for it."""
        if self._place is None:
            return Left()
        until = clock.monotonic() + WAIT_S
        while True:
            asking, attempts = False, dict[str, list[tuple[int, Noted]]]()
            for living, about, sealed in await asyncio.to_thread(_all_in, self._place):
                if (about["row"], about["version"]) != (row.uid, row.version):
                    continue
                if "attempt" in about:
                    noted = await self._noted(row, about, sealed)
                    if noted is not None:
                        attempts.setdefault(about["attempt"], []).append((about["step"], noted))
                    asking = asking or (living and noted is None)
                elif (pair := await self._pair(row, sealed)) is not None:
                    return Left(pair)
            if not asking or clock.monotonic() >= until:
                return Left(answers=_in_order(attempts))
            await clock.sleep(LOOK_AGAIN_S)

    async def sweep(
        self, current: Callable[[ConnectionRef], Awaitable[Connection | None]], holding: Container[str] = ()
    ) -> list[Connection]:
        """Remove files of processes that died, once all that is in them is in the database or of no use any more.

        `holding`: names of processes that leases belong to; without its file nobody could tell that such a process is dead.
        Returns the connections with an open intent that can be settled from there.
        """
        settled: dict[ConnectionRef, Connection] = {}
        if self._place is None:
            return []
        for path in await asyncio.to_thread(_dead, self._place):
            needed = path.name.removeprefix(f"{self._place.name}-") in holding
            for about, sealed in await asyncio.to_thread(_read, path):
                if not sealed:  # of a call that was not answered
                    continue
                row = await current(ConnectionRef(*about["ref"]))
                if row is None or (row.uid, row.version) != (about["row"], about["version"]) or row.intent is None:
                    continue
                needed, settled[row.ref] = True, row
            if not needed:
                path.unlink(missing_ok=True)
        return list(settled.values())

    async def _pair(self, row: Connection, sealed: bytes) -> Found | None:
        value = await self._opened(row, PAIR, sealed)
        if value is None:
            return None
        ends = value["expires_at"]
        return Found(value["credential"], datetime.fromisoformat(ends) if ends else None)

    async def _noted(self, row: Connection, about: Mapping[str, Any], sealed: bytes) -> Noted | None:
        """None while there is no answer."""
        try:
            key = await self._opened(row, KEY, bytes.fromhex(about["key"])) if sealed else None
        except ValueError:  # damaged
            return None
        return None if key is None else opened(bytes.fromhex(key["key"]), about, sealed)

    async def _opened(self, row: Connection, column: str, ciphertext: bytes) -> dict[str, Any] | None:
        sealed = Sealed(ciphertext, row.ref.environment, **place_of(row, column))
        try:
            await self._keys.learn(sealed)
            return self._vault.open_json(sealed)
        except VaultError as fault:  # cut off by the kill, or sealed under a key that is gone
            log.warning("pair_unreadable", connection_id=row.ref.connection_id, detail=str(fault))
            return None


def _in_order(attempts: Mapping[str, list[tuple[int, Noted]]]) -> tuple[Noted, ...]:
    newest = sorted(attempts.values(), key=lambda steps: max(noted.reply.asked_at for _, noted in steps), reverse=True)
    return tuple(noted for steps in newest for _, noted in sorted(steps, key=lambda step: step[0]))


def _dead(place: Path) -> list[Path]:
    for path in unfinished_files(place, time.time()):
        path.unlink(missing_ok=True)
    return [path for path in all_files(place) if is_dead(path)]


def _all_in(place: Path) -> list[Record]:
    found = []
    for path in all_files(place):
        living = not is_dead(path)  # before it is read: what it writes last is then not missed
        found += [(living, about, sealed) for about, sealed in _read(path)]
    return found


def _read(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    found = []
    try:
        for record in records(path):
            about, newline, sealed = record.partition(b"\n")
            try:
                told = json.loads(about) if newline else None
            except ValueError:
                continue
            if isinstance(told, dict) and told.keys() in KEYS:
                found.append((told, sealed))
    except OSError:  # removed meanwhile
        pass
    return found
