"""The runtime is closed completely, even if its start fails."""

import re
from pathlib import Path
from typing import Any

import pytest

from gateway.app import lifetime
from gateway.app.generations import check_configuration, read
from gateway.errors import Unavailable
from gateway.store import Store, StoreRefused
from gateway.store.database_faults import DatabaseUnavailable
from tests.fakes.gateways import document


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Unavailable("store_unavailable", "The database is damaged."), "cannot be opened. The database is damaged."),
        (DatabaseUnavailable("it is read-only"), "cannot be opened: it is read-only."),
        (DatabaseUnavailable("the disk is full"), "cannot be opened: the disk is full. Free space on its disk."),
    ],
)
async def test_a_start_that_fails_closes_the_store_and_names_the_cause_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Unavailable, message: str
) -> None:
    closed: list[Store] = []
    close = Store.close

    async def close_and_count(store: Store) -> None:
        await close(store)
        closed.append(store)

    async def reconcile(_store: Any) -> None:
        raise fault

    monkeypatch.setattr(Store, "close", close_and_count)
    monkeypatch.setattr(lifetime, "reconcile", reconcile)
    settings = document([]) | {"catalog": []}
    settings["store"]["url"] = f"sqlite:///{tmp_path}/gateway.db"
    del settings["environments"]["dev"]["integrations"]
    with pytest.raises(StoreRefused, match=f"^{re.escape(f'{tmp_path}/gateway.db {message}')}$"):
        async with lifetime.open_runtime(check_configuration(read(settings)), background=True):
            pass
    assert len(closed) == 1
