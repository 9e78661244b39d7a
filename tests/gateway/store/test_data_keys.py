"""A data key is counted across processes and replaced before it wears out; every process opens what any sealed."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from gateway.store import Store
from gateway.store.data_keys import SEALS_A_TURN, SEALS_PER_KEY, DataKeys
from tests.gateway.store.conftest import NOW, REF, Opener, new


def key_of(ciphertext: bytes) -> str:
    return ciphertext[1:9].hex()


def reserved(path: Path) -> list[int]:
    with sqlite3.connect(path) as db:
        found = [row[0] for row in db.execute("SELECT seals_reserved FROM data_keys WHERE environment = 'dev'")]
    db.close()
    return found


def limit(store: Store, *, seals_per_key: int, reserved: int) -> None:
    keys: DataKeys = store._keys
    keys._seals_per_key, keys._reserved = seals_per_key, reserved


async def test_seals_are_counted_before_they_are_made(opener: Opener, path: Path) -> None:
    store = await opener()
    assert reserved(path) == [0]
    await store.connections.put(new(), now=NOW)
    assert reserved(path) == [2**16]
    await (await opener()).connections.put(new(), now=NOW)
    assert reserved(path) == [2**17]
    assert SEALS_PER_KEY < 2**32


async def test_a_worn_out_key_is_replaced_and_what_it_sealed_still_opens(opener: Opener, path: Path) -> None:
    here, there = await opener(), await opener()
    for store in (here, there):
        limit(store, seals_per_key=2 * SEALS_A_TURN, reserved=SEALS_A_TURN)
    seen = []
    for n in range(40):
        ref = REF._replace(connection_id=f"c{n}")
        stored, _ = await (here, there)[n % 2].connections.put(new(ref), now=NOW)
        seen.append(key_of(stored.credential.ciphertext))
    assert len(set(seen)) > 2
    assert max(seen.count(key) for key in seen) <= 2 * SEALS_A_TURN
    assert max(reserved(path)) <= 2 * SEALS_A_TURN
    for store in (here, there):
        for n in range(40):
            found = await store.connections.get(REF._replace(connection_id=f"c{n}"))
            assert found is not None
            assert store.vault.open_json(found.credential)["apiKey"] == "k"


async def test_processes_that_wear_out_a_key_together_agree_on_the_next(opener: Opener, path: Path) -> None:
    stores = [await opener() for _ in range(3)]
    for store in stores:
        limit(store, seals_per_key=SEALS_A_TURN, reserved=SEALS_A_TURN)
    await asyncio.gather(*(stores[n % 3].connections.put(new(), now=NOW) for n in range(30)))
    found = await stores[0].connections.get(REF)
    assert found is not None
    assert found.version == 30
    assert stores[0].vault.open_json(found.credential)


@pytest.mark.parametrize("environments", [{"dev"}, {"dev", "prod"}])
async def test_each_environment_has_a_key_of_its_own(opener: Opener, path: Path, environments: set[str]) -> None:
    store = await opener(environments=environments)
    used = set()
    for environment in environments:
        stored, _ = await store.connections.put(new(REF._replace(environment=environment)), now=NOW)
        used.add(key_of(stored.credential.ciphertext))
    assert len(used) == len(environments)
