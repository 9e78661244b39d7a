"""A worker without the parts of libraries that it never uses."""

import subprocess
import sys
from pathlib import Path

import pytest

import gateway

START = "from gateway.lean import leave_out_the_unused; leave_out_the_unused(); "


def told(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


UNUSED = [
    "rich",
    "sqlalchemy.orm",
    "sqlalchemy.dialects.postgresql",
    "alembic",
    "joserfc",
    "oauthlib",
    "cryptography.x509",
]


@pytest.mark.parametrize("unused", UNUSED)
def test_a_server_loads_nothing_of(unused: str) -> None:
    assert told(f"{START}import sys, gateway.server; print({unused!r} in sys.modules)") == "False"


STORE = """
import asyncio, sys
from gateway.store import open_store
from gateway.vault import Keyring

async def main():
    store = await open_store(sys.argv[1], Keyring([bytes(32)]), environments={"dev"})
    await store.changes.version()
    await store.close()

asyncio.run(main())
print([name for name in sys.argv[2:] if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("kind", "unused"),
    [
        ("sqlite", ["asyncpg", "sqlalchemy.dialects.postgresql", "gateway.store.postgres.engine", "sqlalchemy.orm"]),
        ("postgresql", ["aiosqlite", "gateway.store.sqlite_backend", "sqlalchemy.orm", "alembic"]),
    ],
)
def test_a_worker_loads_only_the_driver_of_its_store(
    kind: str, unused: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/gateway.db" if kind == "sqlite" else request.getfixturevalue("database")
    if kind == "sqlite":  # making the tables takes Alembic, which takes much along
        subprocess.run([sys.executable, "-c", STORE, url], check=True, timeout=60)
    command = [sys.executable, "-c", START + STORE, url, *unused]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_who_asks_for_more_than_the_engine_gets_the_whole_package() -> None:
    asked = "from sqlalchemy.ext.asyncio import AsyncEngine; from sqlalchemy.ext.asyncio import AsyncSession, engine; "
    assert told(f"{START}{asked}print(AsyncSession.__name__, engine.AsyncEngine is AsyncEngine)") == "AsyncSession True"


def test_what_the_package_does_not_have_it_still_does_not_have() -> None:
    code = "import sqlalchemy.ext.asyncio as package; print(hasattr(package, 'no_such_thing'))"
    assert told(START + code) == "False"


def test_rich_can_be_loaded_afterwards() -> None:
    assert told(f"{START}import rich; print(rich.__name__)") == "rich"


def test_only_the_command_that_serves_leaves_anything_out() -> None:
    ours = Path(gateway.__file__).parent
    callers = [path for path in ours.rglob("*.py") if "leave_out_the_unused()" in path.read_text()]
    assert {path.relative_to(ours).as_posix() for path in callers} == {"lean.py", "cli/serve.py"}
