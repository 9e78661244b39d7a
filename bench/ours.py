"""The gateway as it is benched: a real `gateway serve` with key, connection, injection, access log and request log."""

import base64
import http.client
import json
import os
import secrets
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench.server import HOST, CannotRun, Server, Target, free_port, started
from bench.upstream import ROOT

INTEGRATION: Final = "bench"
HEADER: Final = "X-Bench-Key"
IN_USE: Final = 10
ENVIRON: Final = {"PYTHONPATH": str(ROOT)}


@dataclass(frozen=True, slots=True)
class Ours:
    """`connections`: how many the store holds, at least ten; the first ten, c0 to c9, can be used."""

    name: str = "gateway"
    title: str = "**gateway**"
    note: str = "the whole chain: key, connection, injection, log"
    workers: int = 1
    connections: int = IN_USE

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return version("integration-gateway")

    @contextmanager
    def running(
        self,
        folder: Path,
        upstream: int,
        *,
        streams: bool,  # noqa: ARG002 (as the peers)
        certificate: Path | None = None,
    ) -> Iterator[Server]:
        """It finds its connections in the store, as after a restart."""
        port, held = free_port(), seed()
        for file in Path(held.folder.name).glob("gateway.db*"):
            if file.is_file():  # the refresh journal is the former process's
                shutil.copy(file, folder)
        fill(folder / "gateway.db", self.connections)
        command = _written(
            folder, held, port=port, upstream=upstream, workers=self.workers, tls=certificate is not None
        )
        named = {"Authorization": f"Bearer {held.key}", "Provider-Config-Key": INTEGRATION, "Connection-Id": "c0"}
        target = Target(port, "/proxy", named)
        environ = ENVIRON | ({"SSL_CERT_FILE": str(certificate)} if certificate else {})
        with started(self.title, command, target, folder=folder, environ=environ) as server:
            if len(server.pids()) < self.workers:
                raise CannotRun(f"server.workers: {self.workers} has no effect in this build")
            yield server


@dataclass(frozen=True, slots=True)
class Seed:
    """A folder whose gateway.db holds the usable connections; the keys that open it. The folder lives as long as this."""

    folder: "tempfile.TemporaryDirectory[str]"
    key: str
    encryption_key: str


@cache
def seed() -> Seed:
    """Made once a run, by a gateway that takes them in through its API. Raises CannotRun."""
    fresh = Seed(
        tempfile.TemporaryDirectory(prefix="bench-seed-"),
        "sk-bench-" + secrets.token_hex(16),
        base64.b64encode(os.urandom(32)).decode(),
    )
    folder, port = Path(fresh.folder.name), free_port()
    command = _written(folder, fresh, port=port, upstream=port, workers=1)
    with started("the gateway", command, Target(port), folder=folder, environ=ENVIRON, probe="/ready") as server:
        for number in range(IN_USE):
            _import(server.target, fresh.key, f"c{number}")
    return fresh


def _written(folder: Path, held: Seed, *, port: int, upstream: int, workers: int, tls: bool = False) -> list[str]:
    """Write the configuration and the catalog entry; the command that serves with them."""
    configuration = {
        "server": {"host": HOST, "port": port, "admin_port": free_port(), "workers": workers},
        "store": {"url": "sqlite:///gateway.db", "encryption_keys": [held.encryption_key]},
        "catalog": ["catalog"],
        "environments": {
            "bench": {"secret_keys": [held.key], "integrations": {INTEGRATION: {"provider": INTEGRATION}}}
        },
        "egress": {"allow": [f"{HOST}/32:{upstream}"]},
    }
    (folder / "gateway.yaml").write_text(json.dumps(configuration))
    (folder / "catalog").mkdir()
    (folder / "catalog" / f"{INTEGRATION}.yaml").write_text(json.dumps(_entry(upstream, tls=tls)))
    return [sys.executable, "-m", "gateway", "serve", "-c", str(folder / "gateway.yaml")]


def _entry(upstream: int, *, tls: bool) -> dict[str, Any]:
    return {
        "display_name": "Bench",
        "categories": ["dev-tools"],
        "docs": "https://docs.example.com",
        "auth_mode": "API_KEY",
        "proxy": {"base_url": f"http{'s' if tls else ''}://{HOST}:{upstream}", "headers": {HEADER: "${apiKey}"}},
    }


def _import(target: Target, key: str, connection_id: str) -> None:
    """Store a connection with a key of its own. Raises CannotRun."""
    body = {
        "provider_config_key": INTEGRATION,
        "connection_id": connection_id,
        "credentials": {"type": "API_KEY", "apiKey": secrets.token_hex(20)},
    }
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(HOST, target.port, timeout=10)
    try:
        connection.request("POST", "/connections", json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    finally:
        connection.close()
    if answer.status != 201:
        raise CannotRun(f"POST /connections answered {answer.status}: {text[:300]}")


def fill(database: Path, connections: int) -> None:
    """Bring the store to so many rows by copying the first under new names.

    A copy's credential opens at its own address only, so copies cannot be used: they are there to be in the way.
    """
    with sqlite3.connect(database) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(connections)") if row[1] != "id"]
        (held,) = db.execute("SELECT count(*) FROM connections").fetchone()
        fresh = {"uid": "lower(hex(randomblob(16)))", "connection_id": "'filler-' || n"}
        taken = ", ".join(fresh.get(column, column) for column in columns)
        rows = f"WITH RECURSIVE more(n) AS (SELECT {held + 1} UNION ALL SELECT n + 1 FROM more WHERE n < ?)"
        copy = f"{rows} INSERT INTO connections ({', '.join(columns)}) SELECT {taken} FROM connections, more"
        if connections > held:
            db.execute(f"{copy} WHERE connection_id = 'c0'", (connections,))
    db.close()
