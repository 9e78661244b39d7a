"""Encryption keys that a reload adds, and requests that wait for them."""

import asyncio
import base64
from datetime import UTC, datetime
from typing import Final

import pytest

from gateway.app.reload import reload
from gateway.errors import Unavailable
from gateway.secret import Secret
from gateway.store import open_store
from gateway.vault import Keyring
from tests.fakes.gateways import ENCRYPTION_KEY, RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.app.test_reload import reload_gateway, write

NEWER: Final = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="
NOW: Final = datetime(2026, 1, 2, tzinfo=UTC)


async def rotate_keys(running: RunningGateway, *keys: str) -> None:
    """Rotate to the first of `keys`, as another process with these keys does."""
    keyring = Keyring([base64.b64decode(key) for key in keys])
    other = await open_store(running.runtime.generation.config.store.url, keyring, environments={"dev"})
    try:
        await other.rotation.rotate(lambda _done, _all: None)
    finally:
        await other.close()


def start_reads(running: RunningGateway) -> list[asyncio.Task[None]]:
    """Return a list that grows with each reload caused by a missing key."""
    tasks: list[asyncio.Task[None]] = []

    async def read_again() -> None:
        await reload_gateway(running)
        running.runtime.store.missing_keys.reload_finished()

    running.runtime.store.missing_keys.start_reload = lambda _ids: tasks.append(asyncio.create_task(read_again()))
    return tasks


@pytest.mark.parametrize("brought", [True, False])
async def test_new_environment_does_not_wait_for_the_key_of_its_own_reload(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch, brought: bool
) -> None:
    monkeypatch.setattr("gateway.store.data_keys.RESPONSE_S", 10.0)
    await running.import_connection(tracker.grant())
    await rotate_keys(running, NEWER, ENCRYPTION_KEY)
    running.document["environments"]["fresh"] = {}
    if brought:
        running.document["store"]["encryption_keys"] = [NEWER, ENCRYPTION_KEY]
    tasks = start_reads(running)
    rotating = running.runtime.store.signing_keys.rotate("dev", Secret("s" * 32), now=NOW, retires_at=NOW)
    writing = asyncio.create_task(rotating)
    await asyncio.wait({writing})
    (reading,) = tasks
    assert reading.done(), "the write ends only after the read of the configuration"
    assert (writing.exception() is None) == brought
    assert "fresh" in running.runtime.generation.config.environments


async def test_failed_reload_keeps_the_encryption_keys(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_names: object) -> None:
        raise Unavailable("store_unavailable", "as if the disk were full", retry_after_s=5)

    store = running.runtime.store
    former = store.data_keys.keyring
    monkeypatch.setattr(store.data_keys, "ensure", fail)
    running.document["environments"]["fresh"] = {}
    running.document["store"]["encryption_keys"] = [NEWER, ENCRYPTION_KEY]
    assert not await reload_gateway(running)
    assert store.data_keys.keyring is former


async def test_refused_configuration_changes_nothing_in_the_store(running: RunningGateway) -> None:
    def refuse(_ready: object) -> None:
        raise OSError("no space left on device")

    store, settings = running.runtime.store, running.runtime.generation.config.store
    former = store.data_keys.keyring
    running.document["environments"]["fresh"] = {}
    running.document["store"]["encryption_keys"] = [NEWER, ENCRYPTION_KEY]
    write(running)
    assert not await reload(running.app, running.folder / "gateway.yaml", accept=refuse)
    assert store.data_keys.keyring is former
    restarted = await open_store(settings.url, Keyring(settings.encryption_keys), environments={"dev"})
    await restarted.close()


async def test_generation_that_cannot_be_built_changes_nothing_in_the_store(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("as if a part failed")

    store, generation = running.runtime.store, running.runtime.generation
    former = store.data_keys.keyring
    monkeypatch.setattr("gateway.app.generations.build_generation", fail)
    running.document["environments"]["fresh"] = {}
    running.document["store"]["encryption_keys"] = [NEWER, ENCRYPTION_KEY]
    assert not await reload_gateway(running)
    assert store.data_keys.keyring is former
    assert running.runtime.generation is generation
    settings = generation.config.store
    restarted = await open_store(settings.url, Keyring(settings.encryption_keys), environments={"dev"})
    await restarted.close()
