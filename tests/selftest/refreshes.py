"""`kill -9` at random moments of many refreshes, repeatedly on one database. It kills a worker, its parent, or both.

If only a worker is killed, its parent replaces it, which takes little time. Each connection is checked afterwards: a
call and a forced refresh must succeed, or the state of the connection must report the loss.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.fakes.gateways import SECRET_KEY, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import ServingProcess
from tests.selftest.crash import SlowTracker, process, write_config
from tests.selftest.points import OFTEN
from tests.selftest.trial_result import TrialResult

CROWD: Final = 16  # number of refreshes at a time
WORKERS: Final = 2
SPREAD_S: Final = 0.3  # all refreshes begin within this time, so that the kill interrupts them at different steps
KILL_WITHIN_S: Final = 0.4
WORKER: Final = "worker"
PARENT: Final = "parent"
BOTH: Final = "parent and workers"
WEIGHTS: Final = {WORKER: 70, PARENT: 15, BOTH: 15}


@dataclass(slots=True)
class Count:
    """Counts for the kills of one kind of process.

    `cut`: calls that failed because the process was killed. `reported`: lost connections with the reason
    `rotation_lost`. `silent`: lost connections with any other reason.
    """

    kills: int = 0
    cut: int = 0
    reported: int = 0
    silent: int = 0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.cut} calls cut, {self.reported} lost and reported, {self.silent} lost silently"
        )


@dataclass(slots=True)
class RefreshTally:
    """Counts by the process that was killed. `unexpected`: each loss that must not happen, with the state of the
    connection.
    """

    worker: Count = field(default_factory=Count)
    parent: Count = field(default_factory=Count)
    both: Count = field(default_factory=Count)
    unexpected: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> "RefreshTally":
        counts = {name: Count(**numbers) for name, numbers in kept.items() if name != "unexpected"}
        return cls(**counts, unexpected=kept["unexpected"])

    def __str__(self) -> str:
        return "; ".join(f"{victim}: {count}" for victim, count in self.counts.items())

    def count_for(self, victim: str) -> Count:
        return {WORKER: self.worker, PARENT: self.parent, BOTH: self.both}[victim]

    @property
    def counts(self) -> dict[str, Count]:
        return {victim: self.count_for(victim) for victim in WEIGHTS}

    @property
    def kills(self) -> int:
        return sum(count.kills for count in self.counts.values())

    @property
    def fine(self) -> bool:
        """Whether only exchanges in flight were lost, and only because their parent died, and all losses were reported."""
        return not self.unexpected

    def add(self, other: "RefreshTally") -> None:
        for victim, count in other.counts.items():
            ours = self.count_for(victim)
            for member in fields(Count):
                total = getattr(ours, member.name) + getattr(count, member.name)
                setattr(ours, member.name, total)
        self.unexpected += other.unexpected

    def count_connection(self, victim: str, connection_id: str, status: int, reason: str | None) -> None:
        """Count one connection. `status`: of the last request. `reason`: of the connection's state."""
        if status == 200:
            return
        count = self.count_for(victim)
        if status == 424 and reason == "rotation_lost":
            count.reported += 1
            if victim != WORKER:
                return
        else:
            count.silent += 1
        self.unexpected.append(f"{connection_id}, {victim} killed: {status}, {reason}")

    def result(self, trial: str) -> TrialResult:
        lost = sum(count.reported + count.silent for count in self.counts.values())
        more = f"; UNEXPECTED: {self.unexpected[:10]}" if self.unexpected else ""
        return TrialResult(f"{self.kills} kills during refreshes ({trial})", f"{self}{more}", lost, self.fine)


async def kills_during_refreshes(
    folder: Path,
    kills: int,
    dice: random.Random,
    *,
    url: str = "sqlite:///gateway.db",
    victims: Callable[[random.Random], str] = lambda dice: dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0],
    step: Callable[[RefreshTally], None] = lambda _: None,
) -> RefreshTally:
    """Run the trial. `url`: the URL of the store. `victims`: chooses the process to kill."""
    tracker, tally = SlowTracker(), RefreshTally()
    server = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{server.port}"
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    config = document([f"127.0.0.1/32:{server.port}"])
    config["store"]["url"] = url
    try:
        async with AsyncExitStack() as stack:
            trial = _Trial(folder, config, tracker, tally, dice, stack)
            while tally.kills < kills:
                await trial.kill(victims(dice))
                step(tally)
            await trial.check_final_states()
    finally:
        await server.close()
    return tally


class _Trial:
    """`reported`: connections whose state reports a loss."""

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        tracker: SlowTracker,
        tally: RefreshTally,
        dice: random.Random,
        stack: AsyncExitStack,
    ) -> None:
        self._folder, self._config, self._tracker, self._tally = folder, config, tracker, tally
        self._dice, self._stack = dice, stack
        self._serving: ServingProcess | None = None
        self._started = 0  # number of workers of the running process
        self._made = 0
        self.reported = set[str]()

    async def kill(self, victim: str) -> None:
        serving = await self._running()
        names = await self._import_connections(serving.port)
        calls = [asyncio.create_task(self._call_after_a_pause(serving.port, name)) for name in names]
        await asyncio.sleep(self._dice.uniform(0, KILL_WITHIN_S))
        if victim == WORKER:
            os.kill(self._dice.choice(serving.workers()), signal.SIGKILL)
            self._started += 1
        elif victim == PARENT:
            serving.signal(signal.SIGKILL)
        else:
            serving.kill_all()
        if victim != WORKER:
            await serving.process.wait()
            self._serving = None
        ended = await asyncio.gather(*calls, return_exceptions=True)
        count = self._tally.count_for(victim)
        count.kills += 1
        count.cut += sum(status != 200 for status in ended)
        port = self._serving.port if self._serving is not None else (await self._running()).port
        for name, (status, reason) in zip(
            names, await asyncio.gather(*(_final_state(port, n) for n in names)), strict=True
        ):
            self._tally.count_connection(victim, name, status, reason)
            if status != 200:
                self.reported.add(name)

    async def check_final_states(self) -> None:
        """Check that no connection was lost later, if its state was correct after its kill."""
        port = (await self._running()).port
        async with _client(port) as http, http.get("/connections") as response:
            states = {
                connection["connection_id"]: connection["state"]
                for connection in (await response.json())["connections"]
            }
        assert len(states) == self._made
        self._tally.unexpected += [
            f"{name}: {state} at the end"
            for name, state in states.items()
            if state != ("needs_reauth" if name in self.reported else "active")
        ]

    async def _running(self) -> ServingProcess:
        """Return the gateway as soon as all its workers serve. If the gateway was killed, start a new one."""
        if self._serving is None:
            self._config["server"]["workers"] = self._started = WORKERS
            file = write_config(self._folder, self._config)
            self._serving = await self._stack.enter_async_context(process(OFTEN, file))
        await self._serving.logged("worker_serves", self._started)
        return self._serving

    async def _import_connections(self, port: int) -> list[str]:
        """Import new connections with expired tokens."""
        names = [f"c{self._made + number}" for number in range(CROWD)]
        self._made += CROWD
        self._tracker.grants.clear()  # keeps the provider fast; the provider rejects unknown tokens
        async with _client(port) as http:
            for name in names:
                ended = {part: text for part, text in self._tracker.grant().items() if part.endswith("_token")}
                credentials = {"type": "OAUTH2", **ended, "expires_at": "2020-01-01T00:00:00Z"}
                body = {"provider_config_key": "tracker", "connection_id": name, "credentials": credentials}
                async with http.post("/connections", json=body) as response:
                    assert response.status == 201, await response.text()
        return names

    async def _call_after_a_pause(self, port: int, name: str) -> int:
        await asyncio.sleep(self._dice.uniform(0, SPREAD_S))
        async with _client(port) as http:
            return await _status(http, name)


@asynccontextmanager
async def _client(port: int) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a client without connections that were opened before a kill."""
    headers = {"Authorization": f"Bearer {SECRET_KEY}"}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=headers) as http:
        yield http


async def _status(http: aiohttp.ClientSession, name: str) -> int:
    """Return the status of one call. The call is a POST, because the client does not repeat a POST when the worker
    dies.
    """
    async with http.post("/proxy/x", headers={"Provider-Config-Key": "tracker", "Connection-Id": name}) as response:
        await response.read()
        return response.status


async def _final_state(port: int, name: str) -> tuple[int, str | None]:
    """Return the status after a call and a forced refresh, and the reason of the connection's state.

    Repeat call and refresh until the status is 200 or 424. After PATIENCE_S, return the last status. The status is 0 if
    the HTTP connection failed.
    """
    status, end = 0, time.monotonic() + PATIENCE_S
    path = f"/connections/{name}?provider_config_key=tracker"
    while status not in (200, 424) and time.monotonic() < end:
        try:
            async with _client(port) as http:
                status = await _status(http, name)
                if status == 200:
                    async with http.get(f"{path}&force_refresh=true") as response:
                        await response.read()
                        status = 503 if "Gateway-Refresh-Failed" in response.headers else response.status
        except aiohttp.ClientError:  # the killed worker handled the call
            status = 0
        if status not in (200, 424):
            await asyncio.sleep(0.02)
    async with _client(port) as http, http.get(f"{path}&include=history") as response:
        body = await response.json()
        connection = body if response.status == 200 else body["error"]["payload"]["connection"]
        return status, connection["history"][-1]["reason"]
