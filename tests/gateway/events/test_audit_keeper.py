"""The background task of the audit log: checkpoints when due, sent until accepted; a lost key stops nothing."""

import json
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from gateway import clock
from gateway.config.model import AuditConfig
from gateway.events import audit_keeper
from gateway.events.audit_keeper import AuditKeeper
from gateway.records.audit import AuditAction, AuditEntry, CredentialUseCount, CredentialUseFilter, CredentialUseRef
from gateway.store import Store, open_store
from gateway.vault import Keyring, VaultError
from tests.fakes.gateways import RunningGateway
from tests.fakes.migrated import create_database
from tests.gateway.events.conftest import Receiver

CONFIG = AuditConfig("changes", 0, 90, 5, 10, None, None)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    create_database(tmp_path / "gateway.db")
    made = await open_store(f"sqlite:///{tmp_path}/gateway.db", Keyring([os.urandom(32)]), environments={"dev"})
    yield made
    await made.close()


def make_keeper(store: Store, egress: Any = None, **config: Any) -> AuditKeeper:
    from dataclasses import replace

    generation = SimpleNamespace(config=SimpleNamespace(audit=replace(CONFIG, **config)), egress=egress)
    return AuditKeeper(store, SimpleNamespace(generation=generation))  # type: ignore[arg-type]


async def add_records(store: Store, count: int = 1) -> None:
    await store.trail.write(*(AuditEntry.of(AuditAction.CREDENTIAL_READ, "dev") for _ in range(count)))


async def checkpoints(store: Store) -> list[int]:
    return [checkpoint.sequence for checkpoint in await store.audit.checkpoints()]


async def test_checkpoint_is_created_after_the_set_records_or_minutes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, now = make_keeper(store), clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    await add_records(store)
    await keeper.run_once()
    assert await checkpoints(store) == [1]  # the first one immediately
    await add_records(store, 3)
    await keeper.run_once()
    assert await checkpoints(store) == [1]
    await add_records(store, 2)
    await keeper.run_once()
    assert await checkpoints(store) == [1, 7]  # including the record of the signing key
    await add_records(store)
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(minutes=11))
    await keeper.run_once()
    assert await checkpoints(store) == [1, 7, 8]
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(minutes=60))
    await keeper.run_once()
    assert await checkpoints(store) == [1, 7, 8]  # nothing new


async def test_checkpoint_is_sent_until_it_is_accepted_or_replaced_by_a_newer_one(
    event_gateway: RunningGateway, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_keeper, "SEND_AGAIN_S", 0.0)
    store = event_gateway.runtime.store
    keeper = make_keeper(
        store, event_gateway.runtime.generation.egress, checkpoint_url=receiver.url + "/audit", checkpoint_records=1
    )
    receiver.response = lambda _path, _body: web.Response(status=503)
    await add_records(store)
    await keeper.run_once()
    await keeper.run_once()
    await add_records(store)
    await keeper.run_once()
    receiver.response = lambda _path, _body: web.Response(status=204)
    await keeper.run_once()
    await keeper.run_once()
    sent = [json.loads(got.body)["data"]["sequence"] for got in receiver.got if got.path == "/audit"]
    taken = [json.loads(got.body)["data"]["sequence"] for got in receiver.taken if got.path == "/audit"]
    assert taken == [sent[-1]]
    assert len(sent) >= 3
    assert taken[0] > sent[0]


async def test_counts_of_uses_are_kept_for_uses_days(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_keeper, "PRUNE_EVERY_S", 0)
    now = clock.now().replace(minute=0, second=0, microsecond=0)
    use = CredentialUseRef("dev", "tracker", "c1", 1)
    await store.uses.add_many([CredentialUseCount(now - timedelta(days=age), use, 1, 0) for age in (1, 9, 11, 50)])
    await make_keeper(store, uses_days=10).run_once()
    kept = await store.uses.find(CredentialUseFilter("dev", now - timedelta(days=100), now))
    assert kept.calls == 2


async def test_unwritable_checkpoint_file_does_not_stop_the_keeper(store: Store, tmp_path: Path) -> None:
    keeper = make_keeper(store, checkpoint_file=tmp_path / "missing" / "file.jsonl")
    await add_records(store)
    await keeper.run_once()
    assert await checkpoints(store) == [1]


async def test_without_the_signing_key_records_get_no_checkpoint_until_a_new_key_is_made(tmp_path: Path) -> None:
    create_database(tmp_path / "gateway.db")
    url, former, newer = f"sqlite:///{tmp_path}/gateway.db", os.urandom(32), os.urandom(32)
    first = await open_store(url, Keyring([former]), environments={"dev"})
    await first.audit.public_key(now=clock.now())
    await first.close()
    both = await open_store(url, Keyring([newer, former]), environments={"dev"})
    await both.rotation.rotate(lambda *_: None)
    from sqlalchemy import text

    statement = text("UPDATE audit_state SET master_key_id = 'gone'")
    await both.transactions.write(lambda db: db.execute(statement))
    keeper = make_keeper(both)
    await add_records(both)
    with pytest.raises(VaultError):
        await keeper.run_once()
    assert (await both.audit.chain_end()).sequence == 3  # the records are numbered anyway
    await both.audit.new_key(now=clock.now())
    await keeper.run_once()
    assert await checkpoints(both) == [4]
    await both.close()
