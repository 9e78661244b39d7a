"""The outbox and its deliveries, on both databases.

An event is stored in one transaction with its change. Deliveries are leased, and keep the order of the events.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.records.connection import Lifespan, RefreshFailure
from gateway.records.event import Delivery, DeliveryOutcome, DeliveryState
from gateway.records.integration import Integration
from gateway.secret import Secret
from gateway.store import EventFilter, Store, received_webhooks
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new

QUEUE = ("dev", "primary")
TTL = timedelta(seconds=60)
TAKEN = DeliveryOutcome(DeliveryState.DELIVERED, 200)

ROOM = {"max_waiting": 100, "max_waiting_bytes": 1 << 20}


@pytest.fixture
async def store_with_target(open_test_store: StoreOpener) -> Store:
    """Yield a store with one webhook URL in environment `dev`."""
    store = await open_test_store()
    store.outbox.targets_of = targets
    return store


def targets(environment: str) -> tuple[str, ...]:
    return ("primary",) if environment == "dev" else ()


async def claim_deliveries(store: Store, owner: str = "n1", after_s: float = 0, limit: int = 10) -> list[Delivery]:
    now = NOW + timedelta(seconds=after_s)
    return await store.deliveries.claim(QUEUE, owner=owner, now=now, ttl=TTL, limit=limit)


async def list_deliveries(store: Store, **what: Any) -> list[Delivery]:
    return (await store.event_log.list(EventFilter(environment="dev", **what)))[::-1]


def failed_outcome(after_s: float) -> DeliveryOutcome:
    return DeliveryOutcome(DeliveryState.PENDING, 500, "no", NOW + timedelta(seconds=after_s))


async def test_rolled_back_change_sends_no_event(store_with_target: Store, monkeypatch: Any) -> None:
    async def raise_unavailable(*_: Any) -> None:
        raise RuntimeError("the last write of the transaction")

    with monkeypatch.context() as patch:
        patch.setattr("gateway.store.connection_store.record_change", raise_unavailable)
        with pytest.raises(RuntimeError):
            await store_with_target.connections.put(new(), now=NOW)
    assert await list_deliveries(store_with_target) == []
    await store_with_target.connections.put(new(), now=NOW)
    assert [row.event for row in await list_deliveries(store_with_target)] == ["connection.created"]


async def test_each_change_of_the_state_is_reported_once(store_with_target: Store) -> None:
    await store_with_target.connections.put(new(), now=NOW)
    for code, final in (("timeout", False), ("timeout", False), ("invalid_grant", True), ("token_revoked", True)):
        row = await store_with_target.connections.get(REF)
        assert row is not None
        assert await store_with_target.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
        failure = RefreshFailure(code, "words", final, NOW, 1)
        assert await store_with_target.refreshes.record_failure(REF, owner="a", version=row.version, failure=failure)
    await store_with_target.connections.delete(REF, now=NOW)
    words = ("created", "degraded", "needs_reauth", "deleted")
    assert [item.event for item in await list_deliveries(store_with_target)] == [f"connection.{word}" for word in words]


async def test_claimed_delivery_is_leased(open_test_store: StoreOpener) -> None:
    first, second = await open_test_store(), await open_test_store()
    first.outbox.targets_of = targets
    for n in range(20):
        await first.connections.put(new(REF._replace(connection_id=f"c{n}")), now=NOW)
    both = await asyncio.gather(
        *(claim_deliveries(store, f"n{n % 2}", limit=4) for n, store in enumerate([first, second] * 3))
    )
    ids = [item.id for some in both for item in some]
    assert len(ids) == len(set(ids)) == 20
    assert await claim_deliveries(second) == []
    work = await second.deliveries.find_due(NOW)
    assert (list(work.queues), work.next_at) == ([], NOW + TTL)
    again = await claim_deliveries(second, "n2", after_s=61, limit=100)
    assert len(again) == 20
    assert not await first.deliveries.settle(again[0], TAKEN, owner="n0", now=NOW), "another node has the lease by now"
    assert await second.deliveries.settle(again[0], TAKEN, owner="n2", now=NOW)
    await second.deliveries.release("n2")
    assert len(await claim_deliveries(first, after_s=61, limit=100)) == 19


async def test_only_the_first_delivery_of_a_connection_can_be_claimed(store_with_target: Store) -> None:
    for _ in range(3):
        await store_with_target.connections.put(new(), now=NOW)
    await store_with_target.connections.put(new(REF._replace(connection_id="u2")), now=NOW)
    first, other = await claim_deliveries(store_with_target)
    assert (first.connection_id, other.connection_id) == ("u1", "u2")
    assert await store_with_target.deliveries.settle(other, TAKEN, owner="n1", now=NOW)
    assert await store_with_target.deliveries.settle(first, failed_outcome(30), owner="n1", now=NOW)
    assert {row.due_at for row in await list_deliveries(store_with_target, connection_id="u1")} == {
        NOW + timedelta(seconds=30)
    }
    work = await store_with_target.deliveries.find_due(NOW)
    assert (list(work.queues), work.next_at) == ([], NOW + timedelta(seconds=30))
    (again,) = await claim_deliveries(store_with_target, after_s=30)
    assert (again.id, again.attempts, again.message_id) == (first.id, 1, first.message_id)
    assert await store_with_target.deliveries.settle(again, TAKEN, owner="n1", now=NOW + timedelta(seconds=31))
    for _ in range(2):
        (following,) = await claim_deliveries(store_with_target, after_s=31)
        assert following.event == "connection.reconnected"
        dead = DeliveryOutcome(DeliveryState.DEAD, 410, "gone")
        assert await store_with_target.deliveries.settle(following, dead, owner="n1", now=NOW + timedelta(seconds=31))
    assert await store_with_target.deliveries.backlog() == []


async def test_postponed_deliveries_become_due_now(store_with_target: Store) -> None:
    await store_with_target.connections.put(new(), now=NOW)
    (delivery,) = await claim_deliveries(store_with_target)
    await store_with_target.deliveries.settle(delivery, failed_outcome(900), owner="n1", now=NOW)
    await store_with_target.deliveries.make_due_now(QUEUE, NOW)
    assert len(await claim_deliveries(store_with_target)) == 1


async def test_events_after_a_replayed_one_are_sent_right_after_it(store_with_target: Store) -> None:
    for _ in range(2):
        await store_with_target.connections.put(new(), now=NOW)
    (first,) = await claim_deliveries(store_with_target)
    await store_with_target.deliveries.settle(first, failed_outcome(900), owner="n1", now=NOW)
    now = NOW + timedelta(seconds=1)
    assert (
        await store_with_target.event_log.replay(EventFilter(environment="dev", message_ids=[first.message_id]), now)
        == 1
    )
    (again,) = await claim_deliveries(store_with_target, after_s=1)
    assert await store_with_target.deliveries.settle(again, TAKEN, owner="n1", now=now)
    (following,) = await claim_deliveries(store_with_target, after_s=1)
    assert following.event == "connection.reconnected"


async def test_an_event_can_be_sent_again_under_its_id(store_with_target: Store) -> None:
    for name in ("u1", "u2"):
        await store_with_target.connections.put(new(REF._replace(connection_id=name)), now=NOW)
    for item, came in zip(
        await claim_deliveries(store_with_target), (TAKEN, DeliveryOutcome(DeliveryState.DEAD, 410)), strict=True
    ):
        await store_with_target.deliveries.settle(item, came, owner="n1", now=NOW)
    delivered, dead = await list_deliveries(store_with_target)
    before = await store_with_target.changes.log_end()
    later = NOW + timedelta(days=2)
    log = store_with_target.event_log
    assert await log.replay(EventFilter(environment="dev", state=DeliveryState.DEAD), later) == 1
    assert (await store_with_target.changes.log_end()).last_id > before.last_id, (
        "the change log makes running gateways look for due events"
    )
    (again,) = await claim_deliveries(store_with_target, after_s=172_800)
    assert (again.message_id, again.attempts, again.state) == (dead.message_id, 0, DeliveryState.PENDING)
    assert again.give_up_at == later + timedelta(days=1)
    assert await log.replay(EventFilter(environment="dev", message_ids=[again.message_id]), later) == 0, (
        "the event is being sent"
    )
    assert await log.replay(EventFilter(environment="dev", message_ids=[delivered.message_id]), later) == 1
    assert await log.replay(EventFilter(environment="dev", since=later), later) == 0
    assert await log.replay(EventFilter(environment="prod"), later) == 0


async def test_expiry_that_no_refresh_prevents_is_reported_once_14_and_once_3_days_before(
    store_with_target: Store,
) -> None:
    ends = NOW + timedelta(days=20)
    await store_with_target.connections.put(new(life=Lifespan(ends, None)), now=NOW)
    kept = new(REF._replace(connection_id="kept"), life=Lifespan(ends, NOW + timedelta(days=9)))
    await store_with_target.connections.put(kept, now=NOW)

    async def expiring_events(after_days: float) -> int:
        now = NOW + timedelta(days=after_days)
        return sum([await store_with_target.expiring.report("dev", days, now=now, limit=10) for days in (3, 14)])

    assert [await expiring_events(days) for days in (0, 5, 7, 7, 16, 17.5, 17.5, 19, 21)] == [0, 0, 1, 0, 0, 1, 0, 0, 0]
    expiring = [row for row in await list_deliveries(store_with_target) if row.event == "connection.expiring"]
    assert [item.connection_id for item in expiring] == ["u1", "u1"]
    content = await store_with_target.deliveries.content(expiring[0])
    assert content.facts["dies_at"] == ends.isoformat(timespec="milliseconds")
    await store_with_target.connections.put(new(life=Lifespan(ends, None)), now=NOW)
    assert await expiring_events(10) == 1, "after a new authorization, the event is sent again"


async def test_webhook_is_accepted_once_and_queued_for_the_connections_of_its_site(store_with_target: Store) -> None:
    site = {"baseUrl": "https://Acme.example/"}
    await store_with_target.connections.put(new(config=site), now=NOW)
    await store_with_target.connections.put(
        new(REF._replace(connection_id="u2"), config={"baseUrl": "https://b.example"}), now=NOW
    )
    integration = Integration(environment="dev", integration_id="jira", provider="jira")
    received = {"headers": [["x-a", "b"]], "body": "e30="}
    origins = ["https://acme.example:443"]
    taken = [
        await store_with_target.webhooks.queue_webhook(
            integration, received, now=NOW, origins=origins, webhook_id="one", **ROOM
        )
        for _ in range(2)
    ]
    assert taken == [1, None]
    assert (
        await store_with_target.webhooks.queue_webhook(
            integration, received, now=NOW, origins=["https://c.example:443"], **ROOM
        )
        == 0
    )
    forwards = [row for row in await list_deliveries(store_with_target) if row.event == "forward"]
    assert [forward.connection_id for forward in forwards] == ["u1", None]
    assert (await store_with_target.deliveries.content(forwards[0])).received == received
    await store_with_target.event_log.prune(NOW + timedelta(days=8))
    assert (
        await store_with_target.webhooks.queue_webhook(
            integration, received, now=NOW, origins=origins, webhook_id="one", **ROOM
        )
        == 1
    )


async def test_connections_above_the_limit_of_a_webhook_are_named_in_the_log(
    store_with_target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received_webhooks, "MAX_CONNECTIONS", 2)
    integration = Integration(environment="dev", integration_id="jira", provider="jira")
    origins = ["https://acme.example:443"]
    for number in range(2, 6):
        name = f"u{number - 1}"
        await store_with_target.connections.put(
            new(REF._replace(connection_id=name), config={"baseUrl": "https://acme.example"}), now=NOW
        )
        with capture_logs() as logged:
            await store_with_target.webhooks.queue_webhook(
                integration, {"body": "e30="}, now=NOW, origins=origins, **ROOM
            )
        skipped = [line["skipped"] for line in logged if line["event"] == "webhook_connections_skipped"]
        assert skipped == ([number - 3] if number > 3 else [])
    forwards = [row.connection_id for row in await list_deliveries(store_with_target) if row.event == "forward"]
    assert (forwards.count("u1"), forwards.count("u2"), forwards.count("u3")) == (4, 3, 0)


async def test_signing_key_is_created_once_and_rotated_with_an_overlap(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store() for _ in range(2)]
    minted = iter(range(100))

    def mint() -> Secret:
        return Secret(f"whsec_{next(minted)}")

    made = await asyncio.gather(*(store.signing_keys.ensure("dev", mint, now=NOW) for store in stores * 2))
    assert len({keys[0].key for keys in made}) == 1
    former, keys = made[0][0].key, stores[0].signing_keys
    for step, name in enumerate(("second", "third")):
        now = NOW + timedelta(hours=step)
        await keys.rotate("dev", Secret(name), now=now, retires_at=now + timedelta(days=1))
    both = await stores[1].signing_keys.active_keys("dev", now=NOW + timedelta(hours=2))
    assert [item.key.reveal() for item in both] == ["third", "second"]
    alone = await stores[1].signing_keys.active_keys("dev", now=NOW + timedelta(hours=26))
    assert [item.key.reveal() for item in alone] == ["third"]
    assert former not in [item.key for item in both]
    assert await keys.active_keys("prod", now=NOW) == []
