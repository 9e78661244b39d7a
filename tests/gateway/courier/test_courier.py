"""A courier: a real process, asked over its socket, whose notes outlive whoever sent it."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.courier import Courier, Errand, Way
from gateway.egress.errors import EgressError
from gateway.records.call import Call
from gateway.store.notes import Note, new_key, opened
from gateway.store.slot_file import SLOT_BYTES, all_files, is_dead, records

LIMIT_S = 30.0


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


@pytest.fixture
async def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
async def server(endpoint: Endpoint) -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_post("/token", endpoint.token)
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
    return Errand(call, way, note, 0, LIMIT_S, 1 << 20)


def found(errand: Errand) -> list[tuple[dict[str, Any], bytes]]:
    """What is in its files: whose it is, and what was noted."""
    told = [record.partition(b"\n") for path in all_files(errand.note.place) for record in records(path)]
    return [(json.loads(about), sealed) for about, _, sealed in told]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.005)


def pid_of(courier: Courier) -> int:
    assert courier._line is not None
    return courier._line.process.pid


async def test_an_answer_comes_back_and_is_noted_sealed(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    brought = await courier.ask(errand)
    assert brought is not None
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
    asking = asyncio.ensure_future(courier.ask(errand))
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
    await courier.ask(errand)
    courier.done("a1")
    await until(lambda: not found(errand))
    await courier.close()
    assert all_files(errand.note.place) == []


@pytest.mark.parametrize("status", [400, 503])
async def test_a_refusal_is_brought_and_not_noted(
    courier: Courier, endpoint: Endpoint, errand: Errand, status: int
) -> None:
    endpoint.status = status
    brought = await courier.ask(errand)
    assert brought is not None
    assert brought.reply is not None
    assert (brought.reply.status, brought.noted, found(errand)) == (status, False, [])


async def test_a_long_answer_is_noted_whole(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    endpoint.answer = {"access_token": "x" * SLOT_BYTES * 2}
    brought = await courier.ask(errand)
    assert brought is not None
    assert brought.noted
    ((about, sealed),) = found(errand)
    noted = opened(errand.note.key, about, sealed)
    assert noted is not None
    assert json.loads(noted.reply.body) == endpoint.answer


async def test_it_dials_only_what_the_configuration_opens(courier: Courier, errand: Errand) -> None:
    brought = await courier.ask(replace(errand, way=replace(errand.way, allow=())))
    assert brought is not None
    assert brought.fault is not None
    assert brought.fault.kind == "refused"
    assert found(errand) == []
    brought = await courier.ask(errand)
    assert brought is not None
    assert brought.reply is not None


async def test_one_that_dies_is_told_and_followed_by_another(
    courier: Courier, endpoint: Endpoint, errand: Errand
) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(courier.ask(errand))
    await until(lambda: endpoint.seen)
    os.kill(pid_of(courier), signal.SIGKILL)
    with pytest.raises(EgressError, match="has ended") as told:
        await asking
    assert told.value.sent, "what was asked may have been done"
    endpoint.free.set()
    brought = await courier.ask(errand)
    assert brought is not None
    assert brought.noted


async def test_one_that_stands_still_is_given_up(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    assert await courier.ready()
    os.kill(pid_of(courier), signal.SIGSTOP)
    with pytest.raises(EgressError, match="no answer") as told:
        await courier.ask(replace(errand, timeout_s=0.1))
    assert told.value.sent, "what was asked may have been done"
    assert courier._line is not None
    await until(lambda: courier._line is not None and not courier._line.up)
    brought = await courier.ask(errand)
    assert brought is not None
    assert brought.noted


async def test_signals_to_all_of_a_service_do_not_end_it(courier: Courier, endpoint: Endpoint, errand: Errand) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(courier.ask(errand))
    await until(lambda: endpoint.seen)
    assert os.getsid(pid_of(courier)) == pid_of(courier), "in a session of its own"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid_of(courier), number)
    endpoint.free.set()
    brought = await asking
    assert brought is not None
    assert brought.noted


async def test_secrets_of_the_environment_do_not_go_along(
    courier: Courier, errand: Errand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_ENCRYPTION_KEY", "for the gateway alone")
    assert await courier.ready()
    seen = Path(f"/proc/{pid_of(courier)}/environ").read_bytes() if os.geteuid() == 0 else b"PATH="
    assert b"PATH=" in seen
    assert b"for the gateway alone" not in seen
    assert b"old" not in Path(f"/proc/{pid_of(courier)}/cmdline").read_bytes()


@pytest.mark.parametrize("command", [("/nowhere/python",), ("/bin/false",)])
async def test_without_one_nothing_is_asked_and_it_is_not_tried_again_at_once(
    command: tuple[str, ...], errand: Errand, endpoint: Endpoint
) -> None:
    courier = Courier(command)
    assert not await courier.ready()
    assert await courier.ask(errand) is None
    assert endpoint.seen == []
    await courier.close()


async def test_where_nothing_can_be_noted_it_says_so(courier: Courier, errand: Errand, tmp_path: Path) -> None:
    nowhere = replace(errand, note=replace(errand.note, place=tmp_path / "none" / "pairs"))
    brought = await courier.ask(nowhere)
    assert brought is not None
    assert brought.reply is not None
    assert not brought.noted
