"""Refreshes by courier: what it noted for a gateway that is gone is not asked for again, and where there is none all goes on."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from gateway import clock
from gateway.courier import Courier
from gateway.records.call import Call, Reply
from gateway.records.connection import Connection, ConnectionRef, Lease
from gateway.refresh.decision import Holder
from gateway.store.notes import Note
from gateway.store.slot_file import SlotFile, all_files, records
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

REF = ConnectionRef("dev", "tracker", "c1")
EXPIRED_S = 3601


def made(tracker: Tracker, folder: Path, courier: Courier) -> RunningGateway:
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    return RunningGateway(folder, document([tracker.url.removeprefix("http://").replace(":", "/32:")]), courier=courier)


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    node = made(tracker, tmp_path, Courier())
    await node.start()
    yield node
    await node.stop()


def place(running: RunningGateway) -> Path:
    return running.folder / "gateway.db-pairs"


def noted(running: RunningGateway) -> list[bytes]:
    return [record for path in all_files(place(running)) for record in records(path)]


async def called(running: RunningGateway) -> tuple[int, str]:
    async with running.proxied("c1") as answer:
        told = await answer.json()
        return answer.status, told.get("token", "")


async def row_of(running: RunningGateway) -> Connection:
    row = await running.services.store.connections.get(REF)
    assert row is not None
    return row


async def left_open(running: RunningGateway) -> Connection:
    """As a gateway leaves it that was killed amid the call; the row."""
    row = await row_of(running)
    digest = running.services.renewer._redeemer._digest(row)
    claim = running.services.store.connections.lease_refresh
    assert await claim(REF, owner="killed", ttl=timedelta(0), seen=row, intent=digest)
    return await row_of(running)


async def cut_off(running: RunningGateway, tracker: Tracker, later: Any) -> Note:
    """A refresh of an expired token that was left open; how its courier was to note what it was answered."""
    await running.imported(tracker.grant())
    later(EXPIRED_S)
    row = await left_open(running)
    await running.services.store.pairs.prepare("dev")
    note = running.services.store.pairs.note(row)
    assert note is not None
    return note


def answer_of(told: dict[str, Any]) -> Reply:
    fields = CIMultiDict({"Content-Type": "application/json"})
    return Reply(200, fields, json.dumps(told).encode(), clock.now() - timedelta(minutes=10))


async def test_a_pair_that_was_stored_leaves_no_note(running: RunningGateway, tracker: Tracker, later: Any) -> None:
    await running.imported(tracker.grant())
    later(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S  # a courier's clock is not moved by this test
    assert (await called(running))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    assert tracker.token_headers[0]["User-Agent"] == "integration-gateway"
    async with asyncio.timeout(PATIENCE_S):
        while noted(running):
            await asyncio.sleep(0.005)
    await running.stop()
    assert all_files(place(running)) == []
    await running.start()


async def test_what_a_courier_noted_is_not_asked_for_again(
    running: RunningGateway, tracker: Tracker, later: Any
) -> None:
    await running.imported(tracker.grant())
    later(EXPIRED_S)
    row = await left_open(running)
    store = running.services.store
    await store.pairs.prepare("dev")
    note = store.pairs.note(row)
    assert note is not None
    form = await tracker_answers(tracker)
    file = SlotFile(note.place)
    file.jotted(note.record(0, Call(f"{tracker.url}/token"), answer_of(form)))
    assert await called(running) == (200, f"Bearer {form['access_token']}")
    assert tracker.calls["refresh_token"] == 0
    assert (await row_of(running)).expires_at is not None
    ends = (await row_of(running)).expires_at
    assert ends is not None
    assert ends < clock.now() + timedelta(minutes=51), "its lifetime counts from when the courier asked"
    file.close()


async def tracker_answers(tracker: Tracker) -> dict[str, Any]:
    """What the endpoint would tell the courier, with all that it changes there."""
    body = tracker._refreshed(tracker.grants[0].refresh_token).body
    assert isinstance(body, bytes)
    told: dict[str, Any] = json.loads(body)
    return told


@pytest.mark.parametrize("told", [{"error": "server_error"}, {"no": "token"}])
async def test_a_noted_answer_that_gives_nothing_is_no_reason_not_to_ask(
    running: RunningGateway, tracker: Tracker, later: Any, told: dict[str, Any]
) -> None:
    note = await cut_off(running, tracker, later)
    file = SlotFile(note.place)
    file.jotted(note.record(0, Call(f"{tracker.url}/token"), answer_of(told)))
    tracker.ttl_s = 2 * EXPIRED_S
    assert (await called(running))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    file.close()


async def test_of_several_attempts_each_answer_is_found(running: RunningGateway, tracker: Tracker, later: Any) -> None:
    """A process that died after another had died may have been further, or not as far."""
    await running.imported(tracker.grant())
    later(EXPIRED_S)
    row, store = await left_open(running), running.services.store
    await store.pairs.prepare("dev")
    form = await tracker_answers(tracker)
    first, second = store.pairs.note(row), store.pairs.note(row)
    assert first is not None
    assert second is not None
    file = SlotFile(first.place)
    file.jotted(first.record(0, Call(f"{tracker.url}/token"), answer_of(form)))
    file.jotted(second.record(0, Call(f"{tracker.url}/else"), replace(answer_of({}), asked_at=clock.now())))
    assert await called(running) == (200, f"Bearer {form['access_token']}")
    assert tracker.calls["refresh_token"] == 0
    file.close()


async def test_a_courier_that_is_lost_leaves_what_it_noted(
    running: RunningGateway, tracker: Tracker, later: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.connections.backoff.FIRST", timedelta(seconds=0))
    monkeypatch.setattr("gateway.connections.recover.EVERY_S", 3600.0)
    await running.imported(tracker.grant())
    later(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S
    tracker.hold_answer.clear()
    calling = asyncio.ensure_future(called(running))
    async with asyncio.timeout(PATIENCE_S):
        while not tracker.grants[0].spent:
            await asyncio.sleep(0.005)
    courier = running.services.courier
    assert courier is not None
    assert courier._line is not None
    courier._line._writer.close()  # nobody hears any more what it will be answered
    tracker.hold_answer.set()
    assert (await calling)[0] == 503
    async with running.proxied("c1") as answer:
        assert answer.status == 200
    assert tracker.calls["refresh_token"] == 1
    assert not tracker.grants[0].revoked


async def test_the_answer_to_another_call_is_not_taken_for_it(
    running: RunningGateway, tracker: Tracker, later: Any
) -> None:
    note = await cut_off(running, tracker, later)
    file = SlotFile(note.place)
    file.jotted(note.record(0, Call("https://elsewhere.example/token"), answer_of({"access_token": "elsewhere"})))
    tracker.ttl_s = 2 * EXPIRED_S
    status, token = await called(running)
    assert (status, tracker.calls["refresh_token"]) == (200, 1)
    assert "elsewhere" not in token
    file.close()


async def test_a_call_that_a_living_courier_is_at_is_waited_for(
    running: RunningGateway, tracker: Tracker, later: Any
) -> None:
    note = await cut_off(running, tracker, later)
    file = SlotFile(note.place)
    room = file.jotted(note.head(0))
    assert room is not None
    calling = asyncio.ensure_future(called(running))
    done, _ = await asyncio.wait({calling}, timeout=0.3)
    assert not done
    form = await tracker_answers(tracker)
    file.put(room, note.record(0, Call(f"{tracker.url}/token"), answer_of(form)))
    assert await calling == (200, f"Bearer {form['access_token']}")
    assert tracker.calls["refresh_token"] == 0
    file.close()


async def test_a_call_that_a_dead_courier_was_at_is_not_waited_for(
    running: RunningGateway, tracker: Tracker, later: Any
) -> None:
    note = await cut_off(running, tracker, later)
    file = SlotFile(note.place)
    file.jotted(note.head(0))
    file.close()
    tracker.ttl_s = 2 * EXPIRED_S
    assert (await called(running))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    await running.services.store.leftovers.sweep(running.services.store.connections.get)
    assert not [path for path in all_files(place(running)) if path == file.path]


@pytest.mark.parametrize("node", ["", "local."])  # the former is how earlier versions name an owner
async def test_the_lease_of_a_dead_process_of_this_machine_is_claimed_from_it_at_once(
    node: str, running: RunningGateway, tracker: Tracker, later: Any
) -> None:
    await running.imported(tracker.grant())
    later(EXPIRED_S)
    row, store = await row_of(running), running.services.store
    dead = SlotFile(place(running))
    living = SlotFile(place(running))
    for owner in (f"{living.name}.one", f"{dead.name}.one", f"local.{living.name}.one"):
        assert await store.holders.of(Lease(owner, clock.now())) is Holder.HERE_ALIVE
    assert await store.connections.lease_refresh(
        REF, owner=f"{node}{dead.name}.one", ttl=timedelta(days=1), seen=row, intent="of the token"
    )
    tracker.ttl_s = 2 * EXPIRED_S
    calling = asyncio.ensure_future(called(running))
    os.close(dead._fd)  # as the system does it for a process that was killed
    assert (await asyncio.wait_for(calling, PATIENCE_S))[0] == 200
    living.close()


async def test_where_no_courier_can_be_started_the_gateway_asks_itself(
    tracker: Tracker, tmp_path: Path, later: Any
) -> None:
    node = made(tracker, tmp_path, Courier(("/nowhere/python",)))
    await node.start()
    await node.imported(tracker.grant())
    later(EXPIRED_S)
    assert (await called(node))[0] == 200
    assert len(all_files(place(node))) == 1, "and notes what it was answered"
    await node.stop()
    assert all_files(place(node)) == []
