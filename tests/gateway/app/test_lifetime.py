"""The runtime is closed completely, even if its start fails, and passes settings on to the parent."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.app import lifetime
from gateway.app.generations import check_configuration, read
from gateway.errors import Unavailable
from gateway.records.provider_call import ProviderCall
from gateway.refresh.exchange_message import EgressRoute, ExchangeRequest
from gateway.refresh.through_parent import ParentLink
from gateway.refresh.token_exchange import ExchangeLost
from gateway.store import Store, StoreRefused
from gateway.store.database_faults import DatabaseUnavailable
from tests.fakes.gateways import ENCRYPTION_KEY, document
from tests.fakes.migrated import create_database
from tests.fakes.patience import PATIENCE_S


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


async def test_parent_exchanges_tokens_with_the_settings_of_egress(tmp_path: Path) -> None:
    settings = document(["10.0.0.0/8", "127.0.0.1:80"]) | {"catalog": [], "environments": {"dev": {}}}
    create_database(tmp_path / "gateway.db", ENCRYPTION_KEY, ["dev"])
    settings["store"]["url"] = f"sqlite:///{tmp_path}/gateway.db"
    settings["egress"] |= {
        "proxy": "http://user:secret@127.0.0.1:3128",
        "timeouts": {"connect_s": 3},
        "limits": {"connections": 7},
    }
    messages: list[Mapping[str, Any]] = []
    parent = ParentLink(messages.append)
    async with lifetime.open_runtime(check_configuration(read(settings)), parent=parent) as runtime:
        call = ProviderCall("https://a.example/token")
        sending = asyncio.create_task(runtime.exchange.send(call, None, 0, timeout_s=PATIENCE_S, limit_bytes=1))
        await asyncio.sleep(0)
        parent.fail_waiting()
        with pytest.raises(ExchangeLost):
            await sending
    allow = (("10.0.0.0/8", None), ("127.0.0.1/32", 80))
    assert ExchangeRequest.from_json(messages[0]["request"]).route == EgressRoute(
        allow, "http://user:secret@127.0.0.1:3128", 3.0, 7
    )
