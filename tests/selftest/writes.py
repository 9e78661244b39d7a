"""`kill -9` at random moments while callers import, change and delete connections, repeatedly on one database."""

import asyncio
import contextlib
import json
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.fakes.gateways import SECRET_KEY
from tests.fakes.processes import Files, ServingProcess, serving
from tests.selftest.trial_result import TrialResult

WRITERS: Final = 4
KILL_WITHIN_S: Final = 0.5
READY_S: Final = 5.0


@dataclass(slots=True)
class Writer:
    """A caller that writes. `acknowledged`: for each connection, the last acknowledged metadata, or None if it was
    deleted.

    `in_flight`: the request that was in flight when the process died. Its write may be missing or present.
    """

    name: str
    acknowledged: dict[str, int | None] = field(default_factory=dict)
    in_flight: tuple[str, int | None] | None = None

    async def run(self, http: aiohttp.ClientSession, url: str) -> None:
        number = 0
        while True:
            number += 1
            connection_id = f"{self.name}-{number}"
            for value in (1, 2, None if number % 2 else 3):
                self.in_flight = (connection_id, value)
                await self._write(http, url, connection_id, value)
                self.acknowledged[connection_id], self.in_flight = value, None

    async def _write(self, http: aiohttp.ClientSession, url: str, connection_id: str, value: int | None) -> None:
        if value is None:
            delete_url = f"{url}/connections/{connection_id}?provider_config_key=up"
            async with http.delete(delete_url) as response:
                assert response.status == 200, await response.text()
            return
        credentials = {"type": "API_KEY", "apiKey": f"key-{connection_id}-{value}"}
        body = {"provider_config_key": "up", "connection_id": connection_id, "credentials": credentials}
        async with http.post(f"{url}/connections", json={**body, "metadata": {"n": value}}) as response:
            assert response.status in (200, 201), await response.text()

    def missing(self, found: dict[str, int]) -> list[str]:
        """Return the acknowledged writes that are missing."""
        missing = []
        for connection_id, value in self.acknowledged.items():
            allowed = {value}
            if self.in_flight is not None and self.in_flight[0] == connection_id:
                allowed.add(self.in_flight[1])
            if found.get(connection_id) not in allowed:
                missing.append(connection_id)
        return missing


@dataclass(slots=True)
class Tally:
    """`slowest_s`: start time of a process on the files of a killed one. `clean_s`: start time without files."""

    kills: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    unsound: int = 0
    unreadable: int = 0
    slowest_s: float = 0.0
    clean_s: float = 0.0

    def result(self) -> TrialResult:
        in_time = self.slowest_s < max(READY_S, 2 * self.clean_s)  # so that a slow machine does not count as a fault
        fine = in_time and not (self.lost or self.unsound or self.unreadable)
        result = f"{self.acknowledged} writes acknowledged, {len(self.lost)} lost; {self.unsound} databases unsound, "
        result += f"{self.unreadable} credentials unreadable; ready again within {self.slowest_s:.1f} s "
        result += f"({self.clean_s:.1f} s on an empty database)"
        return TrialResult(f"{self.kills} kills during writes", result, len(self.lost), fine)


async def kills_during_writes(
    folder: Path, kills: int, dice: random.Random, *, step: Callable[[Tally], None] = lambda _: None
) -> Tally:
    """Run several rounds. Each round ends with a kill, and the next round starts with the files of this round."""
    files, tally = Files(folder, 9), Tally()
    writers: list[Writer] = []
    for number in range(kills + 1):
        began = time.monotonic()
        async with serving(files) as process:
            if number == 0:
                tally.clean_s = time.monotonic() - began
            else:
                tally.slowest_s = max(tally.slowest_s, time.monotonic() - began)
                tally.unreadable += await _count_unreadable(process, writers)
            if number == kills:
                break
            writers = [Writer(f"{number}-{n}") for n in range(WRITERS)]
            await _write_until_killed(process, writers, dice.uniform(0.02, KILL_WITHIN_S))
        tally.kills += 1
        tally.acknowledged += sum(len(writer.acknowledged) for writer in writers)
        sound, found = _rows_of(folder / "gateway.db")
        tally.unsound += not sound
        tally.lost += [connection_id for writer in writers for connection_id in writer.missing(found)]
        step(tally)
    return tally


async def _write_until_killed(process: ServingProcess, writers: list[Writer], after_s: float) -> None:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {SECRET_KEY}"}) as http:
        tasks = [asyncio.create_task(writer.run(http, f"http://127.0.0.1:{process.port}")) for writer in writers]
        while not any(writer.acknowledged for writer in writers) and not any(task.done() for task in tasks):
            await asyncio.sleep(0.005)  # so that the kill can interrupt writes
        await asyncio.sleep(after_s)
        process.kill_all()
        await process.ended()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(ended, aiohttp.ClientError | OSError), ended


def _rows_of(database: Path) -> tuple[bool, dict[str, int]]:
    """Return whether SQLite's integrity check passes, and the number in the metadata of each connection."""
    with closing(sqlite3.connect(database)) as db:
        sound = db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        sound = sound and not db.execute("PRAGMA foreign_key_check").fetchall()
        rows = db.execute("SELECT connection_id, metadata FROM connections").fetchall()
    return sound, {name: json.loads(metadata)["n"] for name, metadata in rows}


async def _count_unreadable(process: ServingProcess, writers: list[Writer]) -> int:
    """Return how many writers have a last credential that cannot be read, or that differs from the acknowledged
    credential.
    """
    wrong = 0
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {SECRET_KEY}"}) as http:
        for writer in writers:
            uncertain = writer.in_flight[0] if writer.in_flight else None
            last = [
                (name, value) for name, value in writer.acknowledged.items() if value is not None and name != uncertain
            ][-1:]
            for name, value in last:
                url = f"http://127.0.0.1:{process.port}/connections/{name}?provider_config_key=up"
                async with http.get(url) as response:
                    body: dict[str, Any] = await response.json()
                    with contextlib.suppress(KeyError):
                        wrong += body["credentials"]["apiKey"] != f"key-{name}-{value}"
                        continue
                    wrong += 1
    return wrong
