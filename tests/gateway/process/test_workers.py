"""The parent's workers (fakes): a dead worker is replaced at its own place and not too fast, and a reload is shared."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.process.workers import FIRST_PAUSE_S, MAX_PAUSE_S, pause_after
from tests.fakes.patience import PATIENCE_S

# The gateway runs in processes of its own, so the test needs to run with one event loop only, not also with uvloop.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


async def test_the_pause_before_a_replacement_grows_to_its_limit_and_stays_there() -> None:
    pauses = [pause_after(short_lives) for short_lives in range(5000)]
    assert pauses[:3] == [0.0, FIRST_PAUSE_S, 2 * FIRST_PAUSE_S]
    assert pauses == sorted(pauses)
    assert set(pauses[1000:]) == {MAX_PAUSE_S}


PARENT = """
import os, sys
from pathlib import Path
from gateway.startup import imports as lean
from gateway.process import start, workers
start.WORKER_ARGUMENTS = ("-c", sys.argv[1])
if {signalled}:
    skip_client_modules = lean.skip_client_modules
    lean.skip_client_modules = lambda: (os.kill(os.getpid(), {signalled}), skip_client_modules())
workers.FIRST_PAUSE_S, workers.MAX_PAUSE_S = {first_pause_s}, {max_pause_s}
sys.exit(start.serve(Path("unused.yaml"), as_json=False))
"""
WORKER = """
import os, signal, socket, sys
from gateway.process.handshake import receive_now, send_now

def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def ready():
    server = dict(host="127.0.0.1", port=0, metrics_host="127.0.0.1", admin_port=None, console_host="", console_port=None)
    send_now(sock, dict(type="needs", server=server, workers={count}))
    receive_now(sock)
    send_now(sock, dict(type="ready", line="all", about=dict(), journal=None))

def obey(responses={{}}):
    while True:
        try:
            message, _ = receive_now(sock)
        except EOFError:
            sys.exit(0)
        if message["type"] in ("reload", "take_over"):
            tell(message["type"], place, message["memory"])
            send_now(sock, dict(type="reloaded", ok=responses.get(message["type"], [True]).pop(0)))
        elif message["type"] == "nothing_new":
            tell("nothing_new", place)

sock = socket.socket(fileno=int(sys.argv[1]))
start, _ = receive_now(sock)
place = start["place"]
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
tell("place", place, os.getpid(), start["start_from"])
{work}
"""
SERVE = "ready(); obey()"


class Parent:
    """A parent process. `places`: place ▸ process id, from the last output line about the place."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.places: dict[int, int] = {}
        self.from_memory: dict[int, str] = {}

    async def line(self) -> list[str]:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            words = (await self.process.stdout.readline()).decode().split()
        if words[:1] == ["place"]:
            self.places[int(words[1])] = int(words[2])
            self.from_memory[int(words[1])] = words[3]
        return words

    async def wait_until_all_report(self) -> None:
        while await self.line() != ["all"]:
            pass

    async def wait_for_end(self) -> tuple[int, list[dict[str, Any]]]:
        """Return the exit code and the log entries, except the line that all workers serve."""
        async with asyncio.timeout(PATIENCE_S):
            _, err = await self.process.communicate()
        assert self.process.returncode is not None
        entries = [json.loads(line) for line in err.splitlines()]
        return self.process.returncode, [entry for entry in entries if entry["event"] != "ready"]


@asynccontextmanager
async def parent(
    work: str = SERVE,
    *,
    count: int = 2,
    first_pause_s: float = 0.001,
    max_pause_s: float = 0.004,
    signalled: int = 0,
) -> AsyncIterator[Parent]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", PARENT.format(first_pause_s=first_pause_s, max_pause_s=max_pause_s, signalled=int(signalled))),
        WORKER.format(work=work, count=count),
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


@pytest.mark.parametrize("count", [1, 3])
async def test_dead_worker_is_replaced_in_its_place(count: int) -> None:
    async with parent(count=count) as running:
        await running.wait_until_all_report()
        before, place = dict(running.places), count // 2
        assert running.from_memory == {n: "0" if n else "None" for n in range(count)}, (
            "only the first worker reads the file"
        )
        os.kill(before[place], signal.SIGKILL)
        await running.line()
        assert running.places[place] != before[place]
        assert running.from_memory[place] == "0", (
            "the replacement loads the accepted configuration, also in the first worker's place"
        )
        assert {n: pid for n, pid in running.places.items() if n != place} == {
            n: pid for n, pid in before.items() if n != place
        }
        running.process.send_signal(signal.SIGTERM)
        code, logged = await running.wait_for_end()
    assert code == 0
    assert [(entry["event"], entry["exit"]) for entry in logged] == [("worker_died", -signal.SIGKILL)]


async def test_worker_with_a_short_life_is_replaced_after_a_growing_pause() -> None:
    async with parent() as running:
        await running.wait_until_all_report()
        for _ in range(4):
            os.kill(running.places[0], signal.SIGKILL)
            await running.line()
        running.process.send_signal(signal.SIGTERM)
        code, logged = await running.wait_for_end()
    assert code == 0
    assert [entry["replaced_in_s"] for entry in logged] == [0.001, 0.002, 0.004, 0.004]


async def test_the_parent_ends_when_every_worker_dies_at_its_start() -> None:
    # The pause is longer than a start, so both places are vacant at the same time.
    async with parent("ready(); sys.exit(3)", max_pause_s=PATIENCE_S) as running:
        code, logged = await running.wait_for_end()
    assert code == 1
    assert logged[-1]["event"] == "workers_crash_looping"
    assert {entry["exit"] for entry in logged[:-1]} == {3}


async def test_parent_continues_while_one_worker_serves() -> None:
    async with parent(f"if place == 0: ready(); sys.exit(3)\n{SERVE}") as running:
        await running.wait_until_all_report()
        for _ in range(12):
            assert (await running.line())[:2] == ["place", "0"]
        running.process.send_signal(signal.SIGTERM)
        _, logged = await running.wait_for_end()
    assert "workers_crash_looping" not in {entry["event"] for entry in logged}


async def test_a_stop_does_not_wait_for_a_replacement_worker_that_is_to_start_later() -> None:
    async with parent(first_pause_s=1000, max_pause_s=1000) as running:
        await running.wait_until_all_report()
        os.kill(running.places[1], signal.SIGKILL)
        assert running.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while b"worker_died" not in await running.process.stderr.readline():
                pass
        running.process.send_signal(signal.SIGINT)
        code, logged = await running.wait_for_end()
    assert (code, logged) == (0, [])


@pytest.mark.parametrize(("place", "code"), [(0, 7), (1, 7), (1, 1)])
async def test_a_start_that_fails_ends_all_processes_with_its_exit_code(place: int, code: int) -> None:
    async with parent(f"if place == {place}: sys.exit({code})\n{SERVE}", count=3) as running:
        for _ in range(place + 1):
            await running.line()
        assert await running.line() == []  # neither another worker, nor the line that all serve
        assert await running.wait_for_end() == (code, [])


async def test_a_first_worker_that_is_killed_at_the_start_ends_all_processes() -> None:
    async with parent("os.kill(os.getpid(), 9)") as running:
        _, _, pid, _ = await running.line()
        code, logged = await running.wait_for_end()
    assert code == 1
    assert [(entry["event"], entry["pid"], entry["exit"], entry["effect"]) for entry in logged] == [
        ("worker_died", int(pid), -signal.SIGKILL, "the gateway ends")
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_the_parent_is_still_loading_ends_all_processes_gracefully(number: signal.Signals) -> None:
    async with parent("obey()", signalled=number) as running:
        assert await running.wait_for_end() == (0, [])


async def test_second_signal_kills_workers_that_do_not_stop() -> None:
    deaf = "signal.signal(signal.SIGTERM, lambda *_: tell('deaf')); ready()\nwhile True: signal.pause()"
    async with parent(deaf) as running:
        await running.wait_until_all_report()
        running.process.send_signal(signal.SIGTERM)
        assert [await running.line(), await running.line()] == [["deaf"], ["deaf"]]
        running.process.send_signal(signal.SIGTERM)
        code, _ = await running.wait_for_end()
        assert not [pid for pid in running.places.values() if Path(f"/proc/{pid}").exists()]
    assert code == -signal.SIGTERM


async def test_workers_end_with_a_parent_that_was_killed() -> None:
    async with parent() as running:
        await running.wait_until_all_report()
        running.process.kill()
        assert running.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await running.process.stdout.read() == b""  # which the workers kept open


async def test_one_worker_reads_the_files_and_the_others_apply_the_accepted_configuration() -> None:
    async with parent("ready(); obey({'reload': [False, True]})", count=3) as running:
        await running.wait_until_all_report()
        running.process.send_signal(signal.SIGHUP)
        assert await running.line() == ["reload", "0", "1"]
        refused = [await running.line() for _ in range(3)]
        assert sorted(refused) == [["nothing_new", str(n)] for n in range(3)]
        running.process.send_signal(signal.SIGHUP)
        assert await running.line() == ["reload", "0", "1"], "the next reload overwrites the refused configuration"
        assert sorted([await running.line(), await running.line()]) == [
            ["take_over", "1", "1"],
            ["take_over", "2", "1"],
        ]
        os.kill(running.places[2], signal.SIGKILL)
        await running.line()
        assert running.from_memory[2] == "1", "a replacement starts with the configuration that was accepted last"
        running.process.send_signal(signal.SIGTERM)
        assert (await running.wait_for_end())[0] == 0


async def test_worker_that_cannot_apply_the_configuration_is_replaced() -> None:
    async with parent("ready(); obey({'take_over': [False]})") as running:
        await running.wait_until_all_report()
        before = running.places[1]
        running.process.send_signal(signal.SIGHUP)
        assert await running.line() == ["reload", "0", "1"]
        assert await running.line() == ["take_over", "1", "1"]
        await running.line()
        assert (running.places[1] != before, running.from_memory[1]) == (True, "1")
        running.process.send_signal(signal.SIGTERM)
        _, logged = await running.wait_for_end()
    assert [entry["event"] for entry in logged] == ["worker_kept_old_configuration", "worker_died"]


async def test_another_worker_reloads_if_the_reading_worker_dies() -> None:
    work = "ready()\nif place == 0 and start['start_from'] is None: receive_now(sock); os.kill(os.getpid(), 9)\nobey()"
    async with parent(work) as running:
        await running.wait_until_all_report()
        running.process.send_signal(signal.SIGHUP)
        lines = [await running.line(), await running.line()]
        assert ["reload", "1", "1"] in lines
        running.process.send_signal(signal.SIGTERM)
        assert (await running.wait_for_end())[0] == 0


MISSING = "ready(); send_now(sock, dict(type='missing_keys', ids=['a'])); obey({'reload': [False]})"


async def test_missing_key_causes_one_reload_however_many_workers_report_it() -> None:
    async with parent(MISSING, count=4) as running:
        lines = list[list[str]]()
        while len([line for line in lines if line[0] == "nothing_new"]) < 4:
            lines.append(await running.line())
        names = [line[0] for line in lines]
        assert names.count("reload") == 1
        assert "nothing_new" not in names[: names.index("reload")], (
            "all workers get the reply at the end of the one reload"
        )
        running.process.send_signal(signal.SIGTERM)
        assert (await running.wait_for_end())[0] == 0


ORPHAN = """
if place == 0 and start['start_from'] is None:
    if os.fork() == 0:
        if os.fork() == 0:
            import time; time.sleep(0.2); os._exit(0)
        os._exit(0)
    os.wait()
ready(); obey()
"""


async def test_process_1_reaps_orphans_and_ends_at_a_signal() -> None:
    """The process runs in a PID namespace of its own, as in a container."""
    command = ("unshare", "--user", "--map-root-user", "--fork", "--pid", "--mount-proc")
    probe = await asyncio.create_subprocess_exec(*command, "true", stderr=asyncio.subprocess.DEVNULL)
    if await probe.wait():
        pytest.skip("needs a kernel that lets this user make PID namespaces")
    script = PARENT.format(first_pause_s=0.001, max_pause_s=0.004, signalled=0)
    process = await asyncio.create_subprocess_exec(
        *(*command, "sh", "-c", 'exec "$0" -c "$1" "$2"', sys.executable, script, WORKER.format(work=ORPHAN, count=1)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    running = Parent(process)
    try:
        await running.wait_until_all_report()
        (inside,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        children = Path(f"/proc/{inside}/task/{inside}/children")
        async with asyncio.timeout(PATIENCE_S):
            while len(children.read_text().split()) != 1:  # until the orphan is reaped
                await asyncio.sleep(0.02)
        os.kill(int(inside), signal.SIGTERM)
        assert (await running.wait_for_end())[0] == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
