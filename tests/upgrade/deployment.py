"""A deployment in a folder: its files, its store, `gateway serve`, and commands."""

import asyncio
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, chdir, closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import aiohttp
import asyncpg

from tests.fakes.commands import command_output
from tests.fakes.patience import PATIENCE_S
from tests.upgrade.provider import Provider

ROOT = Path(__file__).parents[2]
KEYS = {"production": "sk-production-0123456789", "staging": "sk-staging-0123456789ab"}
PUBLIC_URL = "http://127.0.0.1:3003"


class Response(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]
    cookies: Mapping[str, str]


@dataclass
class Deployment:
    """`folder` contains gateway.yaml. `store_url`: of its store."""

    folder: Path
    provider: Provider
    store_url: str = "sqlite:///gateway.db"

    @property
    def environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.folder),
            "STORE_URL": self.store_url,
            "PROXY_PORT": str(self.provider.proxy_port),
            "SSL_CERT_FILE": str(self.provider.certificate),
        }

    async def command(self, *arguments: str, expect: int = 0, stdin: str = "") -> str:
        """Run `gateway …` in this process and return its output.

        Changes the folder and the environment of the process meanwhile, so only one command may run at a time.
        """
        environ = {**self.environ, "PASSPHRASE": "a passphrase for tests"}
        with patch.dict(os.environ, environ), chdir(self.folder):
            output = await command_output(*arguments, stdin=stdin)
        assert output.code == expect, (arguments, output)
        return output.out

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Client"]:
        """Run `gateway serve` for the duration of the block, then stop it with SIGTERM."""
        log = self.folder / "serve.log"
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gateway", "serve"),
                cwd=self.folder,
                env=self.environ,
                stdout=asyncio.subprocess.PIPE,
                stderr=sink,
            )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                line = (await process.stdout.readline()).decode()
            assert line.startswith("gateway ready on "), (line, log.read_text())
            async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
                yield Client(f"http://127.0.0.1:{line.strip().rpartition(':')[2]}", http)
        finally:
            if process.returncode is None:
                process.terminate()
            async with asyncio.timeout(PATIENCE_S):
                code = await process.wait()
        assert code == 0, log.read_text()


@dataclass
class Client:
    """Calls the gateway at `url`."""

    url: str
    http: aiohttp.ClientSession

    async def call(
        self, method: str, path: str, *, key: str = KEYS["production"], expect: int | None = None, **options: Any
    ) -> Response:
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **options.pop("headers", {})}
        url = self.url + path.removeprefix(PUBLIC_URL)
        async with self.http.request(method, url, headers=headers, allow_redirects=False, **options) as response:
            body: Any = await response.text()
            if response.content_type == "application/json":
                body = json.loads(body)
            assert expect is None or response.status == expect, (method, path, response.status, body)
            cookies = {name: morsel.value for name, morsel in response.cookies.items()}
            return Response(response.status, body, dict(response.headers), cookies)

    async def call_proxy(self, integration: str, connection: str, path: str = "/things/1", **options: Any) -> Response:
        names = {"Provider-Config-Key": integration, "Connection-Id": connection}
        return await self.call(options.pop("method", "GET"), f"/proxy{path}", headers=names, **options)


def copy_version(source: Path, folder: Path) -> None:
    """Copy the files of a version, with the permissions that an operator uses."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def move_sqlite(path: Path, shift: timedelta) -> None:
    """Move every time in the database by `shift`, so that its rows have not expired."""
    with closing(sqlite3.connect(path)) as db, db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for column in db.execute(f"PRAGMA table_info({table})").fetchall():
                if column[2].upper().startswith(("DATETIME", "TIMESTAMP")):
                    _move_column(db, table, column[1], shift)


def _move_column(db: sqlite3.Connection, table: str, column: str, shift: timedelta) -> None:
    rows = db.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()
    moved = [((datetime.fromisoformat(old) + shift).strftime("%Y-%m-%d %H:%M:%S.%f"), old) for (old,) in rows]
    order = sorted(moved, reverse=shift > timedelta())  # so that no time is moved onto one that is moved later
    db.executemany(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", order)


async def load_postgres(url: str, dump: Path, by: timedelta) -> None:
    """Load the dump, and move its times as `move_sqlite` does."""
    db = await asyncpg.connect(url)
    try:
        await db.execute(dump.read_text())
        await db.execute("SET search_path = public")
        columns = await db.fetch(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND data_type LIKE 'timestamp%'"
        )
        for table, column in columns:
            await db.execute(f"UPDATE {table} SET {column} = {column} + $1", by)
    finally:
        await db.close()
