"""A courier: a real process, asked over its socket, whose notes outlive whoever sent it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.courier import Courier, CourierLost, Errand, Line, Way
from gateway.courier.errand import Brought
from gateway.egress.errors import EgressError
from gateway.records.call import Call, ClientIdentity
from gateway.secret import Secret
from gateway.store.notes import Note, new_key, opened
from gateway.store.slot_file import SLOT_BYTES, all_files, is_dead, records
from tests.fakes import without_syscalls
from tests.fakes.patience import PATIENCE_S


class Endpoint:
    """Answers with `answer` once `free` is set."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.answer: dict[str, Any] = {"access_token": "new-access"}
        self.status = 200
        self.seen: list[tuple[dict[str, str], bytes]] = []

    async def token(self, request: web.Request) -> web.Response:
        self.seen.append((dict(request.headers), await request.read()))
        await self.free.wait()
        return web.json_response(self.answer, status=self.status, headers={"X-Told": "yes"})

    async def at_once(self, _request: web.Request) -> web.Response:
        return web.json_response(self.answer)


@pytest.fixture
async def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
async def server(endpoint: Endpoint) -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_post("/token", endpoint.token)
    app.router.add_get("/token", endpoint.at_once)
    made = TestServer(app)
    await made.start_server()
    yield made
    await made.close()


@pytest.fixture
async def courier() -> AsyncIterator[Courier]:
    made = Courier()
    yield made
    await made.close()


@pytest.fixture
def errand(server: TestServer, tmp_path: Path) -> Errand:
    way = Way((("127.0.0.1/32", server.port),), None, 5.0, 10)
    about = {"ref": ["dev", "tracker", "c1"], "row": "u1", "version": 1, "attempt": "a1", "key": "00"}
    note = Note(tmp_path / "gateway.db-pairs", "a1", json.dumps(about), new_key())
    call = Call(f"http://127.0.0.1:{server.port}/token", {"X-Asked": "so"}, b"refresh_token=old")
    return Errand(call, way, note, 0, PATIENCE_S, 1 << 20)


def found(errand: Errand) -> list[tuple[dict[str, Any], bytes]]:
    """What is in its files: whose it is, and what was noted."""
    told = [record.partition(b"\n") for path in all_files(errand.note.place) for record in records(path)]
    return [(json.loads(about), sealed) for about, _, sealed in told]


async def given(courier: Courier, errand: Errand) -> tuple[Line, Brought]:
    told = await courier.ask(errand)
    assert told is not None
    return told


async def asked(courier: Courier, errand: Errand) -> Brought:
    return (await given(courier, errand))[1]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def pid_of(courier: Courier) -> int:
    assert courier._line is not None
    return courier._line.process.pid


async def test_an_answer_comes_back_and_is_noted_sealed(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    brought = await asked(courier, errand)
    assert brought.reply is not None
    assert (brought.noted, brought.reply.status) == (True, 200)
    assert json.loads(brought.reply.body) == endpoint.answer
    assert brought.reply.headers["x-told"] == "yes"
    headers, body = endpoint.seen[0]
    assert (headers["X-Asked"], body) == ("so", b"refresh_token=old")
    ((about, sealed),) = found(errand)
    noted = opened(errand.note.key, about, sealed)
    assert noted is not None
    assert (noted.reply.body, noted.reply.asked_at) == (brought.reply.body, brought.reply.asked_at)
    assert b"new-access" not in all_files(errand.note.place)[0].read_bytes()


async def test_one_whose_sender_is_gone_hears_the_answer_and_ends(
    courier: Courier, endpoint: Endpoint, errand: Errand
) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(given(courier, errand))
    await until(lambda: endpoint.seen)
    assert [sealed for _, sealed in found(errand)] == [b""], "whoever looks sees that it is under way"
    assert courier._line is not None
    courier._line._writer.close()  # as the system does it for a process that was killed
    endpoint.free.set()
    (file,) = all_files(errand.note.place)
    await until(lambda: is_dead(file))
    ((about, sealed),) = found(errand)
    noted = opened(errand.note.key, about, sealed)
    assert noted is not None
    assert json.loads(noted.reply.body) == endpoint.answer
    with pytest.raises(EgressError):
        await asking


async def test_what_is_done_with_is_found_by_nobody(courier: Courier, errand: Errand) -> None:
    told = await courier.ask(errand)
    assert told is not None
    told[0].done("a1")
    await until(lambda: not found(errand))
    await courier.close()
    assert all_files(errand.note.place) == []


@pytest.mark.parametrize("status", [400, 503])
async def test_a_refusal_is_brought_and_not_noted(
    courier: Courier, endpoint: Endpoint, errand: Errand, status: int
) -> None:
    endpoint.status = status
    brought = await asked(courier, errand)
    assert brought.reply is not None
    assert (brought.reply.status, brought.noted, found(errand)) == (status, False, [])


async def test_a_long_answer_is_noted_whole(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    endpoint.answer = {"access_token": "x" * SLOT_BYTES * 2}
    brought = await asked(courier, errand)
    assert brought.noted
    ((about, sealed),) = found(errand)
    noted = opened(errand.note.key, about, sealed)
    assert noted is not None
    assert json.loads(noted.reply.body) == endpoint.answer


async def test_it_dials_only_what_the_configuration_opens(courier: Courier, errand: Errand) -> None:
    brought = await asked(courier, replace(errand, way=replace(errand.way, allow=())))
    assert brought.fault is not None
    assert brought.fault.kind == "refused"
    assert found(errand) == []
    brought = await asked(courier, errand)
    assert brought.reply is not None


async def test_one_that_dies_is_told_and_followed_by_another(
    courier: Courier, endpoint: Endpoint, errand: Errand
) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(given(courier, errand))
    await until(lambda: endpoint.seen)
    os.kill(pid_of(courier), signal.SIGKILL)
    with pytest.raises(EgressError, match="has ended") as told:
        await asking
    assert told.value.sent, "what was asked may have been done"
    endpoint.free.set()
    brought = await asked(courier, errand)
    assert brought.noted


async def test_one_that_stands_still_is_given_up(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    assert await courier.ready()
    os.kill(pid_of(courier), signal.SIGSTOP)
    with pytest.raises(EgressError, match="no answer") as told:
        await courier.ask(replace(errand, timeout_s=0.1))
    assert told.value.sent, "what was asked may have been done"
    assert courier._line is not None
    await until(lambda: courier._line is not None and not courier._line.up)
    brought = await asked(courier, errand)
    assert brought.noted


async def test_signals_to_all_of_a_service_do_not_end_it(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(given(courier, errand))
    await until(lambda: endpoint.seen)
    assert os.getsid(pid_of(courier)) == pid_of(courier), "in a session of its own"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid_of(courier), number)
    endpoint.free.set()
    brought = (await asking)[1]
    assert brought.noted


async def test_one_late_answer_costs_nobody_elses(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    """Who is late is not waited for, and what else its courier is at is brought and noted all the same."""
    endpoint.free.clear()
    other = replace(errand, note=replace(errand.note, attempt="a2", about=errand.note.about.replace("a1", "a2")))
    bystander = asyncio.ensure_future(given(courier, other))
    await until(lambda: endpoint.seen)
    os.kill(pid_of(courier), signal.SIGSTOP)
    line = courier._line
    assert line is not None
    with pytest.raises(CourierLost, match="no answer"):
        await courier.ask(replace(errand, timeout_s=0.1))
    os.kill(line.process.pid, signal.SIGCONT)
    assert (await asked(courier, replace(errand, call=replace(errand.call, method="GET")))).reply is not None
    endpoint.free.set()
    brought = (await bystander)[1]
    assert brought.noted
    await until(lambda: line.over)


async def test_a_way_that_changes_leaves_what_is_under_way(
    courier: Courier, endpoint: Endpoint, errand: Errand
) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(given(courier, errand))
    await until(lambda: endpoint.seen)
    for connections in (11, 10, 12):
        way = replace(errand.way, connections=connections)
        assert (await asked(courier, replace(errand, way=way, call=replace(errand.call, method="GET")))).reply
    endpoint.free.set()
    assert (await asking)[1].noted


async def test_what_goes_wrong_inside_is_told(courier: Courier, errand: Errand) -> None:
    identity = ClientIdentity("no certificate", Secret("no key"))
    call = replace(errand.call, url="https://127.0.0.1:1/token", identity=identity)
    way = replace(errand.way, allow=(("127.0.0.1/32", None),))
    brought = await asked(courier, replace(errand, call=call, way=way))
    assert brought.fault is not None
    assert brought.fault.kind == "tls"
    brought = await asked(courier, replace(errand, way=replace(errand.way, allow=(("no network", None),))))
    assert brought.fault is not None
    assert "ValueError" in brought.fault.message
    assert found(errand) == []
    assert (await asked(courier, errand)).noted, "and it is still there"


async def test_it_asks_nobody_for_a_gateway_that_is_gone(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    """Whoever takes the refresh up may have looked before it was noted that somebody is at it."""
    assert await courier.ready()
    line = courier._line
    assert line is not None
    os.kill(line.process.pid, signal.SIGSTOP)
    asking = asyncio.ensure_future(courier.ask(errand))
    await asyncio.sleep(0)
    line._writer.close()
    with pytest.raises(CourierLost):
        await asking
    os.kill(line.process.pid, signal.SIGCONT)
    await until(lambda: line.over)
    assert (endpoint.seen, found(errand)) == ([], [])


async def test_a_file_that_somebody_removes_is_made_anew(courier: Courier, errand: Errand) -> None:
    assert (await asked(courier, errand)).noted
    for path in all_files(errand.note.place):
        path.unlink()
    assert (await asked(courier, errand)).noted
    assert len(found(errand)) == 1


async def test_secrets_of_the_environment_do_not_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_ENCRYPTION_KEY", "for the gateway alone")
    shown = tmp_path / "shown"
    courier = Courier(("/bin/sh", "-c", f"env > {shown}; echo $0 $* >> {shown}"))
    assert not await courier.ready()
    text = shown.read_text()
    assert "PATH=" in text
    assert "for the gateway alone" not in text


@pytest.mark.parametrize("command", [("/nowhere/python",), ("/bin/sh", "-c", "echo >> {}"), ("/bin/cat",)])
async def test_without_one_nothing_is_asked_and_it_is_not_tried_again_at_once(
    command: tuple[str, ...], errand: Errand, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.courier.courier.START_S", 0.2)
    starts = tmp_path / "starts"
    courier = Courier(tuple(part.format(starts) for part in command))
    assert not await courier.ready()
    assert await courier.ask(errand) is None
    assert endpoint.seen == []
    assert not starts.exists() or starts.read_text() == "\n"
    await courier.close()


async def test_one_of_another_release_is_done_without(
    errand: Errand, courier: Courier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.courier.courier.RELEASE", 0)
    assert not await courier.ready()
    assert await courier.ask(errand) is None


async def test_where_nothing_can_be_noted_it_says_so(courier: Courier, errand: Errand, tmp_path: Path) -> None:
    nowhere = replace(errand, note=replace(errand.note, place=tmp_path / "none" / "pairs"))
    brought = await asked(courier, nowhere)
    assert brought.reply is not None
    assert not brought.noted


@pytest.mark.skipif(not without_syscalls.GROUPS["resources"], reason="needs Linux on x86-64 or ARM64")
async def test_it_works_where_the_system_refuses_a_lower_priority(errand: Errand) -> None:
    """As under ``SystemCallFilter=~@resources`` of systemd."""
    module = "tests.fakes.without_syscalls"
    courier = Courier((sys.executable, "-P", "-m", module, "resources", "gateway.courier"))
    try:
        assert (await asked(courier, errand)).noted
    finally:
        await courier.close()


async def test_one_that_cannot_start_is_an_error_until_one_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.courier.courier.START_AGAIN_S", 0.0)
    there = tmp_path / "there"
    start = f'test -e {there} || exit 3; exec {sys.executable} -P -m gateway.courier "$0"'
    courier = Courier(("/bin/sh", "-c", start))
    assert (courier.running, courier.missing) == (0, False)  # none was needed yet
    with structlog.testing.capture_logs() as logged:
        assert not await courier.ready()
    (event,) = logged
    assert (event["event"], event["log_level"]) == ("courier_not_started", "error")
    assert "exit code 3" in event["detail"]
    assert (courier.running, courier.missing) == (0, True)
    there.touch()
    assert await courier.ready()
    assert (courier.running, courier.missing) == (1, False)
    await courier.close()
    assert (courier.running, courier.missing) == (0, False)
