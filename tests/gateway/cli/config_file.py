"""A configuration that `gateway doctor` examines, and the result."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner

from gateway.cli import main


class DoctorReport(NamedTuple):
    """A report of `gateway doctor`: exit code, findings, and the whole output."""

    code: int
    findings: list[dict[str, Any]]
    text: str

    def of(self, check: str, level: str | None = None) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if finding["check"] == check and level in (None, finding["level"])]

    def levels(self, check: str) -> set[str]:
        return {item["level"] for item in self.of(check)}


class ConfigFile:
    """A gateway.yaml that a test can change and let `gateway doctor` examine."""

    def __init__(self, file: Path, document: dict[str, Any]) -> None:
        self.file, self.document = file, document

    def write(self) -> None:
        self.file.write_text(yaml.safe_dump(self.document, sort_keys=False))
        self.file.chmod(0o600)

    @property
    def integration(self) -> dict[str, Any]:
        tracker: dict[str, Any] = self.document["environments"]["dev"]["integrations"]["tracker"]
        return tracker

    def line(self, text: str) -> int:
        return next(n for n, line in enumerate(self.file.read_text().splitlines(), 1) if text in line)

    async def report(self, *arguments: str) -> DoctorReport:
        self.write()
        words = ["doctor", *arguments, "-c", str(self.file)]
        whole = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--json"])
        report = json.loads(whole.stdout)
        assert report["ok"] is (whole.exit_code == 0)
        return DoctorReport(whole.exit_code, report["findings"], whole.output)


@asynccontextmanager
async def responding(
    response: Callable[[web.Request], Awaitable[web.StreamResponse]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", response)
    server = TestServer(app, skip_url_asserts=True, scheme="https" if tls else "http")
    await server.start_server(ssl=tls)
    try:
        yield server
    finally:
        await server.close()
