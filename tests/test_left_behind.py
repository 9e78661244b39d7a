"""A test that leaves a resource open gets an error itself, and a failed test makes no other test fail."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAKING_TESTS = (
    "test_leaves",
    "test_leaves_a_transport",
    "test_leaves_a_value_of_its_fixture",
    "test_leaves_a_value_of_an_application",
)
SUITE = """
import asyncio
import gc
import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

VALUE = web.AppKey("value", object)

class Open:
    '''A socket that only the garbage collector closes.'''

    def __init__(self) -> None:
        self.itself, self.socket = self, socket.socket()

def test_leaves():
    leak = Open()
    assert {passes}

async def test_leaves_a_transport():
    leak = Open()
    leak.server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    leak.ends = await asyncio.open_connection("127.0.0.1", leak.server.sockets[0].getsockname()[1])
    assert {passes}

@pytest.fixture
def opened():
    return Open()

def test_leaves_a_value_of_its_fixture(opened):
    assert {passes}

@web.middleware
async def pass_on(request, handler):
    return await handler(request)

async def respond(request):
    return web.Response()

async def test_leaves_a_value_of_an_application():
    app = web.Application(middlewares=[pass_on])
    app[VALUE] = Open()
    app.router.add_get("/", respond)
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/")).status == 200
    assert {passes}

def test_next():
    gc.collect()
"""


def outcomes(folder: Path) -> tuple[dict[str, dict[str, str]], str]:
    """Return the last outcome of each test of SUITE by name, for failing and passing tests, and the whole output."""
    (folder / "conftest.py").write_text("from tests.left_behind import *\n")
    (folder / "test_fails.py").write_text(SUITE.format(passes=False))
    (folder / "test_passes.py").write_text(SUITE.format(passes=True))
    options = ["-v", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(folder), str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split() for line in done.stdout.splitlines() if "::" in line and line.endswith("%]")]
    found = {
        name: {words[0].rpartition("::")[2]: words[1] for words in lines if f"{name}.py::" in words[0]}
        for name in ("test_fails", "test_passes")
    }
    return found, done.stdout + done.stderr


def test_a_resource_left_open_is_an_error_of_its_own_test_if_that_test_passes(tmp_path: Path) -> None:
    found, printed = outcomes(tmp_path)
    next_test = {"test_next": "PASSED"}
    assert found["test_passes"] == dict.fromkeys(LEAKING_TESTS, "ERROR") | next_test, printed
    assert found["test_fails"] == dict.fromkeys(LEAKING_TESTS, "FAILED") | next_test, printed
    errors, title, failures = printed.partition("= FAILURES =")
    assert title, printed
    assert "ResourceWarning: unclosed <socket.socket" in errors, printed
    assert "ResourceWarning" not in failures.partition("= short test summary")[0], printed
