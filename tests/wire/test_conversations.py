"""Several messages on one connection: responses keep the order of their requests. After a fault nothing more is read."""

import pytest

from tests.wire.bench import Bench, table
from tests.wire.messages import CHUNKED, CLOSE, HOST, KEY, connection_fields, request, sized_upload, upload
from tests.wire.recorder import ok, sends, turns

pytestmark = pytest.mark.asyncio(loop_scope="module")

A, B, C = (request(b"/proxy/after-" + name) for name in (b"A", b"B", b"C"))
EXPECTING = b"Expect: 100-continue\r\n"
BAD_PATH = request(b"/proxy/..")
NO_KEY = request(gateway_fields=HOST + connection_fields())
UNKNOWN = request(gateway_fields=HOST + KEY + connection_fields(connection=b"nobody"))
ELSEWHERE = request(b"/nowhere")

# The columns: bytes that are sent together, the expected statuses, and whether the connection is closed after them.
CONVERSATIONS = table(
    ("three requests", A + B + C, [b"/after-A", b"/after-B", b"/after-C"], False),
    ("an upload between two", A + upload(CHUNKED, b"3\r\nabc\r\n0\r\n\r\n", target=b"/proxy/after-B") + C,
     [b"/after-A", b"/after-B", b"/after-C"], False),
    ("an upload with trailers between two",
     A + upload(CHUNKED, b"3\r\nabc\r\n0\r\nX: 1\r\n\r\n", target=b"/proxy/after-B") + C,
     [b"/after-A", b"/after-B", b"/after-C"], False),
    ("empty lines between requests", A + b"\r\n\r\n" + B, [b"/after-A", b"/after-B"], False),
    ("a wrong path between two", A + BAD_PATH + C, [b"/after-A", 400, b"/after-C"], False),
    ("no key between two", A + NO_KEY + C, [b"/after-A", 401, b"/after-C"], False),
    ("an unknown connection between two", A + UNKNOWN + C, [b"/after-A", 404, b"/after-C"], False),
    ("an unknown path between two", A + ELSEWHERE + C, [b"/after-A", 404, b"/after-C"], False),
    ("a whole upload without a key between two",
     A + request(b"/proxy/x", b"Content-Length: 3\r\n", b"abc", method=b"POST", gateway_fields=HOST + connection_fields()) + C,
     [b"/after-A", 401, b"/after-C"], False),
    ("nonsense between two", A + b"nonsense\r\n\r\n" + C, [b"/after-A", 400], True),
    ("two framings between two", A + upload(CHUNKED + b"Content-Length: 3\r\n", b"0\r\n\r\n") + C, [b"/after-A", 400], True),
    ("HTTP/2.0 between two", A + request(version=b"HTTP/2.0") + C, [b"/after-A", 505], True),
    ("a control byte between two", A + request(b"/proxy/\x01") + C, [b"/after-A", 400], True),
    ("TRACE between two", A + request(method=b"TRACE") + C, [b"/after-A", 405], True),
    ("a close before another", request(b"/proxy/after-A", CLOSE) + B, [b"/after-A"], True),
    ("HTTP/1.0 before another", request(b"/proxy/after-A", version=b"HTTP/1.0") + B, [b"/after-A"], True),
    ("a body full of requests", request(b"/proxy/after-A", b"Content-Length: %d\r\n" % len(B), B, method=b"POST") + C,
     [b"/after-A", b"/after-C"], False),
    ("GET with a body full of a request", request(b"/proxy/after-A", b"Content-Length: %d\r\n" % len(B), B) + C,
     [b"/after-A", b"/after-C"], False),
    ("a chunk full of requests",
     upload(CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(B), B), target=b"/proxy/after-A") + C,
     [b"/after-A", b"/after-C"], False),
    ("an upgrade to h2c, then another",
     request(b"/proxy/after-A", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n") + B,
     [b"/after-A", b"/after-B"], False),
    ("an upload that asks for h2c, then another",
     upload(b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n", b"abc", target=b"/proxy/after-A") + B,
     [b"/after-A"], True),
)  # fmt: skip


@pytest.mark.parametrize("at_once", [True, False], ids=["in one piece", "cut in the middle"])
@pytest.mark.parametrize(("data", "expected", "closed"), CONVERSATIONS)
async def test_messages_on_one_connection_get_their_responses_in_order(
    bench: Bench, data: bytes, expected: list[bytes | int], closed: bool, at_once: bool
) -> None:
    pieces = [data] if at_once else [data[: len(data) // 2], data[len(data) // 2 :]]
    async with bench.talk(*pieces) as caller:
        for item in expected:
            response = await caller.response()
            assert item in (response.status, response.body.data)
            assert bool(response.code) == isinstance(item, int)
        if closed:
            assert await caller.rest() == b""
        else:
            await bench.goes_on(caller, kept=True)
    targets = [received.target for received in bench.recorder.requests]
    assert targets == [entry for entry in expected if isinstance(entry, bytes)] + (
        [] if closed else [bench.last_target]
    )
    bench.check_arrivals()


async def test_forty_pipelined_requests_get_responses_in_order(bench: Bench) -> None:
    async with bench.talk(b"".join(request(b"/proxy/after-%02d" % n) for n in range(40))) as caller:
        for n in range(40):
            assert (await caller.response()).body.data == b"/after-%02d" % n


async def test_a_hundred_uploads_use_one_connection_to_the_provider(bench: Bench) -> None:
    async with bench.talk() as caller:
        for n in range(100):
            await caller.send(upload(CHUNKED, b"2\r\nab\r\n0\r\n\r\n", target=b"/proxy/after-%d" % n))
            assert (await caller.response(b"POST")).body.data == b"/after-%d" % n
    assert len({received.connection for received in bench.recorder.requests}) == 1


async def test_an_accepted_upload_gets_100_continue(bench: Bench) -> None:
    async with bench.talk(upload(EXPECTING + b"Content-Length: 3\r\n")) as caller:
        assert await caller.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await caller.send(b"abc")
        assert (await caller.response(b"POST")).status == 200
        await bench.goes_on(caller, kept=True)
    assert bench.recorder.requests[0].body.data == b"abc"
    bench.check_arrivals()


REFUSED_UPLOADS = table(
    ("without a key", request(b"/proxy/x", EXPECTING + b"Content-Length: 3\r\n", method=b"POST", gateway_fields=HOST + connection_fields()), 401),
    ("to an unknown connection", request(
        b"/proxy/x", EXPECTING + b"Content-Length: 3\r\n", method=b"POST", gateway_fields=HOST + KEY + connection_fields(connection=b"no")), 404),
    ("with a wrong path", upload(EXPECTING + b"Content-Length: 3\r\n", target=b"/proxy/.."), 400),
    ("with a field that cannot be sent", upload(EXPECTING + b"Service-Worker: script\r\nContent-Length: 3\r\n"), 400),
    ("with another expectation", upload(b"Expect: 200-ok\r\nContent-Length: 3\r\n"), 417),
    ("with two expectations", upload(EXPECTING + b"Expect: x\r\nContent-Length: 3\r\n"), None),
)  # fmt: skip


@pytest.mark.parametrize(("data", "status"), REFUSED_UPLOADS)
async def test_a_refused_upload_gets_no_100_continue_and_its_connection_ends(
    bench: Bench, data: bytes, status: int | None
) -> None:
    async with bench.talk(data) as caller:
        response = await caller.response(b"POST")
        assert response.status == status if status else response.status in (400, 417), response
        assert response.interim == ()
        assert response.head.one("connection") == b"close"
        await caller.send(b"abc" + A)
        assert await caller.rest() == b""
    await bench.serves_others()
    assert [received.target for received in bench.recorder.requests] == [bench.last_target]


ARRIVED_BODIES = table(
    ("a body that comes with its head", sized_upload(b"abc", EXPECTING)),
    ("an expectation in capitals", sized_upload(b"abc", b"EXPECT: 100-CONTINUE\r\n")),
    ("HTTP/1.0, which knows no interim responses",
     request(b"/proxy/x", EXPECTING + b"Content-Length: 3\r\nConnection: keep-alive\r\n", b"abc", method=b"POST",
             version=b"HTTP/1.0")),
)  # fmt: skip


@pytest.mark.parametrize("data", ARRIVED_BODIES)
async def test_a_body_that_has_arrived_gets_no_100_continue(bench: Bench, data: bytes) -> None:
    async with bench.talk(data) as caller:
        assert (await caller.response(b"POST")).status == 200
    assert bench.recorder.requests[0].body.data == b"abc"
    bench.check_arrivals()


async def test_a_refusal_before_the_body_has_arrived_reaches_the_caller(bench: Bench) -> None:
    early = sends(ok(b"no").replace(b"200 OK", b"403 Forbidden"), early=True, then="close")
    async with bench.talk(upload(EXPECTING + b"Content-Length: 3\r\n"), script=early) as caller:
        response = await caller.response(b"POST")
        assert (response.status, response.code) == (403, "")
        await turns()
    await bench.serves_others()
