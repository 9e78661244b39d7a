"""Follows docs/tutorial.md as a reader does: its commands, edits and code in order, with a real `gateway demo`.

The end user's browser is Chromium, which enforces the Content-Security-Policy of pages.

In the test, the system chooses the ports that the page fixes, and no package registry is used.
"""

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.client import AsyncClient
from gateway.sandbox.visitor import VisitedPage
from tests.fakes.gateways import free_socket
from tests.fakes.patience import PATIENCE_S
from tests.journeys.connect_page.browser import launch_browser
from tests.journeys.connect_page.looks import sign_in

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "tutorial.md").read_text()
MAKE_RUN: Final = ".venv/bin/gateway demo"  # the command of `make run`


@dataclass(frozen=True)
class Block:
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        yield Block(language, text)


class Reader:
    """Follows the page block by block. `folder`: the clone of the repository. `text`: replaces the ports in a text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = free_socket()
        self.socket.listen()  # so that requests wait until uvicorn is ready
        self.application = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.ports = {"8000": str(self.socket.getsockname()[1])}
        self.environ = {**os.environ, "UV_OFFLINE": "1", "VIRTUAL_ENV": ""}
        self.blocks = blocks()

    def next(self, language: str) -> str:
        block = next(self.blocks)
        assert block.language == language, block
        return self.text(block.text)

    def text(self, text: str) -> str:
        for port, real_port in self.ports.items():
            text = re.sub(rf"(127\.0\.0\.1(?:/32)?:){port}\b", rf"\g<1>{real_port}", text)
        return text

    def edit(self, file: str) -> None:
        """Apply the next diff of the page. Its old lines must occur together and exactly once in the file."""
        lines = self.next("diff").splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        path = self.folder / file
        before = path.read_text()
        assert before.count(old) == 1, f"{old!r} is not in {before}"
        path.write_text(before.replace(old, new))

    def write(self, file: str) -> None:
        """Append the next code block of the page."""
        with (self.folder / file).open("a") as written:
            written.write("\n\n" + self.next("python"))

    async def run(self, script: str) -> str:
        """Run the script in a shell and return its output. The script stops at the first command that fails."""
        process = await self._shell(script)
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert process.returncode == 0, err.decode()
        return out.decode()

    @asynccontextmanager
    async def demo(self) -> AsyncIterator[dict[str, Any]]:
        """Run `make run` in the first terminal."""
        process = await self._shell(f"exec {MAKE_RUN} --port 0 --sandbox-port 0 --json")
        async with _ending(process):
            assert process.stdout is not None
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
            ready: dict[str, Any] = json.loads(line)
            self.ports |= {
                "3003": ready["url"].rpartition(":")[2],
                "3004": (self.folder / ".gateway" / "sandbox_port").read_text().strip(),
            }
            yield ready

    @asynccontextmanager
    async def started(self, script: str) -> AsyncIterator[None]:
        """Run a script that ends by starting uvicorn, on the test's socket instead of port 8000."""
        assert script.count("--port 8000") == 1
        *before, last = script.splitlines()
        served = last.replace("--port 8000", f"--fd {self.socket.fileno()}")
        process = await self._shell("\n".join([*before, f"exec {served}"]))
        async with _ending(process):
            yield

    async def _shell(self, script: str) -> Process:
        words = ("sh", "-ec", script)
        fds = [self.socket.fileno()]
        return await asyncio.create_subprocess_exec(
            *words, cwd=self.folder, env=self.environ, stdout=PIPE, stderr=PIPE, pass_fds=fds
        )


@asynccontextmanager
async def _ending(process: Process) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        out, err = await process.communicate()
        print(out.decode(), err.decode(), sep="\n")  # shown if the test fails


class Ada:
    """The end user with Chromium. `refused`: what Chromium did not do, because a Content-Security-Policy forbids it."""

    def __init__(self, application: str, page: Any) -> None:
        self.application = application
        self.refused: list[str] = []
        self._page = page
        page.on("console", lambda said: self.refused.append(said.text) if "Content Security" in said.text else None)

    async def load(self, url: str) -> VisitedPage:
        response = await self._page.goto(url)
        return VisitedPage(self._page.url, response.status, await response.text())

    async def home(self) -> str:
        page = await self.load(self.application)
        assert page.status == 200, page.text
        return page.text

    async def follow(self, text: str) -> VisitedPage:
        """Follow the link with this text on the start page. Continue through the connect page and the sandbox's
        consent.
        """
        await self.load(self.application)
        await self._page.click(f"text={text}")
        await self._page.click("form.entry button.main")
        await sign_in(self._page)
        await self._page.wait_for_url(f"{self.application}/")
        return VisitedPage(self._page.url, 200, await self._page.content())

    async def events(self, newest: str) -> list[str]:
        """Wait until `newest` is Ada's last event. Return everything that the application then shows."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                events: list[str] = json.loads((await self.load(f"{self.application}/events")).text)
                if [event for event in events if event.endswith(" ada")][-1:] == [newest]:
                    return events
                await asyncio.sleep(0.05)


@asynccontextmanager
async def end_user(application: str) -> AsyncIterator[Ada]:
    async with launch_browser() as driver:
        page = await driver.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        ada = Ada(application, page)
        yield ada
        assert ada.refused == []


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Reader]:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    follower = Reader(tmp_path)
    yield follower
    follower.socket.close()


def test_make_run_runs_the_demo() -> None:
    assert "exec $(BIN)/gateway demo\n" in (ROOT / "Makefile").read_text()
    assert PAGE.count("make run\n") == 2


async def test_every_step_of_the_tutorial_works(reader: Reader) -> None:
    assert reader.next("sh") == "make run\n"
    async with reader.demo() as first:
        pass
    reader.edit(".gateway/gateway.yaml")
    reader.edit(".gateway/gateway.yaml")
    check, again = reader.next("sh").splitlines()
    assert again == "make run"
    await reader.run(check)
    async with reader.demo() as second:
        assert second["connection_id"] == first["connection_id"], "the demo must keep its connections"
        await assert_application_connects_calls_and_reconnects(reader, second)


async def assert_application_connects_calls_and_reconnects(reader: Reader, ready: dict[str, Any]) -> None:
    install, folder = reader.next("sh").splitlines()
    if (reader.folder / ".venv" / "bin" / "uv").exists():  # everything is installed, so uv needs no registry
        await reader.run(install)
    await reader.run(folder)
    for _ in range(4):
        reader.write("my-app/app.py")
    async with reader.started(reader.next("sh")), end_user(reader.application) as ada:
        await assert_ada_connects_and_sees_her_issues(ada)
        assert await ada.events("connection.created of ada") == json.loads(reader.next("json"))
        assert "not from the gateway" in await reader.run(reader.next("sh"))
        before = await connection_of_ada(ready)
        assert json.loads(await reader.run(reader.next("sh")))["ended"] == 2, (
            "the command ended the grants of the demo user and of Ada"
        )
        await assert_ada_reconnects(ada)
        assert await connection_of_ada(ready) == before, "the connection must keep its id"
        listed = await reader.run(reader.next("sh"))
        assert "connection.reconnected" in listed
        assert next(reader.blocks, None) is None, "every block of the page must be run"


async def assert_ada_connects_and_sees_her_issues(ada: Ada) -> None:
    page = await ada.follow("Connect your tracker")
    assert page.url.rstrip("/") == ada.application
    assert page.text.count("<li>") == 3
    forged = await ada.load(f"{ada.application}/connected?result=forged")
    assert forged.status == 403


async def assert_ada_reconnects(ada: Ada) -> None:
    assert "ended our access" in await ada.home()
    await ada.events("connection.needs_reauth of ada")
    page = await ada.follow("Reconnect")
    assert page.text.count("<li>") == 3
    await ada.events("connection.reconnected of ada")


async def connection_of_ada(ready: dict[str, Any]) -> str:
    async with AsyncClient(ready["url"], ready["secret_key"]) as client:
        (found,) = [row["connection_id"] async for row in client.list_connections(end_user_id="ada")]
    return str(found)
