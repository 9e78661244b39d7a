"""`gateway serve` in a terminal: SIGHUP reloads the configuration, but closing the terminal stops the gateway."""

import asyncio
import os
import pty
import re
import signal
import sys
import termios
from pathlib import Path

import pytest
import yaml

from tests.fakes.gateways import document
from tests.fakes.migrated import create_database
from tests.fakes.patience import PATIENCE_S

# The gateway runs in processes of its own, so the test needs to run with one event loop only, not also with uvloop.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

IN_A_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(2, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, '-m', 'gateway', *sys.argv[1:]])"
)


async def read_until(terminal: int, expected_text: str) -> None:
    """Read from the terminal until these words appear."""
    screen = b""
    async with asyncio.timeout(PATIENCE_S):
        while not re.search(expected_text.encode(), screen):
            screen += await asyncio.to_thread(os.read, terminal, 4096)


@pytest.mark.parametrize(("workers", "tostop"), [(1, False), (2, True)])
async def test_sighup_reloads_and_closing_the_terminal_stops(tmp_path: Path, workers: int, tostop: bool) -> None:
    """`tostop`: the terminal stops background processes that write to it, such as workers (`stty tostop`)."""
    config_text = document([])
    config_text["environments"]["dev"]["integrations"] = {}
    config_text["catalog"] = []
    config_text["server"]["workers"] = workers
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(config_text))
    create_database(tmp_path / "gateway.db")
    terminal, inside = pty.openpty()
    if tostop:
        flags = termios.tcgetattr(inside)
        flags[3] |= termios.TOSTOP
        termios.tcsetattr(inside, termios.TCSANOW, flags)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IN_A_TERMINAL, "serve", "-c", str(tmp_path / "gateway.yaml")),
        stdin=inside,
        stdout=asyncio.subprocess.PIPE,
        stderr=inside,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    os.close(inside)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert b"gateway ready" in await process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        await read_until(terminal, "reloaded")
        os.close(terminal)
        async with asyncio.timeout(PATIENCE_S):
            assert await process.wait() == 0
            assert await process.stdout.read() == b""  # no process keeps it open
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
