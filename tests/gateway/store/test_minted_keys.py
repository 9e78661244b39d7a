"""Minted keys in the store: they are found only by digest, and their budgets are never exceeded.

Revoking a key also revokes all keys that it minted.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from gateway.errors import Conflict, NotFound
from gateway.records.access import KeyLimits
from gateway.records.connection import ConnectionRef
from gateway.store import ListFilter, Store
from gateway.store.minted_keys import KEPT_AFTER_END, NewMintedKey, changed_key
from tests.fakes.postgres import waiting_for_lock
from tests.gateway.store.conftest import NOW, StoreOpener, new

AGENT = NewMintedKey(
    digest="d1",
    environment="dev",
    kind="key",
    name="agent",
    last_four="abcd",
    scopes=("environment:proxy",),
    limits=(KeyLimits(connections=("jira/u1",), tags={"a": "b"}), KeyLimits(rules=("GET /x",))),
    rate=5,
    budget=100,
    created_by="a test",
)


async def test_key_is_found_by_its_digest(store: Store) -> None:
    key = await store.keys.add(AGENT, now=NOW)
    assert await store.keys.get("d1") == key
    assert (key.limits, key.scopes, key.rate, key.budget, key.calls) == (AGENT.limits, AGENT.scopes, 5, 100, 0)
    assert await store.keys.find("dev", key.id) == key
    assert await store.keys.find("prod", key.id) is None
    assert await store.keys.get("d2") is None


async def test_every_change_is_reported_to_other_processes(store: Store) -> None:
    last = await store.changes.log_end()
    key = await store.keys.add(AGENT, now=NOW)
    last, response = await store.changes.read_since(last)
    assert list(response) == [changed_key("dev", "d1")]
    await store.keys.record_uses(["d1"], now=NOW)
    assert (await store.changes.read_since(last))[1] == {}, "the time of use is not reported"
    await store.keys.revoke("dev", key.id, now=NOW)
    assert list((await store.changes.read_since(last))[1]) == [changed_key("dev", "d1")]


async def test_a_rotation_is_reported_for_the_key_and_the_active_ones_below_it(store: Store) -> None:
    old = await store.keys.add(AGENT, now=NOW)
    child = await store.keys.add(replace(AGENT, digest="child", name="child", parent_id=old.id), now=NOW)
    await store.keys.add(replace(AGENT, digest="grandchild", name="grandchild", parent_id=child.id), now=NOW)
    ended = await store.keys.add(replace(AGENT, digest="ended", name="ended", parent_id=old.id), now=NOW)
    await store.keys.revoke("dev", ended.id, now=NOW)
    await store.keys.add(replace(AGENT, digest="other", name="other"), now=NOW)
    last = await store.changes.log_end()
    new_key = await store.keys.add(replace(AGENT, digest="new", replaces=old.id), now=NOW)
    changed = (await store.changes.read_since(last))[1]
    assert {ref.connection_id for ref in changed} == {"d1", "new", "child", "grandchild"}
    grandchild = await store.keys.get("grandchild")
    assert grandchild is not None
    assert await store.keys.ancestors(grandchild) == (child.id, new_key.id)


POSTGRES = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)


@POSTGRES
async def test_recording_uses_waits_for_no_locked_key(store: Store, url: str) -> None:
    for number in (1, 2, 3):
        await store.keys.add(replace(AGENT, digest=f"d{number}", name=f"n{number}"), now=NOW)
    other = await asyncpg.connect(url)
    async with other.transaction():
        await other.execute("SELECT 1 FROM keys WHERE digest = 'd2' FOR UPDATE")
        touching = asyncio.create_task(store.keys.record_uses(["d1", "d2", "d3", "none"], now=NOW))
        await waiting_for_lock(url)
        await other.execute("SELECT 1 FROM keys FOR UPDATE NOWAIT")
    await touching
    used = [await store.keys.get(f"d{number}") for number in (1, 2, 3)]
    assert [key and key.last_used_at for key in used] == [NOW] * 3
    await other.close()


@POSTGRES
async def test_revoking_waits_for_minting_before_it_locks_a_key(store: Store, url: str) -> None:
    key = await store.keys.add(AGENT, now=NOW)
    other = await asyncpg.connect(url)
    async with other.transaction():
        await other.execute("SELECT 1 FROM environments WHERE name = 'dev' FOR NO KEY UPDATE")
        revoking = asyncio.create_task(store.keys.revoke("dev", key.id, now=NOW))
        await waiting_for_lock(url)
        await other.execute("SELECT 1 FROM keys FOR UPDATE NOWAIT")
    assert await revoking == ["d1"]
    await other.close()


async def test_a_name_is_free_again_once_its_key_has_ended(store: Store) -> None:
    key = await store.keys.add(AGENT, now=NOW)
    with pytest.raises(Conflict):
        await store.keys.add(replace(AGENT, digest="d2"), now=NOW)
    await store.keys.add(replace(AGENT, digest="d3", environment="prod"), now=NOW)
    await store.keys.revoke("dev", key.id, now=NOW)
    await store.keys.add(replace(AGENT, digest="d2", expires_at=NOW + timedelta(seconds=1)), now=NOW)
    await store.keys.add(replace(AGENT, digest="d4"), now=NOW + timedelta(seconds=1))


async def test_a_revoked_key_cannot_mint_another(store: Store) -> None:
    """Another node may still accept the key for a moment after it was revoked."""
    parent = await store.keys.add(AGENT, now=NOW)
    await store.keys.revoke("dev", parent.id, now=NOW)
    child = replace(AGENT, digest="d2", name="child", parent_id=parent.id)
    with pytest.raises(Conflict, match="was revoked"):
        await store.keys.add(child, now=NOW)
    assert await store.keys.get("d2") is None


async def test_family_of_a_key_is_the_key_and_its_descendants(store: Store) -> None:
    def key(name: str, parent_id: int | None, environment: str = "dev") -> NewMintedKey:
        return replace(AGENT, digest=name, name=name, parent_id=parent_id, environment=environment)

    first = await store.keys.add(key("first", None), now=NOW)
    other = await store.keys.add(key("other", None), now=NOW)
    child = await store.keys.add(key("child", first.id), now=NOW)
    below = await store.keys.add(key("below", child.id), now=NOW)
    await store.keys.add(key("of another", other.id), now=NOW)
    assert await store.keys.family("dev", first.id, limit=9) == [first, child, below]
    assert await store.keys.family("dev", first.id, limit=2) == [first, child]
    assert await store.keys.family("dev", below.id, limit=9) == [below]
    assert await store.keys.family("prod", first.id, limit=9) == []
    assert await store.keys.names("dev", [first.id, below.id, 999]) == {first.id: "first", below.id: "below"}
    assert await store.keys.names("prod", [first.id]) == {}


async def test_revoking_ends_all_that_was_minted_with_it(store: Store) -> None:
    top = await store.keys.add(AGENT, now=NOW)
    middle = await store.keys.add(replace(AGENT, digest="d2", name="m", parent_id=top.id), now=NOW)
    await store.keys.add(replace(AGENT, digest="d3", name="b", parent_id=middle.id), now=NOW)
    await store.keys.add(replace(AGENT, digest="d4", name="other"), now=NOW)
    assert await store.keys.revoke("prod", top.id, now=NOW) == []
    assert sorted(await store.keys.revoke("dev", middle.id, now=NOW)) == ["d2", "d3"]
    assert await store.keys.revoke("dev", top.id, now=NOW) == ["d1"]
    assert [key.digest for key in await store.keys.list("dev", alive_at=NOW, limit=10)] == ["d4"]


async def test_children_of_a_replaced_key_belong_to_the_new_key(store: Store) -> None:
    old = await store.keys.add(AGENT, now=NOW)
    await store.keys.add(replace(AGENT, digest="c1", name="child", parent_id=old.id), now=NOW)
    until = NOW + timedelta(hours=1)
    made = await store.keys.add(replace(AGENT, digest="d2", replaces=old.id, replaced_ends_at=until), now=NOW)
    ended = await store.keys.get("d1")
    assert ended is not None
    assert ended.expires_at == until
    assert sorted(await store.keys.revoke("dev", made.id, now=NOW)) == ["c1", "d2"]
    with pytest.raises(NotFound):
        await store.keys.add(replace(AGENT, digest="d3", replaces=999), now=NOW)


async def test_budget_is_reserved_in_shrinking_parts_and_never_exceeded(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store(), await open_test_store()]
    await stores[0].keys.add(AGENT, now=NOW)
    assert [await stores[0].keys.reserve_calls("d1", 100) for _ in range(3)] == [5, 4, 4]
    assert await stores[0].keys.reserve_calls("d1", -4) == -4
    taken = await asyncio.gather(*(stores[n % 2].keys.reserve_calls("d1", 100) for n in range(150)))
    assert sum(taken) == 100 - 9
    assert await stores[1].keys.reserve_calls("d1", 100) == 0
    assert await stores[1].keys.reserve_calls("d1", -500) == -100, "at most the used calls are returned to the budget"
    assert await stores[1].keys.reserve_calls("none", 1) == 0


async def test_keys_that_ended_long_ago_are_removed(store: Store) -> None:
    key = await store.keys.add(AGENT, now=NOW)
    await store.keys.add(replace(AGENT, digest="d2", name="lives"), now=NOW)
    await store.keys.revoke("dev", key.id, now=NOW)
    await store.prune(NOW + KEPT_AFTER_END)
    assert await store.keys.get("d1") is not None
    await store.prune(NOW + KEPT_AFTER_END + timedelta(seconds=1))
    assert await store.keys.get("d1") is None
    assert await store.keys.get("d2") is not None


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (KeyLimits(), {"a", "b", "c"}),
        (KeyLimits(integrations=("jira",)), {"a", "b"}),
        (KeyLimits(connections=("jira/a", "github/b")), {"a"}),
        (KeyLimits(connections=("*/c", "jira/b")), {"b", "c"}),
        (KeyLimits(tags={"Team": "red"}), {"b"}),
        (KeyLimits(integrations=("github",), tags={"team": "red"}), set()),
    ],
)
async def test_list_applies_key_limits(store: Store, limits: KeyLimits, expected: set[str]) -> None:
    for integration, name, tags in (("jira", "a", {}), ("jira", "b", {"team": "red"}), ("github", "c", {})):
        await store.connections.put(new(ConnectionRef("dev", integration, name), tags=tags), now=NOW)
    listed = await store.connections.list("dev", ListFilter(within=(limits, KeyLimits())))
    assert {item.ref.connection_id for item in listed} == expected


async def test_withdrawn_replacement_returns_the_children_and_the_end_of_the_old_key(store: Store) -> None:
    old = await store.keys.add(replace(AGENT, expires_at=NOW + timedelta(days=9)), now=NOW)
    child = await store.keys.add(replace(AGENT, digest="child", name="child", parent_id=old.id), now=NOW)
    new_key = await store.keys.add(replace(AGENT, digest="new", replaces=old.id), now=NOW)
    last = await store.changes.log_end()
    await store.keys.withdraw(new_key, now=NOW)
    assert await store.keys.get("d1") == old
    assert await store.keys.get("child") == child
    withdrawn = await store.keys.get("new")
    assert withdrawn is not None
    assert withdrawn.revoked_at == NOW
    assert set((await store.changes.read_since(last))[1]) == {
        changed_key("dev", name) for name in ("d1", "child", "new")
    }


async def test_withdrawn_replacement_keeps_an_end_that_was_set_in_the_meantime(store: Store) -> None:
    old = await store.keys.add(AGENT, now=NOW)
    later = NOW + timedelta(days=1)
    withdrawn = await store.keys.add(replace(AGENT, digest="new", replaces=old.id, replaced_ends_at=later), now=NOW)
    soon = NOW + timedelta(hours=1)
    kept = replace(AGENT, name="kept", digest="kept", replaces=old.id, replaced_ends_at=soon)
    await store.keys.add(kept, now=NOW)
    await store.keys.withdraw(withdrawn, now=NOW)
    found = await store.keys.get("d1")
    assert found is not None
    assert found.expires_at == soon
