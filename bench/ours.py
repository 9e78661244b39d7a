"""The gateway as it is benched: a real `gateway serve` with key, connection, injection, access log and request log."""

import base64
import http.client
import json
import os
import secrets
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench.server import HOST, CannotRun, Server, Target, free_port, started
from bench.upstream import ROOT

INTEGRATION: Final = "bench"
HEADER: Final = "X-Bench-Key"


@dataclass(frozen=True, slots=True)
class Ours:
    """`connections`: how many the store holds; the first `in_use` of them, c0, c1 …, can be used."""

    name: str = "gateway"
    title: str = "**gateway**"
    note: str = "the whole chain: key, connection, injection, log, metrics"
    workers: int = 1
    connections: int = 1
    in_use: int = 1

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return version("integration-gateway")

    @contextmanager
    def running(self, folder: Path, upstream: int, *, streams: bool) -> Iterator[Server]:  # noqa: ARG002 (as the peers)
        """Its connections are imported through its API by a first start; the measured one finds them in the store."""
        port = free_port()
        key = "sk-bench-" + secrets.token_hex(16)
        environ = {"PYTHONPATH": str(ROOT)}
        (folder / "gateway.yaml").write_text(json.dumps(self._configuration(port, upstream, key)))
        (folder / "catalog").mkdir()
        (folder / "catalog" / f"{INTEGRATION}.yaml").write_text(json.dumps(_entry(upstream)))
        command = [sys.executable, "-m", "gateway", "serve", "-c", str(folder / "gateway.yaml")]
        named = {"Authorization": f"Bearer {key}", "Provider-Config-Key": INTEGRATION, "Connection-Id": "c0"}
        admin = Target(port)
        with started(self.title, command, admin, folder=folder, environ=environ, probe="/ready"):
            for number in range(self.in_use):
                _import(admin, key, f"c{number}")
        fill(folder / "gateway.db", self.connections)
        target = Target(port, "/proxy", named)
        with started(self.title, command, target, folder=folder, environ=environ) as server:
            if len(server.pids()) < self.workers:
                raise CannotRun(f"server.workers: {self.workers} has no effect in this build")
            yield server

    def _configuration(self, port: int, upstream: int, key: str) -> dict[str, Any]:
        return {
            "server": {"host": HOST, "port": port, "workers": self.workers},
            "store": {
                "url": "sqlite:///gateway.db",
                "encryption_keys": [base64.b64encode(os.urandom(32)).decode()],
            },
            "catalog": ["catalog"],
            "environments": {"bench": {"secret_keys": [key], "integrations": {INTEGRATION: {"provider": INTEGRATION}}}},
            "egress": {"allow": [f"{HOST}/32:{upstream}"]},
        }


def _entry(upstream: int) -> dict[str, Any]:
    return {
        "display_name": "Bench",
        "categories": ["dev-tools"],
        "docs": "https://docs.example.com",
        "auth_mode": "API_KEY",
        "proxy": {"base_url": f"http://{HOST}:{upstream}", "headers": {HEADER: "${apiKey}"}},
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
        told = answer.read().decode(errors="replace")
    finally:
        connection.close()
    if answer.status != 201:
        raise CannotRun(f"POST /connections answered {answer.status}: {told[:300]}")


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
