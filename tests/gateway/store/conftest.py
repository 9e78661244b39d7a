"""Stores on files of their own, closed after the test."""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.records.connection import ConnectionRef, NewConnection
from gateway.store import Store, open_store
from gateway.vault import Keyring

NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
REF = ConnectionRef("dev", "jira", "u1")
KEY = os.urandom(32)

Opener = Callable[..., Awaitable[Store]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
async def opener(path: Path) -> AsyncIterator[Opener]:
    """Opens the store at `path`, as often as asked: each is another process as far as the database can tell."""
    async with contextlib.AsyncExitStack() as stack:

        async def opened(key: bytes = KEY, **options: Any) -> Store:
            options.setdefault("environments", {"dev", "prod"})
            store = await open_store(f"sqlite:///{path}", Keyring([key]), **options)
            stack.push_async_callback(store.close)
            return store

        yield opened


@pytest.fixture
async def store(opener: Opener) -> Store:
    return await opener()


def new(ref: ConnectionRef = REF, **fields: Any) -> NewConnection:
    given = {"provider": "jira", "credential": {"type": "API_KEY", "apiKey": "k"}, "expires_at": None}
    return NewConnection(ref=ref, **(given | fields))
