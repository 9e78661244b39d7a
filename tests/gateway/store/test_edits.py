"""Metadata, tags and end user change without a new credential. An edit of several connections changes all of them or
none.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from gateway.http.json_depth import MAX_STORED_LEVELS, nests_deeper
from gateway.records.audit import AuditFilter
from gateway.records.connection import EndUser
from gateway.store import Edit, ListFilter, Store, UnknownConnection
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new

LATER = NOW + timedelta(seconds=5)
OTHER = REF._replace(connection_id="u2")


async def test_an_edit_changes_only_the_given_members(store: Store) -> None:
    new_connection = new(
        metadata={"m": 1}, tags={"old": "1"}, webhook_url_override="https://a.example", config={"a": 1}
    )
    before, _ = await store.connections.put(new_connection, now=NOW)
    after = await store.edits.edit(REF, Edit(tags={"Team": "Red"}, end_user=EndUser("e", display_name="Éa")), now=LATER)
    assert after == await store.connections.get(REF)
    assert (after.tags, after.end_user, after.updated_at) == ({"team": "Red"}, EndUser("e", display_name="Éa"), LATER)
    assert (after.version, after.credential, after.metadata) == (before.version, before.credential, {"m": 1})
    assert (after.webhook_url_override, after.config) == ("https://a.example", {"a": 1})
    for wanted in (ListFilter(tags={"team": "Red"}), ListFilter(end_user_id="e"), ListFilter(search="éA")):
        assert [item.ref for item in await store.connections.list("dev", wanted)] == [REF]
    assert await store.connections.list("dev", ListFilter(tags={"old": "1"})) == []
    cleared = await store.edits.edit(REF, Edit(webhook_url_override=""), now=LATER)
    assert (cleared.webhook_url_override, cleared.tags) == (None, {"team": "Red"})


async def test_metadata_is_replaced_or_merged(store: Store) -> None:
    for ref in (REF, OTHER):
        await store.connections.put(new(ref), now=NOW)
    rows = await store.edits.set_metadata([REF, OTHER, REF], {"a": {"x": 1}, "b": None}, merge=True, now=LATER)
    assert {row.ref: row.metadata for row in rows} == {key: {"a": {"x": 1}, "b": None} for key in (REF, OTHER)}
    (merged,) = await store.edits.set_metadata([REF], {"a": {"y": 2}}, merge=True, now=LATER)
    assert merged.metadata == {"a": {"y": 2}, "b": None}
    (replaced,) = await store.edits.set_metadata([REF], {}, merge=False, now=LATER)
    assert replaced.metadata == {}


async def test_changed_metadata_is_audited_and_unchanged_metadata_is_not(store: Store) -> None:
    await store.connections.put(new(metadata={"m": 1}, end_user=EndUser("e")), now=NOW)
    await store.connections.put(new(OTHER), now=NOW)
    await store.edits.set_metadata([REF, OTHER], {"m": 1}, merge=True, now=LATER)
    await store.edits.set_metadata([REF], {"secret": "value"}, merge=True, now=LATER)
    await store.edits.set_metadata([OTHER], {"m": True}, merge=True, now=LATER)  # equal to 1 in Python, not in JSON
    await store.audit.append_to_chain()
    records = [item.as_json() for item in await store.audit.find(AuditFilter(action="connection.changed"))]
    assert [record["object"]["connection"] for record in records] == [
        OTHER.connection_id,
        REF.connection_id,
        OTHER.connection_id,
    ]
    assert [record["detail"] for record in records] == [{"fields": ["metadata"]}] * 3
    assert ["end_user" in record for record in records] == [False, True, False]


async def test_unknown_connection_prevents_all_changes(store: Store) -> None:
    await store.connections.put(new(metadata={"m": 1}), now=NOW)
    last = await store.changes.log_end()
    with pytest.raises(UnknownConnection) as missing:
        await store.edits.set_metadata([REF, OTHER], {"a": 1}, merge=False, now=LATER)
    assert missing.value.ref == OTHER
    with pytest.raises(UnknownConnection):
        await store.edits.edit(OTHER, Edit(tags={}), now=LATER)
    row = await store.connections.get(REF)
    assert row is not None
    assert (row.metadata, await store.changes.log_end()) == ({"m": 1}, last)


async def test_merges_at_the_same_time_lose_nothing(store: Store, open_test_store: StoreOpener) -> None:
    for ref in (REF, OTHER):
        await store.connections.put(new(ref), now=NOW)
    other = await open_test_store()
    stores = (store, other)
    await asyncio.gather(
        *(
            stores[n % 2].edits.set_metadata([REF, OTHER][:: 1 if n % 3 else -1], {f"k{n}": n}, merge=True, now=LATER)
            for n in range(12)
        )
    )
    for ref in (REF, OTHER):
        row = await store.connections.get(ref)
        assert row is not None
        assert row.metadata == {f"k{n}": n for n in range(12)}


async def test_values_of_any_depth_are_read_and_cut(store: Store) -> None:
    """Earlier versions stored values with hundreds of nested levels, so such values must stay readable."""
    deep: dict[str, Any] = {}
    for _ in range(700):
        deep = {"a": deep}
    await store.connections.put(new(config={"x": deep}), now=NOW)
    await store.edits.set_metadata([REF], {"n": 1, "deep": deep}, merge=False, now=LATER)
    row = await store.connections.get(REF)
    assert row is not None
    for value in (row.metadata, row.config, (await store.connections.list("dev", ListFilter()))[0].metadata):
        assert nests_deeper(value, 64)
        assert not nests_deeper(value, MAX_STORED_LEVELS)
    (merged,) = await store.edits.set_metadata([REF], {"deep": 2}, merge=True, now=LATER)
    assert merged.metadata == {"n": 1, "deep": 2}
    sealed = store.vault.seal_json(
        {"token": "t", "raw": deep}, environment="dev", table="connections", row="u", column="credential", version=1
    )
    opened = store.vault.open_json(sealed)
    assert (opened["token"], nests_deeper(opened, MAX_STORED_LEVELS)) == ("t", False)
