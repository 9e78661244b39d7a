"""The parent of several workers: who dies is replaced, at its own place, and never in a hurry."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.patience import PATIENCE_S

# The loop of the test itself does not matter here.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

PARENT = """
import os, signal, sys
from gateway import logs
from gateway.server import workers
from tests.fakes.patience import PATIENCE_S

def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def work(place, ready):
    tell("place", place, os.getpid())
    {work}

def reload():
    tell("reload", len(asked))
    return asked.pop(0)

asked = {reload}
logs.setup(terminal=False)
workers.FIRST_PAUSE_S, workers.LONGEST_PAUSE_S = {first_pause_s}, {longest_pause_s}
sys.exit(workers.supervise({count}, work, ready=lambda: tell("all"), reload=lambda: reload(), asked=lambda: reload()))
"""
SERVE = "signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); ready(); signal.pause(); return 1"


class Parent:
    """`places`: whom the last `told` line named at each place."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.places: dict[int, int] = {}

    async def told(self) -> list[str]:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            words = (await self.process.stdout.readline()).decode().split()
        if words[:1] == ["place"]:
            self.places[int(words[1])] = int(words[2])
        return words

    async def until_all(self) -> None:
        while await self.told() != ["all"]:
            pass

    async def ended(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit code, and what was logged."""
        async with asyncio.timeout(PATIENCE_S):
            _, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, [json.loads(line) for line in err.splitlines()]


@asynccontextmanager
async def parent(
    work: str = SERVE,
    *,
    count: int = 2,
    first_pause_s: float = 0.001,
    longest_pause_s: float = 0.004,
    reload: Sequence[str] = (),
) -> AsyncIterator[Parent]:
    script = PARENT.format(
        work=work, count=count, first_pause_s=first_pause_s, longest_pause_s=longest_pause_s, reload=list(reload)
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        yield Parent(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_a_replacement_takes_the_place_of_who_died() -> None:
    async with parent(count=3) as running:
        await running.until_all()
        before = dict(running.places)
        os.kill(before[1], signal.SIGKILL)
        await running.told()
        assert running.places[1] != before[1]
        assert (running.places[0], running.places[2]) == (before[0], before[2])
        running.process.send_signal(signal.SIGTERM)
        code, logged = await running.ended()
    assert code == 0
    assert [(entry["event"], entry["exit"]) for entry in logged] == [("worker_died", -signal.SIGKILL)]


async def test_who_dies_young_is_replaced_after_a_growing_pause() -> None:
    async with parent() as running:
        await running.until_all()
        for _ in range(4):
            os.kill(running.places[0], signal.SIGKILL)
            await running.told()
        running.process.send_signal(signal.SIGTERM)
        code, logged = await running.ended()
    assert code == 0
    assert [entry["replaced_in_s"] for entry in logged] == [0.001, 0.002, 0.004, 0.004]


async def test_where_nobody_is_left_and_nobody_stays_it_gives_up() -> None:
    work = "ready(); return 3"
    async with parent(work) as running:
        code, logged = await running.ended()
    assert code == 1
    assert logged[-1]["event"] == "giving_up"
    assert {entry["exit"] for entry in logged[:-1]} == {3}


async def test_as_long_as_one_serves_it_does_not_give_up() -> None:
    work = f"if place == 0: ready(); return 3\n    {SERVE}"
    async with parent(work) as running:
        await running.until_all()
        for _ in range(12):
            assert (await running.told())[:2] == ["place", "0"]
        running.process.send_signal(signal.SIGTERM)
        _, logged = await running.ended()
    assert "giving_up" not in {entry["event"] for entry in logged}


async def test_a_stop_while_a_place_is_vacant_does_not_wait_for_it() -> None:
    async with parent(first_pause_s=1000, longest_pause_s=1000) as running:
        await running.until_all()
        os.kill(running.places[1], signal.SIGKILL)
        assert running.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            assert b"worker_died" in await running.process.stderr.readline()
        running.process.send_signal(signal.SIGINT)
        code, logged = await running.ended()
    assert (code, logged) == (0, [])


async def test_a_start_that_fails_ends_all() -> None:
    work = f"if place == 1: return 7\n    {SERVE}"
    async with parent(work, count=3) as running:
        await running.told()
        await running.told()
        assert await running.told() == []  # neither a third one, nor that all serve
        code, logged = await running.ended()
    assert (code, logged) == (1, [])


async def test_a_second_signal_kills_who_does_not_listen() -> None:
    work = "signal.signal(signal.SIGTERM, lambda *_: tell('deaf')); ready()\n    while True: signal.pause()"
    async with parent(work) as running:
        await running.until_all()
        running.process.send_signal(signal.SIGTERM)
        assert [await running.told(), await running.told()] == [["deaf"], ["deaf"]]
        running.process.send_signal(signal.SIGTERM)
        code, _ = await running.ended()
    assert code == 1


async def test_workers_end_with_a_parent_that_was_killed() -> None:
    async with parent() as running:
        await running.until_all()
        running.process.kill()
        assert running.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await running.process.stdout.read() == b""  # which they held open


RELOADING = (
    "signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); "
    "signal.signal(signal.SIGHUP, lambda *_: tell('again', place)); "
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP]); ready()\n    while True: signal.pause()"
)


async def test_workers_reload_what_their_parent_has_found_fine_and_nothing_else() -> None:
    async with parent(RELOADING, reload=("refused", "taken")) as running:
        await running.until_all()
        for left in (2, 1):
            running.process.send_signal(signal.SIGHUP)
            assert await running.told() == ["reload", str(left)]
        assert sorted([await running.told(), await running.told()]) == [["again", "0"], ["again", "1"]]
        running.process.send_signal(signal.SIGTERM)
        assert await running.ended() == (0, [])


ANSWERED = RELOADING.replace(
    "ready()",
    "signal.signal(signal.SIGUSR1, lambda *_: tell('nothing', place)); "
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1]); ready()",
)


async def test_a_worker_that_asks_is_answered_also_where_there_is_nothing_to_take() -> None:
    async with parent(ANSWERED, reload=("refused", "taken")) as running:
        await running.until_all()
        for left, answer in ((2, "nothing"), (1, "again")):
            running.process.send_signal(signal.SIGUSR1)
            assert await running.told() == ["reload", str(left)]
            assert sorted([await running.told(), await running.told()]) == [[answer, "0"], [answer, "1"]]
        running.process.send_signal(signal.SIGTERM)
        assert await running.ended() == (0, [])


async def test_a_terminal_that_is_closed_ends_all() -> None:
    async with parent(reload=("stop",)) as running:
        await running.until_all()
        running.process.send_signal(signal.SIGHUP)
        assert await running.told() == ["reload", "1"]
        assert await running.ended() == (0, [])
