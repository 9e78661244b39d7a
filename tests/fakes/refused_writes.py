"""A store that refuses every write, as if too many calls waited for the database."""

from typing import Any

import pytest

from gateway.store import Store
from gateway.store.database_faults import DatabaseUnavailable
from gateway.store.transactions import QUEUE_FULL


def refuse_writes(monkeypatch: pytest.MonkeyPatch, store: Store) -> list[DatabaseUnavailable]:
    """Refuse every write of `store`, until `monkeypatch` ends. Return the list of the errors raised so far."""
    refused: list[DatabaseUnavailable] = []

    async def raise_crowded(*_: Any, **__: Any) -> Any:
        refused.append(DatabaseUnavailable(QUEUE_FULL))
        raise refused[-1]

    monkeypatch.setattr(store.transactions, "write", raise_crowded)
    return refused
