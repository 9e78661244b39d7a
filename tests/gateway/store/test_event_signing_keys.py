"""The keys that sign events have numbers. So no key is lost if several processes rotate at the same time."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.secret import Secret
from gateway.store import Store
from gateway.store.transactions import insert_if_absent
from tests.gateway.store.conftest import NOW


async def test_a_rotation_is_repeated_if_another_process_has_used_its_number(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.signing_keys.ensure("dev", lambda: Secret("first"), now=NOW)
    numbers = list[int]()

    async def insert(db: AsyncConnection, table: Table, row: Mapping[str, Any], *, key: Sequence[str]) -> bool:
        numbers.append(row["number"])
        return len(numbers) > 1 and await insert_if_absent(db, table, row, key=key)

    monkeypatch.setattr("gateway.store.event_signing_keys.insert_if_absent", insert)
    await store.signing_keys.rotate("dev", Secret("second"), now=NOW, retires_at=NOW + timedelta(hours=1))
    found = await store.signing_keys.active_keys("dev", now=NOW)
    assert [item.key.reveal() for item in found] == ["second", "first"]
    assert numbers == [2, 2]
