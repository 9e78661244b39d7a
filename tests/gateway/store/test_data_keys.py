"""The uses of a data key are counted across all processes, and the key is replaced before its limit.

Every process can open all values.
"""

import asyncio

import pytest

from gateway.store import Store
from gateway.store.data_keys import SEALS_PER_KEY, DataKeys
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new


def key_of(ciphertext: bytes) -> str:
    return ciphertext[1:9].hex()


async def seals_reserved(store: Store) -> list[int]:
    async with store.transactions.read() as db:
        found = await db.exec_driver_sql("SELECT seals_reserved FROM data_keys WHERE environment = 'dev'")
        return list(found.scalars())


def limit(store: Store, *, turns: int) -> int:
    """Make every reservation as small as possible, and limit a key to `turns` reservations.

    Return the number of values that a key can seal under this limit.
    """
    keys: DataKeys = store.data_keys
    keys.seals_per_key, keys.reserved = turns * keys.max_seals_at_once, keys.max_seals_at_once
    return keys.seals_per_key


async def test_uses_of_a_data_key_are_reserved_before_values_are_sealed(open_test_store: StoreOpener) -> None:
    store = await open_test_store()
    assert await seals_reserved(store) == [0]
    await store.connections.put(new(), now=NOW)
    assert await seals_reserved(store) == [2**16]
    await (await open_test_store()).connections.put(new(), now=NOW)
    assert await seals_reserved(store) == [2**17]
    assert SEALS_PER_KEY < 2**32


async def test_used_up_key_is_replaced_and_its_values_still_open(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    most = max(limit(store, turns=2) for store in (this_node, other_node))
    seen = []
    for n in range(count := most + 8):
        ref = REF._replace(connection_id=f"c{n}")
        stored, _ = await (this_node, other_node)[n % 2].connections.put(new(ref), now=NOW)
        seen.append(key_of(stored.credential.ciphertext))
    assert len(set(seen)) > 2
    assert max(seen.count(key) for key in seen) <= most
    assert max(await seals_reserved(this_node)) <= most
    for store in (this_node, other_node):
        for n in range(count):
            found = await store.connections.get(REF._replace(connection_id=f"c{n}"))
            assert found is not None
            assert store.vault.open_json(found.credential)["apiKey"] == "k"


async def test_processes_that_use_up_a_data_key_together_agree_on_the_next_key(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store() for _ in range(3)]
    for store in stores:
        limit(store, turns=1)
    await asyncio.gather(*(stores[n % 3].connections.put(new(), now=NOW) for n in range(30)))
    found = await stores[0].connections.get(REF)
    assert found is not None
    assert found.version == 30
    assert stores[0].vault.open_json(found.credential)


@pytest.mark.parametrize("environments", [{"dev"}, {"dev", "prod"}])
async def test_each_environment_has_its_own_key(open_test_store: StoreOpener, environments: set[str]) -> None:
    store = await open_test_store(environments=environments)
    used = set()
    for environment in environments:
        stored, _ = await store.connections.put(new(REF._replace(environment=environment)), now=NOW)
        used.add(key_of(stored.credential.ciphertext))
    assert len(used) == len(environments)
