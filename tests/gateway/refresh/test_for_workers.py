"""Token exchanges that a parent makes for its workers. The parent journals a reply before it returns the reply.

So a reply is not lost if the worker dies.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pytest_aiohttp.plugin import AiohttpServer

from gateway.egress.egress_errors import EgressError
from gateway.journal import Entry, new_key, open_reply
from gateway.records.provider_call import ClientIdentity, ProviderCall, Reply
from gateway.refresh.exchange_message import EgressRoute, ExchangeRequest
from gateway.refresh.for_workers import ExchangesForWorkers
from gateway.refresh.through_parent import ParentExchange, ParentLink
from gateway.refresh.token_exchange import ExchangeLost
from gateway.secret import Secret
from tests.fakes.journal import left, living
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import raw_provider

AHEAD = timedelta(days=3)  # how far the worker's clock is ahead of the parent's


class Endpoint:
    """A token endpoint. It responds with `response` as soon as `free` is set."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.response: dict[str, Any] = {"access_token": "new-access"}
        self.status = 200
        self.seen: list[tuple[dict[str, str], bytes]] = []

    async def token(self, request: web.Request) -> web.Response:
        self.seen.append((dict(request.headers), await request.read()))
        await self.free.wait()
        return web.json_response(self.response, status=self.status, headers={"X-Extra": "yes"})

    async def at_once(self, _request: web.Request) -> web.Response:
        return web.json_response(self.response)


class Pair:
    """The worker's end and the parent's end of the channel, in one process."""

    def __init__(self) -> None:
        self.exchanges = ExchangesForWorkers()
        self.its, self.worker = socket.socketpair()
        self.its.setblocking(False)
        self.parent = ParentLink(self._to_parent)

    def _to_parent(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "released":
            self.exchanges.journals.release(message["attempt"])
        else:
            self.exchanges.begin(json.loads(json.dumps(message)), self.its, self.parent.pass_result)

    def kill_worker(self) -> None:
        """Close the worker's socket, as the system does when it kills a process."""
        self.worker.close()

    async def close(self) -> None:
        self.worker.close()
        await self.exchanges.close()
        self.its.close()


@pytest.fixture
async def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
async def server(endpoint: Endpoint, aiohttp_server: AiohttpServer) -> TestServer:
    app = web.Application()
    app.router.add_post("/token", endpoint.token)
    app.router.add_get("/token", endpoint.at_once)
    return await aiohttp_server(app)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    yield made
    await made.close()


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    about = {"ref": ["dev", "tracker", "c1"], "row": "u1", "version": 1, "attempt": "a1", "key": "00"}
    return Entry(tmp_path / "journal", "a1", about, new_key())


@pytest.fixture
def request_(server: TestServer, entry: Entry) -> ExchangeRequest:
    route = EgressRoute((("127.0.0.1/32", server.port),), None, 5.0, 10)
    call = ProviderCall(f"http://127.0.0.1:{server.port}/token", {"X-Asked": "so"}, b"refresh_token=old")
    return ExchangeRequest(call, route, entry, 0, PATIENCE_S, 1 << 20, datetime.now(UTC) + AHEAD)


def journal_records(entry: Entry) -> list[tuple[dict[str, Any], bytes]]:
    return left(entry.folder)


def body_of(entry: Entry) -> Any:
    ((about, sealed),) = journal_records(entry)
    recorded = open_reply(entry.key, about, sealed)
    assert recorded is not None
    return json.loads(recorded.reply.body)


async def wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_reply_is_returned_and_journalled_sealed(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest, entry: Entry
) -> None:
    reply = await pair.parent.send(request_)
    assert (reply.status, json.loads(reply.body), reply.headers["x-extra"]) == (200, endpoint.response, "yes")
    headers, body = endpoint.seen[0]
    assert (headers["X-Asked"], body) == ("so", b"refresh_token=old")
    ((about, sealed),) = journal_records(entry)
    recorded = open_reply(entry.key, about, sealed)
    assert recorded is not None
    assert (recorded.reply.body, recorded.reply.asked_at) == (reply.body, reply.asked_at)
    (file,) = entry.folder.iterdir()
    assert b"new-access" not in file.read_bytes()


async def test_a_reply_is_dated_by_the_worker_that_asked(pair: Pair, request_: ExchangeRequest) -> None:
    reply = await pair.parent.send(request_)
    assert timedelta(0) <= reply.asked_at - request_.asked_at < timedelta(seconds=PATIENCE_S)


async def test_a_worker_that_dies_leaves_its_reply_in_the_journal(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest, entry: Entry
) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(pair.parent.send(request_))
    await wait_until(lambda: endpoint.seen)
    assert [item.sealed for item in living(entry.folder)] == [b""], "the journal shows that the exchange is in flight"
    pair.kill_worker()
    pair.parent.fail_waiting()
    with pytest.raises(ExchangeLost):
        await asking
    endpoint.free.set()
    await wait_until(lambda: journal_records(entry)[0][1])
    assert body_of(entry) == endpoint.response


async def test_released_record_is_not_found(pair: Pair, request_: ExchangeRequest, entry: Entry) -> None:
    await pair.parent.send(request_)
    pair.parent.release("a1")
    assert journal_records(entry) == []
    await pair.close()
    assert list(entry.folder.iterdir()) == []


@pytest.mark.parametrize("status", [400, 503])
async def test_a_refusal_is_returned_and_not_journalled(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest, entry: Entry, status: int
) -> None:
    endpoint.status = status
    reply = await pair.parent.send(request_)
    assert (reply.status, journal_records(entry)) == (status, [])


async def test_only_allowed_networks_are_connected(pair: Pair, request_: ExchangeRequest, entry: Entry) -> None:
    with pytest.raises(EgressError) as raised:
        await pair.parent.send(replace(request_, route=replace(request_.route, allow=())))
    assert raised.value.kind == "refused"
    assert journal_records(entry) == []
    assert (await pair.parent.send(request_)).status == 200


async def test_token_requests_go_through_the_outbound_proxy(
    pair: Pair, request_: ExchangeRequest, server: TestServer
) -> None:
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    async with raw_provider(refusal, close=True) as outbound:
        route = replace(request_.route, proxy=f"http://127.0.0.1:{outbound.port}")
        call = replace(request_.call, url=f"https://127.0.0.1:{server.port}/token")
        with pytest.raises(EgressError, match="outbound proxy"):
            await pair.parent.send(replace(request_, route=route, call=call))
    assert outbound.request_line() == f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"


async def test_lost_parent_is_reported_and_the_exchange_may_have_happened(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest
) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(pair.parent.send(request_))
    await wait_until(lambda: endpoint.seen)
    pair.parent.fail_waiting()
    with pytest.raises(ExchangeLost, match="has ended") as raised:
        await asking
    assert raised.value.sent
    with pytest.raises(ExchangeLost) as raised:
        await pair.parent.send(request_)
    assert not raised.value.sent
    endpoint.free.set()


async def test_stalled_parent_is_not_waited_for(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.refresh.through_parent.LATE_RESULT_S", 0.05)
    messages = list[Mapping[str, Any]]()
    still = ParentLink(messages.append)
    with pytest.raises(ExchangeLost, match="no response") as raised:
        await still.send(replace(request_, timeout_s=0.05))
    assert raised.value.sent, "the parent may have sent the request"
    still.pass_result({"id": messages[0]["id"], "result": {}})  # this reply arrives too late


async def test_changed_route_does_not_end_exchanges_in_flight(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest
) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(pair.parent.send(request_))
    await wait_until(lambda: endpoint.seen)
    for connections in (11, 10, 12):
        route = replace(request_.route, connections=connections)
        get = replace(request_.call, method="GET")
        assert (await pair.parent.send(replace(request_, route=route, call=get, step=connections))).status == 200
    endpoint.free.set()
    assert (await asking).status == 200


async def test_internal_error_is_reported(pair: Pair, request_: ExchangeRequest, entry: Entry) -> None:
    identity = ClientIdentity("no certificate", Secret("no key"))
    call = replace(request_.call, url="https://127.0.0.1:1/token", identity=identity)
    route = replace(request_.route, allow=(("127.0.0.1/32", None),))
    with pytest.raises(EgressError) as raised:
        await pair.parent.send(replace(request_, call=call, route=route))
    assert raised.value.kind == "tls"
    with pytest.raises(EgressError, match="ValueError"):
        await pair.parent.send(replace(request_, route=replace(request_.route, allow=(("no network", None),))))
    assert journal_records(entry) == []
    assert (await pair.parent.send(request_)).status == 200, "the parent still serves requests"


async def test_call_of_a_dead_worker_is_not_sent(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest, entry: Entry
) -> None:
    """Another process may already have taken over the refresh, and found no record of this call in the journal."""
    pair.kill_worker()
    with pytest.raises(EgressError, match="has ended") as raised:
        await pair.parent.send(request_)
    assert not raised.value.sent
    assert (endpoint.seen, journal_records(entry)) == ([], [])


@pytest.mark.parametrize("journalled", [True, False])
async def test_call_for_which_its_worker_no_longer_waits_is_not_sent(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest, entry: Entry, journalled: bool
) -> None:
    """A parent that was blocked reads old messages. Meanwhile, another node can have replaced the token."""
    request = request_ if journalled else replace(request_, entry=None)
    messages, results = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
    waiting = asyncio.ensure_future(ParentLink(messages.append).send(request))
    await wait_until(lambda: messages)
    waiting.cancel()
    late = {**messages[0], "asked_at": messages[0]["asked_at"] - request.timeout_s}
    pair.exchanges.begin(late, pair.its, results.append)
    await wait_until(lambda: results)
    kind, _, sent = results[0]["result"]["fault"]
    assert (kind, sent, results[0]["result"]["lost"]) == ("timeout", False, False)
    assert (endpoint.seen, journal_records(entry)) == ([], [])
    assert (await pair.parent.send(request)).status == 200


def second_attempt(request: ExchangeRequest) -> ExchangeRequest:
    """Return another attempt with the same credential."""
    assert request.entry is not None
    about = {**request.entry.about, "attempt": "a2"}
    return replace(request, entry=Entry(request.entry.folder, "a2", about, new_key()))


async def test_a_token_is_not_sent_again_while_its_first_response_is_awaited(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest, entry: Entry
) -> None:
    """A second request comes if the parent was blocked for longer than the worker waits for a response."""
    endpoint.free.clear()
    asking = asyncio.ensure_future(pair.parent.send(request_))
    await wait_until(lambda: endpoint.seen)
    with pytest.raises(ExchangeLost, match="earlier request") as raised:
        await pair.parent.send(second_attempt(request_))
    assert raised.value.sent, "the earlier request may have been sent"
    endpoint.free.set()
    assert (await asking).status == 200
    assert (len(endpoint.seen), body_of(entry)) == (1, endpoint.response)


async def test_token_is_not_sent_again_for_a_request_made_before_the_first_reply_was_journalled(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest
) -> None:
    messages, results = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
    behind = asyncio.ensure_future(ParentLink(messages.append).send(second_attempt(request_)))
    await wait_until(lambda: messages)
    assert (await pair.parent.send(request_)).status == 200
    pair.exchanges.begin(messages[0], pair.its, results.append)
    await wait_until(lambda: results)
    assert results[0]["result"]["lost"]
    assert len(endpoint.seen) == 1
    behind.cancel()
    assert (await pair.parent.send(second_attempt(request_))).status == 200, (
        "a request that is created now follows a read of the journal"
    )


@pytest.mark.parametrize("status", [400, 503])
async def test_a_token_whose_call_was_refused_is_sent_again(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest, status: int
) -> None:
    endpoint.status = status
    messages, results = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
    behind = asyncio.ensure_future(ParentLink(messages.append).send(second_attempt(request_)))
    await wait_until(lambda: messages)
    await pair.parent.send(request_)
    pair.exchanges.begin(messages[0], pair.its, results.append)
    await wait_until(lambda: results)
    assert results[0]["result"]["status"] == status
    behind.cancel()


async def test_exchange_works_without_a_writable_journal(
    pair: Pair, request_: ExchangeRequest, entry: Entry, tmp_path: Path
) -> None:
    nowhere = replace(entry, folder=tmp_path / "none" / "journal")
    assert (await pair.parent.send(replace(request_, entry=nowhere))).status == 200
    assert pair.exchanges.journals.fault is not None
    assert (await pair.parent.send(replace(request_, entry=None))).status == 200


async def test_close_waits_for_exchanges_in_flight(
    pair: Pair, endpoint: Endpoint, request_: ExchangeRequest, entry: Entry
) -> None:
    endpoint.free.clear()
    asking = asyncio.ensure_future(pair.parent.send(request_))
    await wait_until(lambda: endpoint.seen)
    pair.kill_worker()
    closing = asyncio.ensure_future(pair.exchanges.close())
    done, _ = await asyncio.wait({closing}, timeout=0.1)
    assert not done
    endpoint.free.set()
    await closing
    assert body_of(entry) == endpoint.response
    assert living(entry.folder) == []
    assert (await asking).status == 200


async def test_a_refresh_sends_its_own_clock_and_route(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    at, requests = datetime(2031, 1, 1, tzinfo=UTC), list[ExchangeRequest]()
    monkeypatch.setattr("gateway.clock.now", lambda: at)

    async def send(request: ExchangeRequest) -> Reply:
        requests.append(request)
        return Reply(200, {}, b"", at)

    parent = ParentLink(lambda _: None)
    monkeypatch.setattr(parent, "send", send)
    route = EgressRoute((), None, 5.0, 10)
    call = ProviderCall("https://a.example/token")
    await ParentExchange(parent, lambda: route).send(call, entry, 2, timeout_s=3.0, limit_bytes=4)
    assert requests == [ExchangeRequest(call, route, entry, 2, 3.0, 4, at)]
