"""An operator adds an encryption key, rotates to it and removes the old key, all under load.

No request fails, and no refresh token is used twice. `make rotation` is the long form: ROTATION_RATE requests a second,
ROTATION_CONNECTIONS, ROTATION_ROUNDS.
"""

import asyncio
import json
import os
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from tests.fakes.commands import command_output
from tests.fakes.gateways import ENCRYPTION_KEY
from tests.fakes.nodes import Nodes, nodes
from tests.fakes.tracker import Tracker

RATE: Final = float(os.environ.get("ROTATION_RATE", "40"))
CONNECTIONS: Final = int(os.environ.get("ROTATION_CONNECTIONS", "40"))
ROUNDS: Final = int(os.environ.get("ROTATION_ROUNDS", "2"))
RELOADED_S: Final = 240.0
NEXT: Final = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="


async def run_command(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run a gateway command and return its parsed JSON output."""
    output = await command_output(*arguments, "-c", str(folder / "gateway.yaml"), "--json")
    assert output.code == 0, output
    body: dict[str, Any] = json.loads(output.out)
    return body


class Load:
    """Requests at a constant rate, which do not wait for earlier responses.

    Every twentieth request is a write. On some connections, the first request refreshes the token.
    """

    def __init__(self, running: Nodes, tracker: Tracker) -> None:
        self.running, self.tracker = running, tracker
        self.outcomes: Counter[str] = Counter()
        self.took_s: list[float] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False

    async def run(self) -> None:
        began = time.monotonic()
        number = 0
        while not self._ended:
            number += 1
            task = asyncio.create_task(self._one_request(number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
        await asyncio.gather(*self._tasks)

    def end(self) -> None:
        self._ended = True

    def duration_ms(self, share: float) -> int:
        """Return the duration in ms that this share of the requests did not exceed."""
        ranked = sorted(self.took_s)
        return round(1000 * ranked[min(int(share * len(ranked)), len(ranked) - 1)])

    async def _one_request(self, number: int) -> None:
        began = time.monotonic()
        try:
            if number % 20 == 0:
                await self.running.import_connection(self.tracker.grant(), f"new-{number}")
                outcome = "written"
            else:
                status, response = await self.running.call(number, f"c{number % CONNECTIONS}")
                outcome = "called" if status == 200 else f"{status} {response.get('error', response)}"
        except (AssertionError, aiohttp.ClientError, TimeoutError) as fault:
            outcome = f"{type(fault).__name__} {fault}"
        self.outcomes[outcome] += 1
        self.took_s.append(time.monotonic() - began)


def write_keys(folder: Path, running: Nodes, *keys: str, reload: bool = True) -> None:
    """Write these keys to the file, and make the gateway reload it unless `reload` is false."""
    file = folder / "gateway.yaml"
    content = yaml.safe_load(file.read_text())
    content["store"]["encryption_keys"] = list(keys)
    fresh = file.with_suffix(".new")
    fresh.write_text(yaml.safe_dump(content))
    fresh.replace(file)
    for node in running.running if reload else ():
        node.signal(signal.SIGHUP)


async def wait_until_reloaded(running: Nodes, times: int) -> None:
    """Wait until each node has reloaded its configuration this many times."""
    for node in running.running:
        async with asyncio.timeout(RELOADED_S):
            while [entry["event"] for entry in node.log].count("reloaded") < times:
                refused = [entry for entry in node.log if entry["event"] in ("fault", "reload_refused")]
                assert not refused, refused
                await asyncio.sleep(0.05)


@pytest.mark.timeout(900)
async def test_keys_are_rotated_under_load_without_a_failed_request(tmp_path: Path, tracker: Tracker) -> None:
    async with nodes(tmp_path, tracker.url, f"sqlite:///{tmp_path}/gateway.db") as running:
        for n in range(CONNECTIONS):
            await running.import_connection(tracker.grant(), f"c{n}")
            if n % 3:  # the remaining connections are refreshed under load
                assert (await running.call(n, f"c{n}"))[0] == 200
        load = Load(running, tracker)
        loading = asyncio.create_task(load.run())
        try:
            write_keys(tmp_path, running, NEXT, ENCRYPTION_KEY)
            await wait_until_reloaded(running, 1)
            began = time.monotonic()
            data_keys = [("--data-keys",)] * (ROUNDS - 1)
            done = [await run_command(tmp_path, "keys", "rotate", *options) for options in [(), *data_keys]]
            took_s = time.monotonic() - began
            write_keys(tmp_path, running, NEXT)
            await wait_until_reloaded(running, 2)
            await asyncio.sleep(0.5)  # send some more requests without the old key
        finally:
            load.end()
            await loading
        result = await run_command(tmp_path, "keys", "status", "--verify")
    successful = load.outcomes["called"] + load.outcomes["written"]
    sealed_again = sum(run["encrypted_again"] for run in done)
    print(
        f"{load.outcomes.total()} requests at {RATE:g}/s, {load.outcomes.total() - successful} failed, "
        f"p99 {load.duration_ms(0.99)} ms, slowest {load.duration_ms(1)} ms; {sealed_again} values in {took_s:.1f} s"
    )
    assert load.outcomes.total() == successful, load.outcomes.most_common(5)
    assert all(run["left"] == 0 for run in done)
    # Refreshes and writes after the reload already use the new key, so the rotation has fewer values to seal.
    assert done[0]["encrypted_again"] > 0
    assert (result["damaged"], result["without_a_key"]) == ([], 0)
    assert len(result["encryption_keys"]) == len(result["data_keys"]) == 1
    assert not any(grant.revoked for grant in tracker.grants), "a refresh token was used twice"
    with closing(sqlite3.connect(tmp_path / "gateway.db")) as db:
        assert db.execute("SELECT count(*) FROM connections WHERE state <> 'active'").fetchone() == (0,)


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_gateway_that_finds_an_unknown_key_reads_its_configuration_file_again(
    workers: int, tmp_path: Path, tracker: Tracker
) -> None:
    store = f"sqlite:///{tmp_path}/gateway.db"
    async with nodes(tmp_path, tracker.url, store, workers=workers) as running:
        await running.import_connection(tracker.grant(), "before")
        write_keys(tmp_path, running, NEXT, ENCRYPTION_KEY, reload=False)
        await run_command(tmp_path, "keys", "rotate")
        responses = await asyncio.gather(*(running.call(n, "before") for n in range(20)))
        assert {status for status, _ in responses} == {200}
        await asyncio.gather(*(running.import_connection(tracker.grant(), f"after-{n}") for n in range(20)))
        entries = [entry["event"] for entry in running.running[0].log]
    assert 1 <= entries.count("encryption_key_missing") <= workers
    assert "data_key_unusable" not in entries
    assert tracker.calls["refresh_token"] == 1
