"""A peer to import from, a gateway to import into, and the import command."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from gateway.cli import main
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.migrated import create_database
from tests.fakes.peer import KEY, FakePeer
from tests.fakes.tracker import Tracker

PASSPHRASE = "correct horse battery staple"


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_KEY", KEY)
    monkeypatch.setenv("BUNDLE_PASSPHRASE", PASSPHRASE)


@pytest.fixture
async def peer() -> AsyncIterator[FakePeer]:
    fake = FakePeer(integrations={"tracker": {"provider": "tracker"}})
    server = await fake.serve()
    yield fake
    await server.close()


class CommandResult(NamedTuple):
    code: int
    report: dict[str, Any]
    output: str


class GatewayFolder:
    """A gateway.yaml and its database. A gateway may or may not be running on it."""

    def __init__(self, folder: Path, document: dict[str, Any]) -> None:
        self.folder, self.file = folder, folder / "gateway.yaml"
        self.file.write_text(yaml.safe_dump(document))
        self.file.chmod(0o600)

    async def run_command(self, *words: str, code: int | None = 0, stdin: str | None = None) -> CommandResult:
        arguments = ["connections", *words, "-c", str(self.file), "--json"]
        done = await asyncio.to_thread(CliRunner().invoke, main, arguments, input=stdin)
        assert code is None or done.exit_code == code, (done.exit_code, done.output, done.exception)
        body = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        return CommandResult(done.exit_code, body, done.output)

    async def run_import(self, peer: FakePeer, *arguments: str, code: int | None = 0) -> CommandResult:
        return await self.run_command("import", "--from-peer", peer.url, "--key-env", "PEER_KEY", *arguments, code=code)

    async def list_connections(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (await self.run_command("list", "--limit", "10000")).report["connections"]
        return rows


@pytest.fixture
def gateway_folder(running: RunningGateway) -> GatewayFolder:
    """The place of the running gateway."""
    return GatewayFolder(running.folder, running.document)


@pytest.fixture
def make_gateway_folder(tmp_path: Path, tracker: Tracker) -> Callable[..., GatewayFolder]:
    """Return a function that creates another place, with its own database and key. No gateway runs on it."""

    def make(name: str = "elsewhere", **integrations: Any) -> GatewayFolder:
        folder = tmp_path / name
        folder.mkdir()
        write_entry(folder, "tracker", tracker_entry(tracker.url))
        own = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"], **integrations)
        own["store"]["encryption_keys"] = ["dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="]
        create_database(folder / "gateway.db")
        return GatewayFolder(folder, own)

    return make


def oauth(n: int, **extra: Any) -> dict[str, Any]:
    """Return a credential as the peer shows it."""
    return {
        "type": "OAUTH2",
        "access_token": f"at-{n}",
        "refresh_token": f"rt-{n}",
        "expires_at": "2030-01-01T00:00:00.000Z",
        "raw": {"access_token": f"at-{n}", "scope": "read", "team": {"id": "T1"}},
        **extra,
    }


SITE = {"cloudId": "cloud-1", "baseUrl": "https://acme.tracker.example"}
