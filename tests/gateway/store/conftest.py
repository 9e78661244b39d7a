"""Stores with their own files and databases, closed after the test. Tests run on both backends unless marked
`sqlite_only`.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.config import PoolConfig
from gateway.records.connection import ConnectionRef, NewConnection
from gateway.store import Store, open_store
from gateway.vault import Keyring
from tests.fakes.migrated import create_database

NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
REF = ConnectionRef("dev", "jira", "u1")
KEY = os.urandom(32)

StoreOpener = Callable[..., Awaitable[Store]]

PATIENT = PoolConfig(connect_s=60, wait_s=60, statement_s=60)  # long limits; a test about time limits sets its own

sqlite_only = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def url(backend: str, path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of the database that `open_test_store` opens."""
    if backend == "sqlite":
        return f"sqlite:///{path}"
    made: str = request.getfixturevalue("database")
    return made


@pytest.fixture
async def open_test_store(url: str) -> AsyncIterator[StoreOpener]:
    """Return a function that opens the store. Each call acts as another process on the same database."""
    async with contextlib.AsyncExitStack() as stack:

        async def opened(key: bytes = KEY, *older: bytes, **options: Any) -> Store:
            options.setdefault("environments", {"dev", "prod"})
            options.setdefault("pool", PATIENT)
            store = await open_store(url, Keyring([key, *older]), **options)
            stack.push_async_callback(store.close)
            return store

        yield opened


@pytest.fixture
async def store(open_test_store: StoreOpener, backend: str, path: Path) -> Store:
    if backend == "sqlite":
        create_database(path)
    return await open_test_store()


def new(ref: ConnectionRef = REF, **fields: Any) -> NewConnection:
    defaults = {"provider": "jira", "credential": {"type": "API_KEY", "apiKey": "k"}, "expires_at": None}
    return NewConnection(ref=ref, **(defaults | fields))
