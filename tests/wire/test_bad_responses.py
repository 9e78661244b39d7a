"""Bad responses of a provider: the caller gets 502 if none of it was sent yet, otherwise a truncated response.

A bad response has no effect on other callers.
"""

import pytest

from tests.wire.bench import Bench, table
from tests.wire.messages import CLOSE, HOST, KEY, connection_fields, request
from tests.wire.recorder import ScriptedHttpResponse, ok, sends, turns

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED_OK = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

INVALID_RESPONSES = table(
    ("nothing at all", sends(b"", then="close")),
    ("nothing, and a reset", sends(b"", then="reset")),
    ("half a head", sends(HEAD + b"Content-Le", then="close")),
    ("half a head, and a reset", sends(HEAD + b"Content-Le", then="reset")),
    ("text", sends(b"this is not HTTP\r\n\r\n", then="close")),
    ("HTML", sends(b"<html>hello</html>", then="close")),
    ("another protocol", sends(b"SSH-2.0-OpenSSH_9.6\r\n", then="close")),
    ("TLS", sends(b"\x15\x03\x01\x00\x02\x02\x46", then="close")),
    ("HTTP/2.0", sends(b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", then="close")),
    ("HTTP/0.9", sends(b"HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok", then="close")),
    ("a status of two digits", sends(b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok", then="close")),
    ("a status of four digits", sends(b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok", then="close")),
    ("a status of letters", sends(b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\nok", then="close")),
    ("a status of 000", sends(b"HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\nok", then="close")),
    ("a negative status", sends(b"HTTP/1.1 -20 OK\r\nContent-Length: 2\r\n\r\nok", then="close")),
    ("a switch of protocols", sends(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", then="close")),
    ("interim responses only", sends(b"HTTP/1.1 100 Continue\r\n\r\n" * 3, then="close")),
    ("a length and a coding", sends(HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
    ("a coding and a length", sends(HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n")),
    ("two lengths that differ", sends(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nokk")),
    ("a list of lengths that differ", sends(HEAD + b"Content-Length: 2, 3\r\n\r\nokk")),
    ("a negative length", sends(HEAD + b"Content-Length: -2\r\n\r\nok")),
    ("a length with a sign", sends(HEAD + b"Content-Length: +2\r\n\r\nok")),
    ("a length that is no number", sends(HEAD + b"Content-Length: many\r\n\r\nok")),
    ("a length beyond 64 bits", sends(HEAD + b"Content-Length: 99999999999999999999999\r\n\r\nok")),
    ("a length with a space inside", sends(HEAD + b"Content-Length: 2 0\r\n\r\nok")),
    ("an empty length", sends(HEAD + b"Content-Length: \r\n\r\nok", then="close")),
    ("gzip, chunked", sends(HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", then="close")),
    ("chunked, identity", sends(HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n2\r\nok\r\n0\r\n\r\n", then="close")),
    ("chunked twice", sends(HEAD + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n2\r\nok\r\n0\r\n\r\n", then="close")),
    ("an unknown coding", sends(HEAD + b"Transfer-Encoding: cow\r\n\r\n2\r\nok\r\n0\r\n\r\n", then="close")),
    ("chunked with a Kelvin sign",
     sends(HEAD + "Transfer-Encoding: chun\u212aed\r\n\r\n2\r\nok\r\n0\r\n\r\n".encode(), then="close")),
    ("chunked in HTTP/1.0", sends(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", then="close")),
    ("NUL in a value", sends(HEAD + b"X: a\x00b\r\nContent-Length: 2\r\n\r\nok")),
    ("a control byte in a value", sends(HEAD + b"X: a\x01b\r\nContent-Length: 2\r\n\r\nok")),
    ("a bare carriage return in a value", sends(HEAD + b"X: a\rb\r\nContent-Length: 2\r\n\r\nok")),
    ("a bare carriage return that hides a field",
     sends(HEAD + b"X: a\rContent-Length: 0\r\nContent-Length: 2\r\n\r\nok")),
    ("bare line feeds", sends((HEAD + b"Content-Length: 2\r\n\r\n").replace(b"\r\n", b"\n") + b"ok")),
    ("a bare line feed after a field", sends(HEAD + b"X: a\nContent-Length: 2\r\n\r\nok")),
    ("a folded field", sends(HEAD + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\nok")),
    ("a space before a colon", sends(HEAD + b"X : a\r\nContent-Length: 2\r\n\r\nok")),
    ("a space before the colon of the length", sends(HEAD + b"Content-Length : 2\r\n\r\nok")),
    ("a name with a space", sends(HEAD + b"X Y: a\r\nContent-Length: 2\r\n\r\nok")),
    ("a field without a name", sends(HEAD + b": a\r\nContent-Length: 2\r\n\r\nok")),
    ("a field without a colon", sends(HEAD + b"nonsense\r\nContent-Length: 2\r\n\r\nok")),
    ("a space before the first field", sends(HEAD + b" X: a\r\nContent-Length: 2\r\n\r\nok")),
    ("an empty line before the response", sends(b"\r\n" + ok())),
    ("a control byte in the reason", sends(b"HTTP/1.1 200 O\x01K\r\nContent-Length: 2\r\n\r\nok")),
    ("a head of 70 KB in one field", sends(HEAD + b"X: " + b"a" * 70_000 + b"\r\n\r\n", then="close")),
    ("a head of 100 KB in many", sends(HEAD + b"X: " + (b"a" * 1000 + b"\r\nX: ") * 100 + b"\r\n\r\n", then="close")),
)  # fmt: skip


@pytest.mark.parametrize("script", INVALID_RESPONSES)
async def test_a_response_that_is_not_valid_http_is_a_502(bench: Bench, script: ScriptedHttpResponse) -> None:
    response = await bench.responded(script)
    assert (response.status, response.code[:9]) == (502, "upstream_")


INCOMPLETE_RESPONSES = table(
    ("a length that is not reached", sends(HEAD + b"Content-Length: 10\r\n\r\n", b"abc", then="close")),
    ("a length that is not reached, and a reset", sends(HEAD + b"Content-Length: 10\r\n\r\n", b"abc", then="reset")),
    ("a length, and nothing", sends(HEAD + b"Content-Length: 10\r\n\r\n", then="close")),
    ("chunks without the last", sends(CHUNKED_OK, b"3\r\nabc\r\n", then="close")),
    ("chunks without the last, and a reset", sends(CHUNKED_OK, b"3\r\nabc\r\n", then="reset")),
    ("half a chunk", sends(CHUNKED_OK, b"5\r\nabc", then="close")),
    ("a last chunk without the empty line", sends(CHUNKED_OK, b"3\r\nabc\r\n0\r\n", then="close")),
    ("a trailer that breaks off", sends(CHUNKED_OK, b"3\r\nabc\r\n0\r\nX: a", then="close")),
    ("a size that is no number", sends(CHUNKED_OK, b"3\r\nabc\r\nzz\r\nabc\r\n0\r\n\r\n")),
    ("a negative size", sends(CHUNKED_OK, b"3\r\nabc\r\n-1\r\nabc\r\n0\r\n\r\n")),
    ("a size with a prefix", sends(CHUNKED_OK, b"3\r\nabc\r\n0x3\r\nabc\r\n0\r\n\r\n")),
    ("a size beyond 64 bits", sends(CHUNKED_OK, b"3\r\nabc\r\n10000000000000003\r\nabc\r\n0\r\n\r\n")),
    ("a chunk longer than its size", sends(CHUNKED_OK, b"3\r\nabc\r\n2\r\nabc\r\n0\r\n\r\n")),
    ("a size with a space after it", sends(CHUNKED_OK, b"3\r\nabc\r\n3 \r\nabc\r\n0\r\n\r\n")),
    ("a size with a bare line feed", sends(CHUNKED_OK, b"3\r\nabc\r\n3\nabc\r\n0\r\n\r\n")),
    ("a chunk that ends with a bare line feed", sends(CHUNKED_OK, b"3\r\nabc\n0\r\n\r\n")),
    ("no length, and a reset", sends(HEAD + b"\r\n", b"abc", then="reset")),
    ("HTTP/1.0 without a length, and a reset", sends(b"HTTP/1.0 200 OK\r\n\r\n", b"abc", then="reset")),
)  # fmt: skip


@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"], ids=["1.1", "1.0"])
@pytest.mark.parametrize("script", INCOMPLETE_RESPONSES)
async def test_a_response_that_breaks_off_never_looks_complete(
    bench: Bench, script: ScriptedHttpResponse, version: bytes
) -> None:
    response = await bench.responded(script, request(version=version))
    assert (response.end == "torn" and response.code == "") or response.status == 502


UNREQUESTED_BYTES = table(
    ("a second response", sends(ok(b"one") + EVIL)),
    ("a second response a moment later", sends(ok(b"one"), EVIL)),
    ("a second response after chunks", sends(CHUNKED_OK + b"3\r\none\r\n0\r\n\r\n" + EVIL)),
    ("bytes beyond the length", sends(ok(b"one") + b"x")),
    ("line ends beyond the length", sends(ok(b"one") + b"\r\n\r\n")),
    ("half a response beyond the length", sends(ok(b"one") + b"HTTP/1.1 200 OK\r\nContent-")),
    ("an interim response afterwards", sends(ok(b"one") + b"HTTP/1.1 100 Continue\r\n\r\n")),
)


@pytest.mark.parametrize("script", UNREQUESTED_BYTES)
async def test_unrequested_bytes_are_not_a_response(bench: Bench, script: ScriptedHttpResponse) -> None:
    response = await bench.responded(script)
    assert (response.status, response.body.data, response.code) == (200, b"one", "") or response.status == 502
    assert bench.recorder.requests[0].connection != bench.recorder.requests[-1].connection


BODIES_AFTER_BODILESS_RESPONSES = table(
    ("a body after HEAD", b"HEAD", ok(b"evil")),
    ("a whole response after HEAD", b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(EVIL) + EVIL),
    ("a body after 204", b"GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil"),
    ("a response after 204", b"GET", b"HTTP/1.1 204 No Content\r\n\r\n" + EVIL),
    ("chunks after 204", b"GET", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"),
    ("a body after 304", b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil"),
    ("a response after 304", b"GET", b"HTTP/1.1 304 Not Modified\r\n\r\n" + EVIL),
)  # fmt: skip


@pytest.mark.parametrize(("method", "said"), BODIES_AFTER_BODILESS_RESPONSES)
async def test_a_body_after_a_bodiless_response_is_not_a_response(bench: Bench, method: bytes, said: bytes) -> None:
    response = await bench.responded(sends(said), request(method=method))
    assert response.status in (200, 204, 304, 502)
    assert b"evil" not in response.body.data
    assert bench.recorder.requests[0].connection != bench.recorder.requests[-1].connection


async def test_a_provider_that_does_not_listen_is_a_502(bench: Bench) -> None:
    async with bench.talk(request(fields=CLOSE, gateway_fields=HOST + KEY + connection_fields(b"nowhere"))) as caller:
        response = await caller.response()
    assert (response.status, response.code) == (502, "upstream_unreachable")
    assert "could not be reached" in response.message
    assert "check the hosts of integration 'nowhere' with `gateway doctor`" in response.message
    assert bench.recorder.requests == []


async def test_a_response_before_its_request_is_discarded(bench: Bench) -> None:
    """The provider sends on an idle connection between two calls."""
    await bench.responded(sends(ok(b"one")))
    await bench.responded(sends(ok(b"two"), EVIL))
    await turns()
    for _ in range(5):
        await bench.serves_others()
    spoken_out, *after = [received.connection for received in bench.recorder.requests]
    assert spoken_out not in after


async def test_a_broken_response_does_not_affect_the_next_on_the_same_connection(bench: Bench) -> None:
    """The gateway's 502 is complete, so the client's connection stays open. The provider's connection is closed."""
    response = await bench.responded(sends(b"this is not HTTP\r\n\r\n", then="keep"))
    assert response.status == 502
    assert bench.recorder.requests[0].connection != bench.recorder.requests[-1].connection
