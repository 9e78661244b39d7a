"""When many tokens expire together, refreshes with a waiting request start immediately. Other refreshes are limited in
number.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.errors import Unavailable
from gateway.records.connection import Connection, ConnectionRef, Sealed
from gateway.refresh.protocol import RefreshProtocol
from gateway.refresh.refresher import Refresher, RefreshQueue, pause_s


def ref(number: int, integration: str = "tracker") -> ConnectionRef:
    return ConnectionRef("dev", integration, f"c{number}")


def connection() -> Connection:
    now, sealed = datetime.now(UTC), Sealed(b"", "dev", "connections", "u", "credential", 1)
    return Connection(
        ref=ref(1),
        id=1,
        uid="u",
        provider="tracker",
        version=1,
        credential=sealed,
        expires_at=None,
        created_at=now,
        updated_at=now,
    )


class Crowd:
    """Counts running refreshes. `most`: the maximum number at the same time. `order`: the order in which the refreshes
    started.
    """

    def __init__(self, queue: RefreshQueue) -> None:
        self.queue = queue
        self.now = self.most = 0
        self.order: list[ConnectionRef] = []
        self.go = asyncio.Event()

    async def renew(self, first_ref: ConnectionRef, *, urgent: bool = False) -> None:
        await self.queue.acquire(first_ref, urgent=urgent)
        self.order.append(first_ref)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        await self.go.wait()
        self.now -= 1
        self.queue.release(first_ref)

    def start(self, numbers: range, *, urgent: bool = False) -> "list[asyncio.Task[None]]":
        return [asyncio.create_task(self.renew(ref(number), urgent=urgent)) for number in numbers]


async def let_tasks_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_few_background_refreshes_run_at_the_same_time() -> None:
    crowd = Crowd(RefreshQueue(background=4, pace_s=0))
    crowd.go.set()
    await asyncio.gather(*crowd.start(range(10_000)))
    assert (crowd.most, len(crowd.order)) == (4, 10_000)


async def test_urgent_refresh_starts_before_background_refreshes() -> None:
    crowd = Crowd(RefreshQueue(background=2, urgent=8, pace_s=0))
    crowd.start(range(100))
    await let_tasks_run()
    waiting = asyncio.create_task(crowd.renew(ref(1000), urgent=True))
    await let_tasks_run()
    assert crowd.order == [ref(0), ref(1), ref(1000)]
    crowd.queue.prioritize(ref(77))  # a queued refresh starts immediately too, as soon as a request waits for it
    await let_tasks_run()
    assert crowd.order[-1] == ref(77)
    crowd.go.set()
    await waiting


async def test_background_refreshes_are_spaced_out() -> None:
    crowd = Crowd(RefreshQueue(background=100, pace_s=0.02))
    crowd.go.set()
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*crowd.start(range(6)))
    assert asyncio.get_running_loop().time() - began >= 5 * 0.02 * 0.9


@pytest.mark.parametrize(
    ("waiting", "left_s", "expected_s"),
    [
        (1, 3600.0, 0.1),
        (600, 240.0, 0.1),
        (2400, 240.0, 0.05),
        (10_000, 240.0, 0.024),
        (10_000, -1.0, 0.1),
    ],
    ids=["one", "in time", "twice as many", "as fast as may be", "too late"],
)
def test_pause_is_shorter_if_tokens_would_expire_in_the_queue(waiting: int, left_s: float, expected_s: float) -> None:
    assert pause_s(waiting, left_s, 0.1) == pytest.approx(expected_s)


async def test_slow_provider_delays_only_its_own_refreshes() -> None:
    queue = RefreshQueue(urgent=2, pace_s=0)
    for number in range(2):
        await queue.acquire(ref(number), urgent=True)
    third = asyncio.create_task(queue.acquire(ref(3), urgent=True))
    await queue.acquire(ref(1, "other"), urgent=True)
    assert not third.done()
    queue.release(ref(0))
    await third


async def test_stop_cancels_queued_refreshes() -> None:
    crowd = Crowd(RefreshQueue(background=1, pace_s=0))
    tasks = crowd.start(range(3))
    await let_tasks_run()
    crowd.queue.close()
    crowd.go.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), asyncio.CancelledError, asyncio.CancelledError]
    with pytest.raises(asyncio.CancelledError):
        await crowd.queue.acquire(ref(7), urgent=False)
    # a request waits for this refresh, and the drain waits for the request
    await crowd.queue.acquire(ref(8), urgent=True)


async def test_call_that_joins_a_refresh_before_it_is_queued_makes_it_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    acquired = list[bool]()

    async def acquire(_queue: RefreshQueue, _ref: ConnectionRef, *, urgent: bool, ends_at: float) -> None:
        acquired.append(urgent)

    async def refresh(_protocol: RefreshProtocol, seen: Connection, *, force: bool) -> Connection:
        return seen

    monkeypatch.setattr(RefreshQueue, "acquire", acquire)
    monkeypatch.setattr(RefreshProtocol, "refresh", refresh)
    unused: Any = None
    refresher, row = Refresher(unused, unused, unused, unused), connection()
    refresher.start(row)
    assert await refresher.refresh(row) is row
    assert acquired == [True]


async def test_a_forced_refresh_that_joins_another_is_tried_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other refresh was not forced, so an earlier failure can have refused it without a call."""
    forced = list[bool]()

    async def refresh(_protocol: RefreshProtocol, seen: Connection, *, force: bool) -> Connection:
        forced.append(force)
        await asyncio.sleep(0)
        if not force:
            raise Unavailable("token_endpoint_unavailable", "Later.")
        return seen

    monkeypatch.setattr(RefreshProtocol, "refresh", refresh)
    unused: Any = None
    refresher, row = Refresher(unused, unused, unused, unused), connection()
    joined = refresher.start(row)
    assert await refresher.refresh(row, force=True) is row
    assert isinstance(joined.exception(), Unavailable)
    with pytest.raises(Unavailable):
        await refresher.refresh(row)
    assert forced == [False, True, False]


@pytest.mark.parametrize("urgent", [True, False])
async def test_empty_queue_of_a_provider_is_dropped(urgent: bool) -> None:
    queue = RefreshQueue(pace_s=0)
    await queue.acquire(ref(1), urgent=urgent)
    queue.release(ref(1))
    assert queue.idle
