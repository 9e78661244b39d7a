"""Every part of the runtime survives a reload with its work. The tests find the parts by walking the runtime.

A new field of `Runtime` fails here until it is classified: by a test of its work (SURVIVES), or as an object without
own state (HOLDS_NOTHING).
"""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from types import FunctionType, MethodType
from typing import Any, Final
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
import structlog
import yaml
from aiohttp.test_utils import make_mocked_request

from gateway import clock
from gateway.access.client_window import MAX_INVALID_KEYS, MAX_LINES
from gateway.app.reload import reload
from gateway.connections.delete import Revoker
from gateway.egress.egress_errors import CallNotAttempted
from gateway.egress.limits import FAILURES_TO_OPEN, ConcurrencySettings
from gateway.events.webhook_keys import FetchedKeys
from gateway.generation import CurrentGeneration, Generation
from gateway.middleware.response_shape import REQUEST_ID_FIELD
from gateway.observe.metrics_text import total
from gateway.records.connecting import Outcome
from gateway.records.connection import ConnectionRef
from gateway.records.event import DeliveryState
from gateway.records.operation import OperationFilter
from gateway.refresh.auth_exchange import AuthDialogueRunner
from gateway.runtime import RUNTIME, Runtime, generation_of
from tests.fakes.collector import collecting
from tests.fakes.gateways import RunningGateway
from tests.fakes.held_calls import hold_after
from tests.fakes.patience import PATIENCE_S
from tests.fakes.receiver import Receiver
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_completion import WITH_CHALLENGE, complete, declare_key_integration
from tests.gateway.api.test_connect_endpoints import create_session
from tests.gateway.api.test_credential_forms import walk_flow
from tests.gateway.api.test_integrations import create_integration
from tests.gateway.connections.conftest import advance_clock
from tests.gateway.events.conftest import deliver_due_events, deliveries_of, event_gateway, receiver, settings

__all__ = ["advance_clock", "event_gateway", "receiver", "settings"]

C1: Final = ConnectionRef("dev", "tracker", "c1")
KEYS: Final = "/environment/api-keys"


async def reload_gateway(running: RunningGateway) -> tuple[Generation, Generation]:
    """Reload with another value of every setting that parts of the runtime read. Return the generation before and
    after."""
    document, before = running.document, running.runtime.generation
    limits = before.config.egress.limits
    document["egress"]["timeouts"] = {"connect_s": before.config.egress.timeouts.connect_s + 1}
    document["egress"]["limits"] = {"outstanding": limits.outstanding + 1, "waiting": limits.waiting + 1}
    document["live"] = {"ttl_s": before.config.live.ttl_s + 1}
    document.setdefault("environments", {})["another"] = {}
    (running.folder / "gateway.yaml").write_text(yaml.safe_dump(document))
    assert await reload(running.app, running.folder / "gateway.yaml")
    after = running.runtime.generation
    assert after is not before
    assert after.egress is not before.egress
    return before, after


async def wait_until(found: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not found():
            await asyncio.sleep(0)


async def status(running: RunningGateway, **options: Any) -> int:
    async with running.call_proxy("c1", **options) as response:
        await response.read()
        code: int = response.status
        return code


# ── For each part, one test that its work survives.


async def test_running_refresh_ends_once_and_is_stored_despite_a_reload(
    event_gateway: RunningGateway, tracker: Tracker
) -> None:
    tracker.ttl_s = 0.001
    await event_gateway.import_connection(tracker.grant())
    tracker.ttl_s = 3600
    tracker.hold.clear()
    call = asyncio.create_task(status(event_gateway))
    await wait_until(lambda: tracker.calls["refresh_token"])
    runtime = event_gateway.runtime
    journals = runtime.journals
    before, _ = await reload_gateway(event_gateway)
    assert runtime.refresher.is_refreshing(C1)
    assert event_gateway.runtime.journals is journals
    assert list(runtime.retired) == [before.egress], "the token exchange of the former egress is in flight"
    tracker.hold.set()
    assert await call == 200
    assert tracker.calls["refresh_token"] == 1
    row = await runtime.store.connections.get(C1)
    assert row is not None
    assert (row.version, row.lease, row.intent) == (2, None, None)
    await wait_until(lambda: not list(runtime.retired))


async def test_a_queued_refresh_keeps_its_place_at_a_reload(event_gateway: RunningGateway, tracker: Tracker) -> None:
    await event_gateway.import_connection(tracker.grant())
    runtime, row = event_gateway.runtime, await event_gateway.runtime.store.connections.get(C1)
    assert row is not None
    queue = runtime.refresher._queue
    queue._next_background_at = clock.monotonic() + 3600  # nobody waits for the refresh, so it stays in the queue
    task = runtime.refresher.start(row)
    await asyncio.sleep(0)
    await reload_gateway(event_gateway)
    assert not task.done()
    assert runtime.refresher.start(row, urgent=True) is task
    assert (await asyncio.wait_for(task, PATIENCE_S)).version == 2


async def test_cached_connection_stays_in_memory_at_a_reload(event_gateway: RunningGateway, tracker: Tracker) -> None:
    await event_gateway.import_connection(tracker.grant())
    assert await status(event_gateway) == 200
    live = event_gateway.runtime.live
    opened, origins = live.peek(C1), dict(live.provider_at)
    assert opened is not None
    await reload_gateway(event_gateway)
    assert live.peek(C1) is opened
    assert live.provider_at == origins


async def test_change_by_another_process_is_noticed_after_a_reload(
    event_gateway: RunningGateway, tracker: Tracker
) -> None:
    await event_gateway.import_connection(tracker.grant())
    assert await status(event_gateway) == 200
    await reload_gateway(event_gateway)
    await event_gateway.runtime.store.connections.delete(
        C1, now=clock.now()
    )  # without the cache, as another process does
    await wait_until(lambda: event_gateway.runtime.live.entry_count == 0)


async def test_waiting_browser_window_gets_its_result_after_a_reload(event_gateway: RunningGateway) -> None:
    outcomes = event_gateway.runtime.outcomes
    with outcomes.waiter("window") as window, outcomes.count_socket("192.0.2.1", limit=1):
        await reload_gateway(event_gateway)
        assert outcomes.is_full(1)
        outcome = Outcome(
            environment="dev", session_digest="s", integration_id="tracker", client_digest="window", at=clock.now()
        )
        await outcomes.publish(outcome)
        assert await asyncio.wait_for(window.outcome, PATIENCE_S) == outcome


async def test_retried_and_running_deliveries_arrive_once_despite_a_reload(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    receiver.hold.clear()
    await event_gateway.import_connection(tracker.grant())
    await wait_until(lambda: receiver.held)
    await reload_gateway(event_gateway)
    receiver.hold.set()
    await receiver.wait_until_taken(1)
    from aiohttp import web

    receiver.response = lambda _path, _body: web.Response(status=503)
    await event_gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    await deliver_due_events(event_gateway)
    pending = (await deliveries_of(event_gateway))[-1]
    assert (pending.state, pending.attempts >= 1) == (DeliveryState.PENDING, True)
    await reload_gateway(event_gateway)
    receiver.response = lambda _path, _body: web.Response(status=200)
    advance_clock(600)
    event_gateway.runtime.deliverer.wake()
    await receiver.wait_until_taken(2)
    await deliver_due_events(event_gateway)
    assert receiver.events() == [("c1", "connection.created"), ("c1", "connection.deleted")]


async def test_pending_deliveries_stay_counted_after_a_reload(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    receiver.hold.clear()
    await event_gateway.import_connection(tracker.grant())
    keeper = event_gateway.runtime.keeper
    await keeper.run_once()
    assert [item.pending for item in keeper.backlog] == [1]
    await reload_gateway(event_gateway)
    assert [item.pending for item in keeper.backlog] == [1]
    await keeper.run_once()  # the keeper still holds the lease
    assert [item.pending for item in keeper.backlog] == [1]


async def test_audit_log_continues_in_one_chain_after_a_reload(event_gateway: RunningGateway, tracker: Tracker) -> None:
    await event_gateway.import_connection(tracker.grant())
    keeper = event_gateway.runtime.audit_keeper
    await keeper.run_once()
    before = await event_gateway.runtime.store.audit.chain_end()
    assert before.sequence > 0
    await reload_gateway(event_gateway)
    await event_gateway.import_connection(tracker.grant(), "c2")
    await keeper.run_once()
    assert (await event_gateway.runtime.store.audit.chain_end()).sequence > before.sequence


async def test_an_open_circuit_breaker_stays_open_after_a_reload_with_other_limits(
    event_gateway: RunningGateway, tracker: Tracker
) -> None:
    await event_gateway.import_connection(tracker.grant())
    parts = urlsplit(tracker.url)
    gate = event_gateway.runtime.egress_limits.for_origin(("http", str(parts.hostname), parts.port or 0))
    for _ in range(FAILURES_TO_OPEN):
        assert gate.try_acquire()
        gate.release("failed", probe=False)
    assert gate.try_acquire() is False
    _, after = await reload_gateway(event_gateway)
    limits = after.config.egress.limits
    assert gate.concurrency.limits == ConcurrencySettings(limits.outstanding, limits.waiting, limits.wait_s)
    with pytest.raises(CallNotAttempted):
        await gate.acquire()
    calls = tracker.calls["api"]
    assert await status(event_gateway) == 503
    assert tracker.calls["api"] == calls


async def test_outstanding_calls_stay_counted_and_a_waiting_call_starts_after_a_reload(
    event_gateway: RunningGateway,
) -> None:
    event_gateway.document["egress"]["limits"] = {"outstanding": 1}
    await event_gateway.restart()
    gate = event_gateway.runtime.egress_limits.for_origin(("http", "127.0.0.1", 1))
    assert gate.try_acquire()
    waiting = asyncio.create_task(gate.acquire())
    await wait_until(lambda: gate.concurrency.waiting)
    await reload_gateway(event_gateway)  # the new configuration allows two outstanding calls
    assert await asyncio.wait_for(waiting, PATIENCE_S) is False
    assert (gate.concurrency.outstanding, gate.concurrency.waiting) == (2, 0)
    assert not gate.try_acquire()


async def mint_key(running: RunningGateway, name: str, **limits: Any) -> dict[str, str]:
    body = await running.json("POST", KEYS, json={"display_name": name, "limits": limits}, expect=200)
    return {"Authorization": f"Bearer {body['data']['secret']}"}


async def test_rate_limit_continues_counting_after_a_reload(event_gateway: RunningGateway, tracker: Tracker) -> None:
    await event_gateway.import_connection(tracker.grant())
    headers = await mint_key(event_gateway, "slow", rate=2)
    assert await status(event_gateway, headers=headers) == 200
    await reload_gateway(event_gateway)
    assert [await status(event_gateway, headers=headers) for _ in range(2)] == [200, 429]


async def test_budget_keeps_its_reservations_at_a_reload_and_is_never_exceeded(
    event_gateway: RunningGateway, tracker: Tracker
) -> None:
    await event_gateway.import_connection(tracker.grant())
    headers = await mint_key(event_gateway, "task", budget=60)  # the worker reserves three calls first
    assert await status(event_gateway, headers=headers) == 200
    await reload_gateway(event_gateway)
    assert [await status(event_gateway, headers=headers) for _ in range(60)] == [200] * 59 + [403]


async def test_new_sessions_of_the_minute_stay_counted_after_a_reload(event_gateway: RunningGateway) -> None:
    event_gateway.document["connect"] = {"sessions_per_minute": 2}
    await event_gateway.restart()
    await event_gateway.session_token()
    await reload_gateway(event_gateway)
    await event_gateway.session_token()
    async with event_gateway.http.post(
        f"{event_gateway.url}/connect/sessions", json={"end_user": {"id": "u"}}, headers=event_gateway.headers
    ) as response:
        assert response.status == 429


async def test_authorization_in_progress_creates_its_connection_after_a_reload(
    event_gateway: RunningGateway, tracker: Tracker
) -> None:
    url = f"{event_gateway.url}/oauth/connect/tracker?connect_session_token={await event_gateway.session_token()}"
    async with event_gateway.http.get(url, allow_redirects=False) as response:
        consent = response.headers["Location"]
    await reload_gateway(event_gateway)  # a reload between the start of the authorization and its callback
    tracker.hold.clear()
    consent_task = asyncio.ensure_future(event_gateway.http.get(consent))
    await wait_until(lambda: tracker.calls["authorization_code"])
    await reload_gateway(event_gateway)  # a reload while the code is exchanged
    assert not consent_task.done()
    tracker.hold.set()
    async with await consent_task as response:
        assert response.status == 200
    assert len((await event_gateway.json("GET", "/connections"))["connections"]) == 1


async def test_connect_link_is_not_created_again_after_a_reload(event_gateway: RunningGateway) -> None:
    event_gateway.document["environments"]["dev"]["connect_links_in_errors"] = True
    await event_gateway.restart()

    async def link() -> str:
        async with event_gateway.call_proxy("nobody") as response:
            url: str = (await response.json())["error"]["payload"]["connect_url"]
            return url

    first = await link()
    await reload_gateway(event_gateway)
    assert await link() == first


async def test_running_deletion_completes_after_a_reload(
    event_gateway: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await event_gateway.import_connection(tracker.grant())
    rows, go_on, begun_deletes = event_gateway.runtime.store.connections, asyncio.Event(), list[Any]()
    delete = rows.delete

    async def wait_then_delete(*args: Any, **options: Any) -> bool:
        begun_deletes.append(args)
        await go_on.wait()
        return await delete(*args, **options)

    monkeypatch.setattr(rows, "delete", wait_then_delete)
    path = "/connections/c1?provider_config_key=tracker"
    deletion = asyncio.create_task(event_gateway.json("DELETE", path, expect=200))
    deleter = event_gateway.runtime.deleter
    await wait_until(lambda: begun_deletes)
    await reload_gateway(event_gateway)
    assert len(begun_deletes) == 1
    closing = asyncio.create_task(deleter.close())
    await asyncio.sleep(0)
    assert not closing.done(), "a stop waits for the deletion"
    go_on.set()
    await deletion
    await closing


async def test_running_deletion_of_an_integration_is_not_repeated_after_a_reload(
    event_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_integration(event_gateway)
    rows, go_on, ended, begun = event_gateway.runtime.store.integrations, asyncio.Event(), list[Any](), list[Any]()
    delete = rows.delete_without_connections

    async def wait_then_delete(item: Any) -> bool:
        begun.append(item)
        await go_on.wait()
        ended.append(item)
        return await delete(item)

    monkeypatch.setattr(rows, "delete_without_connections", wait_then_delete)
    deletion = asyncio.create_task(event_gateway.json("DELETE", "/integrations/made", expect=200))
    await wait_until(lambda: begun)
    await reload_gateway(event_gateway)
    again = asyncio.create_task(
        event_gateway.runtime.api_integrations.resume_deletions()
    )  # joins the deletion in progress
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(deletion, again)
    assert len(ended) == 1


async def test_an_integration_made_through_the_api_stays_and_changes_for_all_generations(
    event_gateway: RunningGateway,
) -> None:
    await create_integration(event_gateway)
    before, after = await reload_gateway(event_gateway)
    assert after.integrations.has("dev", "made")
    await event_gateway.json("DELETE", "/integrations/made", expect=200)
    assert not after.integrations.has("dev", "made")
    assert not before.integrations.has("dev", "made"), "a request that began before the deletion also sees the deletion"


async def test_metrics_counters_continue_after_a_reload(event_gateway: RunningGateway, tracker: Tracker) -> None:
    await event_gateway.import_connection(tracker.grant())
    assert await status(event_gateway) == 200
    await reload_gateway(event_gateway)
    assert await status(event_gateway) == 200
    counted = {
        key: reported[0]
        for key, reported in total([event_gateway.runtime.metrics.page]).items()
        if "proxy_requests" in key[0]
    }
    assert list(counted.values()) == [2]


async def test_records_that_wait_to_be_written_are_written_after_a_reload(
    event_gateway: RunningGateway, tracker: Tracker
) -> None:
    await event_gateway.import_connection(tracker.grant())
    async with event_gateway.call_proxy("c1") as response:
        request_id = response.headers[REQUEST_ID_FIELD]
    await reload_gateway(event_gateway)
    store = event_gateway.runtime.store.call_log
    written = None
    async with asyncio.timeout(PATIENCE_S):
        while not written:
            await asyncio.sleep(0.05)
            written = (await store.find(OperationFilter("dev", request_id=request_id))).operations
    assert [item.operation.connection_id for item in written] == ["c1"]


async def test_page_memory_stays_reserved_at_a_reload(event_gateway: RunningGateway) -> None:
    memory = event_gateway.runtime.page_memory
    reservation = await memory.reserve("dev", 1000, 0)
    event_gateway.document["egress"]["page_memory_bytes"] = 64 << 20
    await reload_gateway(event_gateway)
    assert (memory.reserved, memory.limit_bytes()) == (1000, 64 << 20)
    reservation.release()
    assert memory.reserved == 0


async def test_invalid_keys_stay_counted_after_a_reload(event_gateway: RunningGateway) -> None:
    async def guess_key() -> int:
        async with event_gateway.http.get(
            f"{event_gateway.url}/connections", headers={"Authorization": "Bearer x"}
        ) as response:
            return response.status

    assert [await guess_key() for _ in range(MAX_INVALID_KEYS)] == [401] * MAX_INVALID_KEYS
    await reload_gateway(event_gateway)
    assert await guess_key() == 429


async def test_logged_refusals_stay_counted_after_a_reload(event_gateway: RunningGateway) -> None:
    refusals = event_gateway.runtime.refusal_log
    with structlog.testing.capture_logs() as logged:
        for _ in range(MAX_LINES):
            refusals.info("refused", "192.0.2.1")
        await reload_gateway(event_gateway)
        event_gateway.runtime.refusal_log.info("refused", "192.0.2.1")
    assert [line["event"] for line in logged].count("refused") == MAX_LINES


async def test_measured_event_loop_lag_survives_a_reload(event_gateway: RunningGateway) -> None:
    lag = event_gateway.runtime.loop_lag
    async with asyncio.timeout(PATIENCE_S):
        while not (before := lag.longest_s):
            await asyncio.sleep(0.01)
    await reload_gateway(event_gateway)
    assert event_gateway.runtime.loop_lag is lag
    assert lag.longest_s >= before


async def test_announced_stop_stays_announced_after_a_reload(event_gateway: RunningGateway) -> None:
    event_gateway.runtime.serving = False
    await reload_gateway(event_gateway)
    async with event_gateway.http.get(f"{event_gateway.url}/ready") as response:
        assert response.status == 503
    event_gateway.runtime.serving = True


async def test_two_simultaneous_reloads_run_one_after_another(event_gateway: RunningGateway) -> None:
    runtime, first = event_gateway.runtime, event_gateway.runtime.generation
    async with runtime.reloading:
        reloads = [
            asyncio.create_task(reload(event_gateway.app, event_gateway.runtime.generation.config)) for _ in range(2)
        ]
        await asyncio.sleep(0.05)
        assert runtime.generation is first
    assert await asyncio.gather(*reloads) == [True, True]


async def test_a_reload_keeps_the_store_and_its_start_time(event_gateway: RunningGateway) -> None:
    runtime = event_gateway.runtime
    store, instance, began = runtime.store, runtime.store.instance, runtime.started_at
    await reload_gateway(event_gateway)
    assert (runtime.store, runtime.store.instance, runtime.started_at) == (store, instance, began)
    await runtime.store.ping()


async def test_spans_that_wait_are_exported_after_a_reload(
    event_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1000000")  # export only when the test requests it
    async with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        await event_gateway.restart()
        tracing = event_gateway.runtime.tracing
        assert await status(event_gateway) == 404
        await reload_gateway(event_gateway)
        assert await status(event_gateway) == 404
        assert event_gateway.runtime.tracing is tracing
        assert collector.spans == []
        await event_gateway.stop()
        assert [span.name for span in collector.spans] == ["GET /proxy/{path}"] * 2
    await event_gateway.start()


async def test_running_completion_of_a_session_ends_after_a_reload(
    event_gateway: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await create_session(event_gateway, **WITH_CHALLENGE)
    await walk_flow(event_gateway, session["token"])
    has_stored, go_on = hold_after(monkeypatch, event_gateway.runtime.store.pending, "complete")
    completing = asyncio.create_task(complete(event_gateway, session))
    await has_stored.wait()
    await reload_gateway(event_gateway)
    closing = asyncio.create_task(event_gateway.runtime.session_connections.close())
    await asyncio.sleep(0)
    assert not closing.done(), "a stop waits for it"
    go_on.set()
    await completing
    await closing


async def test_typed_credential_that_is_being_saved_is_stored_despite_a_reload(
    event_gateway: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare_key_integration(event_gateway, tracker)
    session = await create_session(event_gateway)
    has_stored, go_on = hold_after(monkeypatch, event_gateway.runtime.store.connections, "put")
    url = f"{event_gateway.url}/api-auth/api-key/keyed?connect_session_token={session['token']}"
    typing = asyncio.ensure_future(event_gateway.http.post(url, json={"apiKey": "k1"}))
    await has_stored.wait()
    await reload_gateway(event_gateway)
    closing = asyncio.create_task(event_gateway.runtime.typed_credentials.close())
    await asyncio.sleep(0)
    assert not closing.done(), "a stop waits for it"
    go_on.set()
    async with await typing as response:
        assert response.status == 200
    await closing


async def test_public_keys_of_providers_stay_cached_at_a_reload(event_gateway: RunningGateway) -> None:
    keys = event_gateway.runtime.webhook_keys
    known = FetchedKeys(clock.monotonic(), {"k": "pem"})
    keys._cached["digest"] = known
    await reload_gateway(event_gateway)
    assert event_gateway.runtime.webhook_keys._cached["digest"] is known


Test = Callable[..., Coroutine[Any, Any, None]]
SURVIVES: Final[dict[str, Test]] = {
    "started_at": test_a_reload_keeps_the_store_and_its_start_time,
    "store": test_a_reload_keeps_the_store_and_its_start_time,
    "minted": test_budget_keeps_its_reservations_at_a_reload_and_is_never_exceeded,
    "managed": test_an_integration_made_through_the_api_stays_and_changes_for_all_generations,
    "egress_limits": test_an_open_circuit_breaker_stays_open_after_a_reload_with_other_limits,
    "retired": test_running_refresh_ends_once_and_is_stored_despite_a_reload,
    "page_memory": test_page_memory_stays_reserved_at_a_reload,
    "metrics": test_metrics_counters_continue_after_a_reload,
    "call_queue": test_records_that_wait_to_be_written_are_written_after_a_reload,
    "tracing": test_spans_that_wait_are_exported_after_a_reload,
    "loop_lag": test_measured_event_loop_lag_survives_a_reload,
    "invalid_keys": test_invalid_keys_stay_counted_after_a_reload,
    "refusal_log": test_logged_refusals_stay_counted_after_a_reload,
    "journals": test_running_refresh_ends_once_and_is_stored_despite_a_reload,
    "refresher": test_a_queued_refresh_keeps_its_place_at_a_reload,
    "live": test_cached_connection_stays_in_memory_at_a_reload,
    "sessions": test_new_sessions_of_the_minute_stay_counted_after_a_reload,
    "outcomes": test_waiting_browser_window_gets_its_result_after_a_reload,
    "flows": test_authorization_in_progress_creates_its_connection_after_a_reload,
    "links": test_connect_link_is_not_created_again_after_a_reload,
    "deleter": test_running_deletion_completes_after_a_reload,
    "session_connections": test_running_completion_of_a_session_ends_after_a_reload,
    "typed_credentials": test_typed_credential_that_is_being_saved_is_stored_despite_a_reload,
    "api_integrations": test_running_deletion_of_an_integration_is_not_repeated_after_a_reload,
    "deliverer": test_retried_and_running_deliveries_arrive_once_despite_a_reload,
    "webhook_keys": test_public_keys_of_providers_stay_cached_at_a_reload,
    "audit_keeper": test_audit_log_continues_in_one_chain_after_a_reload,
    "keeper": test_pending_deliveries_stay_counted_after_a_reload,
    "reloading": test_two_simultaneous_reloads_run_one_after_another,
    "serving": test_announced_stop_stays_announced_after_a_reload,
}
HOLDS_NOTHING: Final = frozenset({"creator", "issuer", "exchange"})
REPLACED: Final = "current"  # holds the generation, which is what a reload replaces


# ── The walk through the runtime.


def test_every_part_of_the_runtime_is_classified() -> None:
    fields = {field.name for field in dataclasses.fields(Runtime)}
    assert fields == SURVIVES.keys() | HOLDS_NOTHING | {REPLACED}
    assert not SURVIVES.keys() & HOLDS_NOTHING


async def test_each_part_of_the_runtime_is_the_same_object_after_a_reload(event_gateway: RunningGateway) -> None:
    runtime = event_gateway.app[RUNTIME]
    before = {field.name: getattr(runtime, field.name) for field in dataclasses.fields(runtime)}
    await reload_gateway(event_gateway)
    assert event_gateway.app[RUNTIME] is runtime
    assert [name for name, part in before.items() if getattr(runtime, name) is not part] == []


async def test_part_classified_as_stateless_has_no_state(event_gateway: RunningGateway) -> None:
    """A stateless part holds only other parts of the runtime, objects that are made only of such parts, and functions."""
    runtime = event_gateway.runtime
    parts = [getattr(runtime, field.name) for field in dataclasses.fields(runtime)]

    def attributes_held(part: object) -> list[str]:
        found = []
        for name, value in vars(part).items():
            if isinstance(value, FunctionType | MethodType | CurrentGeneration) or any(value is item for item in parts):
                continue
            if isinstance(value, Revoker | AuthDialogueRunner):
                found += attributes_held(value)
            else:
                found.append(f"{type(part).__name__}.{name}")
        return found

    assert [item for name in sorted(HOLDS_NOTHING) for item in attributes_held(getattr(runtime, name))] == []
    assert attributes_held(runtime.deleter), "a part that holds state is found"


# ── The generation.


async def test_request_keeps_the_generation_it_started_with(event_gateway: RunningGateway) -> None:
    began = make_mocked_request("GET", "/", app=event_gateway.app, protocol=Mock(handover=None))
    before = generation_of(began)
    _, after = await reload_gateway(event_gateway)
    assert generation_of(began) is before
    assert generation_of(make_mocked_request("GET", "/", app=event_gateway.app, protocol=Mock(handover=None))) is after


def test_a_generation_cannot_be_changed() -> None:
    assert all(field.init for field in dataclasses.fields(Generation))
    assert Generation.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_runtime_is_built_completely_by_its_constructor() -> None:
    assert all(field.init for field in dataclasses.fields(Runtime))


async def test_request_in_flight_finishes_over_its_original_network(
    event_gateway: RunningGateway, tracker: Tracker
) -> None:
    """The reload closes the network: this request still gets its response, the next one is refused."""
    await event_gateway.import_connection(tracker.grant())
    assert await status(event_gateway) == 200
    tracker.hold_api.clear()
    call = asyncio.create_task(status(event_gateway))
    await wait_until(lambda: tracker.calls["api"] == 2)
    event_gateway.document["egress"]["allow"] = []
    before, _ = await reload_gateway(event_gateway)
    tracker.hold_api.set()
    assert await call == 200
    assert await status(event_gateway) == 400
    await wait_until(lambda: not list(event_gateway.runtime.retired))
    assert list(before.egress.load()) == []
