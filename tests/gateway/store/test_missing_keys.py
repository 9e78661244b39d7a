"""If a master key is missing, the gateway reloads its configuration, once for all waiting requests.

If the key is still missing, the pauses between reloads grow.
"""

import asyncio
import os
from collections import Counter
from datetime import timedelta

import pytest
import structlog

from gateway import clock
from gateway.errors import Unavailable
from gateway.pauses import FIRST_PAUSE_S
from gateway.store.data_keys import MissingKeys
from gateway.vault import Keyring
from tests.fakes.patience import PATIENCE_S
from tests.gateway.store.conftest import KEY, NOW, REF, StoreOpener, new

OTHER = os.urandom(32)


async def test_value_under_a_missing_key_opens_after_the_reload(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(KEY), await open_test_store(OTHER, KEY)
    await other_node.rotation.rotate(lambda _done, _all: None)
    await other_node.connections.put(new(), now=NOW)
    reload_requests: list[asyncio.Task[None]] = []

    async def read_again() -> None:
        await this_node.use_keyring(Keyring([OTHER, KEY]))
        this_node.missing_keys.reload_finished()

    this_node.missing_keys.start_reload = lambda _ids: reload_requests.append(asyncio.create_task(read_again()))
    found = await asyncio.gather(*(this_node.connections.get(REF) for _ in range(5)))
    await asyncio.gather(*(this_node.connections.put(new(), now=NOW) for _ in range(5)))
    assert [this_node.open(item.credential)["apiKey"] for item in found if item is not None] == ["k"] * 5
    assert len(reload_requests) == 1


async def test_a_missing_key_is_a_503_and_not_requested_each_time(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(KEY), await open_test_store(OTHER, KEY)
    await other_node.rotation.rotate(lambda _done, _all: None)
    reload_requests: list[None] = []

    def record_and_finish(_ids: object) -> None:
        reload_requests.append(None)
        this_node.missing_keys.reload_finished()

    this_node.missing_keys.start_reload = record_and_finish
    for _ in range(3):
        with pytest.raises(Unavailable, match="does not have"):
            await this_node.connections.put(new(), now=NOW)
    assert len(reload_requests) == 1


async def test_other_writes_run_while_a_key_is_requested(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.data_keys.RESPONSE_S", 4 * PATIENCE_S)
    this_node, other_node = await open_test_store(KEY), await open_test_store(OTHER, KEY)
    await other_node.rotation.rotate(lambda _done, _all: None)
    request_arrived = asyncio.Event()
    this_node.missing_keys.start_reload = lambda _ids: request_arrived.set()
    waiting = asyncio.create_task(this_node.connections.put(new(), now=NOW))
    async with asyncio.timeout(PATIENCE_S):
        await request_arrived.wait()
        await this_node.tasks.hold("any", owner="o", now=NOW, ttl=timedelta(seconds=5))
    assert not this_node.data_keys._allow_lock.locked(), "writes that need no new data key do not wait either"
    assert not waiting.done()
    await this_node.use_keyring(Keyring([OTHER, KEY]))
    this_node.missing_keys.reload_finished()
    assert (await waiting)[1]


async def test_unusable_data_key_is_logged_once_a_minute(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    this_node, other_node = await open_test_store(KEY), await open_test_store(OTHER, KEY)
    await other_node.rotation.rotate(lambda _done, _all: None)
    await other_node.connections.put(new(), now=NOW)
    this_node.missing_keys.start_reload = lambda _ids: this_node.missing_keys.reload_finished()
    with structlog.testing.capture_logs() as logs:
        for minute in (0, 1):
            monkeypatch.setattr(clock, "monotonic", lambda passed_s=61.0 * minute: 1000.0 + passed_s)
            for _ in range(10):
                await this_node.connections.get(REF)
    result = [entry["detail"] for entry in logs if entry["event"] == "data_key_unusable"]
    assert sorted(Counter(result).values()) == [2, 2], "one report per environment's key and minute"


async def test_reload_is_requested_with_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    now, reload_requests = 1000.0, list[float]()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    missing = MissingKeys()
    assert not await missing.request_reload({"a"}), "there is no process that could reload"

    def ask(_ids: object) -> None:
        reload_requests.append(now)
        missing.reload_finished()

    missing.start_reload = ask
    assert await missing.request_reload({"a"})
    assert not await missing.request_reload({"a"})
    assert await missing.request_reload({"a", "b"})
    for _ in range(300):
        now += 1
        await missing.request_reload({"a"})
    assert reload_requests[:5] == [1000, 1000, 1000 + FIRST_PAUSE_S, 1000 + 3 * FIRST_PAUSE_S, 1000 + 7 * FIRST_PAUSE_S]
    assert len(reload_requests) < 12


async def test_concurrent_requests_share_one_reload() -> None:
    missing, reload_requests = MissingKeys(), list[None]()
    missing.start_reload = lambda _ids: reload_requests.append(None)
    waiting = [asyncio.create_task(missing.request_reload({name})) for name in ("a", "a", "b")]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    missing.reload_finished()
    assert await asyncio.gather(*waiting) == [True, True, True]
    assert len(reload_requests) == 1


async def test_late_reload_serves_requests_that_still_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.data_keys.RESPONSE_S", 0.05)
    missing, reload_requests = MissingKeys(), list[None]()
    missing.start_reload = lambda _ids: reload_requests.append(None)
    first = asyncio.create_task(missing.request_reload({"a"}))
    await asyncio.sleep(0)
    monkeypatch.setattr("gateway.store.data_keys.RESPONSE_S", PATIENCE_S)
    second = asyncio.create_task(missing.request_reload({"a"}))
    await asyncio.sleep(0)
    assert not await first
    assert not await missing.request_reload({"a"}), "further requests do not wait"
    third = asyncio.create_task(missing.request_reload({"b"}))  # this request starts another reload
    await asyncio.sleep(0)
    missing.reload_finished()
    assert await asyncio.gather(second, third) == [True, True]
    assert len(reload_requests) == 2


async def test_wait_for_a_reload_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.data_keys.RESPONSE_S", 0.05)
    missing = MissingKeys()
    missing.start_reload = lambda _ids: None
    assert not await missing.request_reload({"a"})
    assert not await missing.request_reload({"a"})
