"""Event deliveries in bad conditions: each event arrives in order, at least once, and a bad target does not delay
others."""

import asyncio
import hashlib
import hmac
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from gateway import clock
from gateway.egress import dial
from gateway.events import delivery
from gateway.records.event import DeliveryState
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import raw_provider
from tests.fakes.receiver import Receiver
from tests.fakes.tracker import Tracker
from tests.gateway.events.conftest import OUTAGE, deliver_due_events, deliveries_of, refresh_now, wait_for_attempts


def failure_response(status: int = 503, **headers: str) -> Any:
    return lambda _path, _body: web.Response(status=status, headers=headers)


def accept(_path: str, _body: bytes) -> web.Response:
    return web.Response(status=200)


async def test_recovered_receiver_gets_each_event_once_in_order_with_a_valid_signature(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    receiver.response = failure_response()
    for name in ("c1", "c2"):
        await event_gateway.import_connection(tracker.grant(), name)
    for outage in (OUTAGE, None, OUTAGE, None):
        tracker.response = outage
        await refresh_now(event_gateway, "c1")
    await event_gateway.json("DELETE", "/connections/c2?provider_config_key=tracker", expect=200)
    for _ in range(6):  # the receiver stays down for an hour
        advance_clock(600)
        await deliver_due_events(event_gateway)
    assert receiver.taken == []
    receiver.response = accept
    advance_clock(1100)
    event_gateway.runtime.deliverer.wake()
    got = await receiver.wait_until_taken(7)
    await deliver_due_events(event_gateway)
    by_name = {name: [event for entry, event in receiver.events() if entry == name] for name in ("c1", "c2")}
    flaps = ["connection.degraded", "connection.recovered"] * 2
    assert by_name == {"c1": ["connection.created", *flaps], "c2": ["connection.created", "connection.deleted"]}
    (key,) = await event_gateway.runtime.store.signing_keys.active_keys("dev", now=clock.now())
    library, shown = Webhook(key.key.reveal()), key.key.reveal().encode()
    moved_s = clock.now().timestamp() - int(got[-1].headers["webhook-timestamp"])
    assert abs(moved_s) < 300
    for item in got:
        assert item.headers["X-Nango-Hmac-Sha256"] == hmac.new(shown, item.body, hashlib.sha256).hexdigest()
        verify_as_received(library, item)
    assert len({entry.headers["webhook-id"] for entry in got}) == 7
    assert {entry.state for entry in await deliveries_of(event_gateway)} == {DeliveryState.DELIVERED}


def verify_as_received(library: Webhook, item: Any) -> None:
    """Verify with the published library. It uses the real clock, so the test sets the library's clock to the sending
    time."""
    from datetime import UTC, datetime

    import standardwebhooks.webhooks as module

    sent_at = datetime.fromtimestamp(int(item.headers["webhook-timestamp"]), tz=UTC)

    class FixedClock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return sent_at

    kept, module.datetime = module.datetime, FixedClock  # type: ignore[attr-defined]
    try:
        library.verify(item.body, dict(item.headers))
    finally:
        module.datetime = kept  # type: ignore[attr-defined]


async def test_events_of_one_connection_are_delivered_in_order_and_others_do_not_wait(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    receiver.response = lambda _path, body: web.Response(status=500 if b'"c1"' in body else 200)
    await event_gateway.import_connection(tracker.grant(), "c1")
    await wait_for_attempts(event_gateway, 1)
    await event_gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    await event_gateway.import_connection(tracker.grant(), "c2")
    await receiver.wait_until_taken(1)
    advance_clock(20)
    await deliver_due_events(event_gateway)
    assert receiver.events() == [("c2", "connection.created")]
    assert {item.event["event"] for item in receiver.got if item.event["connectionId"] == "c1"} == {
        "connection.created"
    }
    receiver.response = accept
    advance_clock(120)
    event_gateway.runtime.deliverer.wake()
    await receiver.wait_until_taken(3)
    assert receiver.events()[1:] == [("c1", "connection.created"), ("c1", "connection.deleted")]


async def test_hanging_target_does_not_delay_others(
    settings: dict[str, Any], tracker: Tracker, receiver: Receiver, tmp_path: Path
) -> None:
    stuck = Receiver()
    server = await stuck.serve()
    stuck.hold.clear()
    settings["egress"]["allow"].append(f"127.0.0.1/32:{stuck.port}")
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    for n in range(2 * delivery.MAX_PER_TARGET):
        await gateway.import_connection(tracker.grant(), f"c{n}", webhook_url_override=stuck.url)
    await gateway.import_connection(tracker.grant(), "quick")
    await receiver.wait_until_taken(1)
    assert receiver.events() == [("quick", "connection.created")]
    await stuck.wait_until(lambda: stuck.held >= delivery.MAX_PER_TARGET)
    assert stuck.held == delivery.MAX_PER_TARGET
    stuck.hold.set()
    await stuck.wait_until_taken(2 * delivery.MAX_PER_TARGET)
    await gateway.stop()
    await server.close()


async def test_many_hanging_targets_do_not_delay_a_target_that_responds(
    settings: dict[str, Any], tracker: Tracker, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("MAX_PER_TARGET", 4), ("MAX_PARALLEL", 12), ("MAX_UNPROVEN", 8)):
        monkeypatch.setattr(delivery, name, most)
    stuck = Receiver()
    server = await stuck.serve()
    stuck.hold.clear()
    settings["egress"]["allow"].append(f"127.0.0.1/32:{stuck.port}")
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    await gateway.import_connection(tracker.grant(), "first")
    await receiver.wait_until_taken(1)
    for n in range(12):
        await gateway.import_connection(tracker.grant(), f"c{n}", webhook_url_override=f"{stuck.url}/{n // 4}")
    await stuck.wait_until(lambda: stuck.held == delivery.MAX_UNPROVEN)
    await gateway.import_connection(tracker.grant(), "second")
    await receiver.wait_until_taken(2)
    assert stuck.held == delivery.MAX_UNPROVEN
    stuck.hold.set()
    await stuck.wait_until_taken(12)
    await gateway.stop()
    await server.close()


async def test_after_a_slow_search_for_due_events_the_next_search_waits(
    event_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, advance_clock: Any
) -> None:
    deliveries, paused = event_gateway.runtime.store.deliveries, asyncio.Queue[float]()
    work = deliveries.find_due

    async def slow_work(now: Any) -> Any:
        advance_clock(1.5)
        return await work(now)

    async def sleep(seconds: float) -> None:
        await paused.put(seconds)

    monkeypatch.setattr(deliveries, "find_due", slow_work)
    monkeypatch.setattr(clock, "sleep", sleep)
    event_gateway.runtime.deliverer.wake()
    async with asyncio.timeout(PATIENCE_S):
        while (pause_s := await paused.get()) < 4.5:  # skip the pause of a search that began before the slow one
            pass
    assert pause_s <= delivery.ERROR_PAUSE_S


async def test_event_without_a_url_on_this_node_is_sent_by_a_node_that_has_it(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    """Nodes get a new gateway.yaml one after the other, so one can claim an event of which it does not know the URL."""
    receiver.response = failure_response()
    for name in ("c1", "c2"):
        await event_gateway.import_connection(tracker.grant(), name)
        await wait_for_attempts(event_gateway, 1)
    environments = event_gateway.runtime.current.generation.config.environments
    without = {"dev": replace(environments["dev"], webhook_url=None)}
    event_gateway.configure(environments=without)
    advance_clock(10)
    await deliver_due_events(event_gateway)
    found = await deliveries_of(event_gateway)
    assert {(item.state, item.detail) for item in found} == {
        (DeliveryState.PENDING, "environment 'dev' has no primary webhook_url")
    }
    event_gateway.configure(environments=environments)
    receiver.response = accept
    advance_clock(61)
    await deliver_due_events(event_gateway)
    assert len(receiver.taken) == 2


async def test_event_is_dead_an_hour_after_its_url_was_removed(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    receiver.response = failure_response()
    await event_gateway.import_connection(tracker.grant())
    await wait_for_attempts(event_gateway, 1)
    environments = event_gateway.runtime.current.generation.config.environments
    event_gateway.configure(environments={"dev": replace(environments["dev"], webhook_url=None)})
    advance_clock(3600)
    await deliver_due_events(event_gateway)
    (found,) = await deliveries_of(event_gateway)
    assert (found.state, found.detail) == (DeliveryState.DEAD, "environment 'dev' has no primary webhook_url any more")


async def test_event_is_dead_after_a_day_and_stays_stored(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    receiver.response = failure_response(500)
    await event_gateway.import_connection(tracker.grant())
    await wait_for_attempts(event_gateway, 1)
    for _ in range(27):
        advance_clock(3600)
        await deliver_due_events(event_gateway)
    (found,) = await deliveries_of(event_gateway)
    assert (found.state, found.status, found.due_at) == (DeliveryState.DEAD, 500, None)
    assert found.detail == "given up after a day: the receiver responded with 500"
    assert 20 <= found.attempts <= 26
    await event_gateway.runtime.store.prune(clock.now() + timedelta(days=28))
    assert len(await deliveries_of(event_gateway)) == 1
    await event_gateway.runtime.store.prune(clock.now() + timedelta(days=31))
    assert await deliveries_of(event_gateway) == []


async def test_receiver_that_returns_410_gets_no_more_events(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    receiver.response = failure_response(410)
    await event_gateway.import_connection(tracker.grant())
    found = await wait_for_attempts(event_gateway, 1)
    assert (found.state, found.attempts) == (DeliveryState.DEAD, 1)


async def test_retry_after_is_honored(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    receiver.response = failure_response(429, **{"Retry-After": "900"})
    await event_gateway.import_connection(tracker.grant())
    found = await wait_for_attempts(event_gateway, 1)
    assert found.due_at is not None
    assert 890 < (found.due_at - clock.now()).total_seconds() <= 900
    advance_clock(800)
    await deliver_due_events(event_gateway)
    assert len(receiver.got) == 1
    receiver.response = accept
    advance_clock(110)
    await deliver_due_events(event_gateway)
    assert len(receiver.taken) == 1


async def test_delivery_not_recorded_before_a_crash_is_repeated_with_the_same_id(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any, monkeypatch: Any
) -> None:
    died = asyncio.Event()

    async def kill_process(*_: Any, **__: Any) -> bool:
        died.set()
        return True

    with monkeypatch.context() as patch:
        patch.setattr(event_gateway.runtime.store.deliveries, "settle", kill_process)
        await event_gateway.import_connection(tracker.grant())
        await died.wait()
    assert len(receiver.taken) == 1
    await deliver_due_events(event_gateway)
    assert len(receiver.taken) == 1, "the lease of the dead process has not expired"
    advance_clock(delivery.LEASE.total_seconds() + 1)
    event_gateway.runtime.deliverer.wake()
    first, second = await receiver.wait_until_taken(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert (await wait_for_attempts(event_gateway, 1)).state is DeliveryState.DELIVERED


async def test_nodes_share_the_work_and_send_nothing_twice(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    receiver.hold.clear()
    other = RunningGateway(event_gateway.folder, {**event_gateway.document, "server": {}})
    await other.start()
    try:
        for n in range(30):
            await event_gateway.import_connection(tracker.grant(), f"c{n}")
        receiver.hold.set()
        await receiver.wait_until_taken(30)
        for node in (event_gateway, other):
            await deliver_due_events(node)
        assert sorted(name for name, _ in receiver.events()) == sorted(f"c{n}" for n in range(30))
    finally:
        await other.stop()


async def test_pending_deliveries_are_sent_after_a_restart(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, monkeypatch: Any
) -> None:
    monkeypatch.setattr(delivery.Deliverer.close, "__defaults__", (0.05,))
    receiver.hold.clear()
    await event_gateway.import_connection(tracker.grant())
    await receiver.wait_until(lambda: receiver.held)
    await event_gateway.stop()
    assert receiver.taken == []
    receiver.hold.set()
    await event_gateway.start()
    await receiver.wait_until_taken(1)
    assert receiver.events()[-1] == ("c1", "connection.created")


async def test_pending_deliveries_go_to_the_new_url_after_a_reload(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any, tmp_path: Path
) -> None:
    import gateway

    receiver.response = failure_response()
    await event_gateway.import_connection(tracker.grant())
    await wait_for_attempts(event_gateway, 1)
    changed = event_gateway.document | {"environments": {"dev": dict(event_gateway.document["environments"]["dev"])}}
    changed["environments"]["dev"]["webhook_url"] = f"{receiver.url}/moved"
    changed["catalog"] = [str(tmp_path / "catalog")]
    changed["store"] = event_gateway.document["store"] | {"url": f"sqlite:///{tmp_path}/gateway.db"}
    receiver.response = accept
    assert await gateway.reload(event_gateway.app, changed)
    advance_clock(10)
    event_gateway.runtime.deliverer.wake()
    (item,) = await receiver.wait_until_taken(1)
    assert item.path == "/moved"


async def test_forbidden_webhook_url_is_reported_as_the_cause(
    settings: dict[str, Any], tracker: Tracker, tmp_path: Path
) -> None:
    settings["environments"]["dev"]["webhook_url"] = "http://127.0.0.1:9/events"
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    await gateway.import_connection(tracker.grant())
    found = await wait_for_attempts(gateway, 1)
    await gateway.stop()
    assert found.state is DeliveryState.PENDING
    assert "egress.allow" in (found.detail or "")


async def test_leases_of_a_claim_that_commits_during_the_shutdown_are_released(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliveries, committed = event_gateway.runtime.store.deliveries, asyncio.Event()
    claim = deliveries.claim

    async def slow(*args: Any, **options: Any) -> Any:
        claimed = await claim(*args, **options)
        committed.set()
        await asyncio.sleep(0.2)
        return claimed

    monkeypatch.setattr(deliveries, "claim", slow)
    await event_gateway.import_connection(tracker.grant())
    await committed.wait()
    await event_gateway.stop()
    assert receiver.taken == []
    await event_gateway.start()
    within_s = delivery.LEASE.total_seconds() / 2  # before the lease would expire
    await receiver.wait_until(lambda: receiver.taken, within_s=within_s)


async def test_message_that_cannot_be_built_is_retried_and_given_up(
    event_gateway: RunningGateway,
    tracker: Tracker,
    receiver: Receiver,
    advance_clock: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("operation")

    monkeypatch.setattr(delivery, "build_message", fail)
    with structlog.testing.capture_logs() as logs:
        await event_gateway.import_connection(tracker.grant())
        first = await wait_for_attempts(event_gateway, 1)
    assert first.due_at is not None
    assert 0 < (first.due_at - clock.now()).total_seconds() <= 3
    assert (first.state, first.status, receiver.got) == (DeliveryState.PENDING, None, [])
    (logged,) = [line for line in logs if line["event"] == "event_not_built"]
    assert (logged["log_level"], logged["message"]) == ("error", first.message_id)
    advance_clock(25 * 3600)
    await deliver_due_events(event_gateway)
    (last,) = await deliveries_of(event_gateway)
    assert last.state is DeliveryState.DEAD
    assert (
        last.detail == "given up after a day: the message could not be built: KeyError; see event_not_built in the log"
    )


async def test_message_whose_sending_fails_unexpectedly_is_retried_and_given_up(
    event_gateway: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise OSError("as if the system failed")

    monkeypatch.setattr(delivery, "_post", fail)
    with structlog.testing.capture_logs() as logs:
        await event_gateway.import_connection(tracker.grant())
        first = await wait_for_attempts(event_gateway, 1)
    assert first.due_at is not None
    assert (first.state, first.status) == (DeliveryState.PENDING, None)
    (logged,) = [line for line in logs if line["event"] == "event_not_sent"]
    assert (logged["log_level"], logged["message"]) == ("error", first.message_id)
    advance_clock(25 * 3600)
    await deliver_due_events(event_gateway)
    (last,) = await deliveries_of(event_gateway)
    assert last.state is DeliveryState.DEAD
    assert last.detail == "given up after a day: the message could not be sent: OSError; see event_not_sent in the log"


async def test_event_reaches_a_host_with_an_underscore(
    settings: dict[str, Any], tracker: Tracker, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "_look_up", lambda host, _port: {"my_app": ["127.0.0.1"]}[host])
    settings["environments"]["dev"]["webhook_url"] = f"http://my_app:{receiver.port}/events"
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    await gateway.import_connection(tracker.grant())
    found = await wait_for_attempts(gateway, 1)
    await gateway.stop()
    assert (found.state, found.detail) == (DeliveryState.DELIVERED, None)
    assert receiver.taken[0].headers["Host"] == f"my_app:{receiver.port}"


@pytest.mark.parametrize(
    ("status", "head_bytes", "state"),
    [
        (200, 60_000, DeliveryState.DELIVERED),
        (200, 70_000, DeliveryState.DELIVERED),
        (503, 70_000, DeliveryState.PENDING),
    ],
)
async def test_status_counts_also_if_the_head_is_too_large_to_be_read(
    settings: dict[str, Any], tracker: Tracker, tmp_path: Path, status: int, head_bytes: int, state: DeliveryState
) -> None:
    fields = b"".join(b"X-%d: %b\r\n" % (n, b"x" * 7000) for n in range(head_bytes // 7000))
    first = b"HTTP/1.1 %d \r\nContent-Length: 0\r\n" % status
    async with raw_provider(first + fields + b"\r\n") as target:
        settings["environments"]["dev"]["webhook_url"] = f"{target.origin}/events"
        settings["egress"]["allow"].append(f"127.0.0.1/32:{target.port}")
        gateway = RunningGateway(tmp_path, settings)
        await gateway.start()
        await gateway.import_connection(tracker.grant())
        found = await wait_for_attempts(gateway, 1)
        await gateway.stop()
    assert (found.state, found.status) == (state, status), found.detail


def test_retry_after_of_zero_does_not_replace_the_pause_of_a_failing_target() -> None:
    """A Retry-After of 0, or a date in the past, does not replace the pause of a failing target."""
    pace = delivery.TargetPace()
    for _ in range(delivery.FAILURES_UNTIL_DOWN):
        pace.record(delivery.ReceiverResponse(503, wait_s=0.0), 100.0)
    assert pace.free_slots(100.0) == 0
    assert pace.free_slots(100.0 + delivery.PROBE_S) == 1
