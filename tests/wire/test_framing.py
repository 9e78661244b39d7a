"""Request framing: the gateway refuses an ambiguous message, closes its connection, and ignores the bytes after it."""

import pytest

from tests.wire.bench import Bench, table
from tests.wire.messages import CHUNKED, HOST, KEY, OURS, connection_fields, request, upload

pytestmark = pytest.mark.asyncio(loop_scope="module")

AMBIGUOUS_HEADS = request(b"/proxy/smuggled")
NAMES = KEY + connection_fields()

LINES = table(
    ("bare line feeds all over", request().replace(b"\r\n", b"\n"), 400, "bad_framing"),
    ("a bare line feed after the request line", request().replace(b"\r\n", b"\n", 1), 400, "bad_framing"),
    ("a bare line feed after a field", request(fields=b"X-A: 1\nX-B: 2\r\n"), 400, "bad_framing"),
    ("a bare line feed as the empty line", request()[:-2] + b"\n", 400, "bad_framing"),
    ("a bare carriage return in a value", request(fields=b"X-A: 1\rX-B: 2\r\n"), 400, "bad_framing"),
    ("a bare carriage return after a value", request(fields=b"X-A: 1\r\r\n"), 400, "bad_framing"),
    ("a folded field", request(fields=b"X-A: 1\r\n 2\r\n"), 400, "bad_framing"),
    ("a field folded with a tab", request(fields=b"X-A: 1\r\n\t2\r\n"), 400, "bad_framing"),
    ("a folded Content-Length", request(fields=b"Content-Length:\r\n 3\r\n", body=b"abc"), 400, "bad_framing"),
    ("a space before the first field", b"GET /proxy/x HTTP/1.1\r\n " + OURS + b"\r\n", 400, "bad_framing"),
    ("a space before the colon", request(fields=b"X-A : 1\r\n"), 400, "bad_framing"),
    ("a tab before the colon", request(fields=b"X-A\t: 1\r\n"), 400, "bad_framing"),
    ("a space before the colon of Content-Length", upload(b"Content-Length : 3\r\n", b"abc"), 400, "bad_framing"),
    ("a space before the colon of Transfer-Encoding",
     upload(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), 400, "bad_framing"),
    ("a field without a colon", request(fields=b"X-A\r\n"), 400, "bad_framing"),
    ("a field without a name", request(fields=b": 1\r\n"), 400, "bad_framing"),
    ("a name with a space in it", request(fields=b"X A: 1\r\n"), 400, "bad_framing"),
    ("a name beyond ASCII", request(fields=b"X-\xe9: 1\r\n"), 400, "bad_framing"),
    *((f"the byte {byte:#04x} in a value", request(fields=b"X-A: 1" + bytes([byte]) + b"2\r\n"), 400, "bad_framing")
      for byte in (0x00, 0x01, 0x08, 0x0B, 0x0C, 0x1B, 0x7F)),
    ("NUL in a name", request(fields=b"X-\x00A: 1\r\n"), 400, "bad_framing"),
    ("a tab in the request line", request().replace(b"GET ", b"GET\t", 1), 400, "bad_framing"),
    ("two spaces before the target", request().replace(b"GET ", b"GET  ", 1), 400, "bad_framing"),
    ("two spaces before the version", request().replace(b" HTTP/1.1", b"  HTTP/1.1", 1), 400, "bad_framing"),
    ("an empty line and then two spaces", b"\r\n" + request().replace(b"GET ", b"GET  ", 1), 400, "bad_framing"),
    ("a space after the version", request().replace(b"1.1\r", b"1.1 \r", 1), 400, None),
    ("a space before the method", b" " + request(), 400, None),
    ("no Host", request(gateway_fields=NAMES), 400, "bad_framing"),
    ("two Hosts", request(gateway_fields=HOST + HOST + NAMES), 400, "bad_framing"),
    ("two Hosts, one of them ours", request(gateway_fields=b"Host: evil.example\r\n" + HOST + NAMES), 400, "bad_framing"),
    ("a list in Host", request(gateway_fields=b"Host: gw.example, evil.example\r\n" + NAMES), 400, "bad_framing"),
    ("a user in Host", request(gateway_fields=b"Host: a@gw.example\r\n" + NAMES), 400, "bad_framing"),
    ("a path in Host", request(gateway_fields=b"Host: gw.example/x\r\n" + NAMES), 400, "bad_framing"),
    ("a space in Host", request(gateway_fields=b"Host: gw example\r\n" + NAMES), 400, "bad_framing"),
)  # fmt: skip

AMBIGUOUS_BODIES = table(
    ("a length and a coding", b"Content-Length: 5\r\n" + CHUNKED, b"0\r\n\r\n", 400),
    ("a coding and a length", CHUNKED + b"Content-Length: 5\r\n", b"0\r\n\r\n", 400),
    ("a length of nothing and a coding", b"Content-Length: 0\r\n" + CHUNKED, b"0\r\n\r\n", 400),
    ("two lengths that differ", b"Content-Length: 3\r\nContent-Length: 5\r\n", b"abc", 400),
    ("two lengths that agree", b"Content-Length: 3\r\nContent-Length: 3\r\n", b"abc", 400),
    ("a list of lengths", b"Content-Length: 3, 3\r\n", b"abc", 400),
    *((f"the length {value!r}", b"Content-Length: " + value + b"\r\n", b"abc", 400) for value in (
        b"", b"+3", b"-3", b"3.0", b"0x3", b"3 0", b"3;", b"3e0", b"1_0", b"\xb3", "３".encode(), b"9" * 30,
        b"18446744073709551619", b'"3"')),
    ("gzip, chunked", b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n", 501),
    ("identity, chunked", b"Transfer-Encoding: identity, chunked\r\n", b"0\r\n\r\n", 501),
    ("chunked in two fields", CHUNKED + CHUNKED, b"0\r\n\r\n", 400),
    ("chunked and identity in two fields", CHUNKED + b"Transfer-Encoding: identity\r\n", b"0\r\n\r\n", None),
    ("identity and chunked in two fields", b"Transfer-Encoding: identity\r\n" + CHUNKED, b"0\r\n\r\n", None),
    ("chunked, chunked", b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n", None),
    ("chunked, gzip", b"Transfer-Encoding: chunked, gzip\r\n", b"0\r\n\r\n", None),
    ("identity", b"Transfer-Encoding: identity\r\n", b"", None),
    ("an unknown coding", b"Transfer-Encoding: cow\r\n", b"", None),
    ("an empty coding", b"Transfer-Encoding: \r\n", b"", None),
    ("chunked with a parameter", b"Transfer-Encoding: chunked;q=1\r\n", b"0\r\n\r\n", None),
    ("chunked in quotes", b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n", None),
    ("xchunked", b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n", None),
    ("chunked after a vertical tab", b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n", 400),
    ("chunked after a NUL", b"Transfer-Encoding: \x00chunked\r\n", b"0\r\n\r\n", 400),
    ("chunked and a comma", b"Transfer-Encoding: chunked,\r\n", b"0\r\n\r\n", None),
    ("chunked with a Kelvin sign", "Transfer-Encoding: chun\u212aed\r\n".encode(), b"0\r\n\r\n", 501),
    ("chunked after a no-break space", b"Transfer-Encoding: \xa0chunked\r\n", b"0\r\n\r\n", None),
)  # fmt: skip

INVALID_CHUNKS = table(
    ("a size that is no number", b"zz\r\nabc\r\n0\r\n\r\n"),
    ("a size with a sign", b"+3\r\nabc\r\n0\r\n\r\n"),
    ("a negative size", b"-3\r\nabc\r\n0\r\n\r\n"),
    ("a size with a prefix", b"0x3\r\nabc\r\n0\r\n\r\n"),
    ("an empty size", b"\r\nabc\r\n0\r\n\r\n"),
    ("a space after a size", b"3 \r\nabc\r\n0\r\n\r\n"),
    ("a space before a size", b" 3\r\nabc\r\n0\r\n\r\n"),
    ("an underscore in a size", b"1_0\r\n0123456789abcdef\r\n0\r\n\r\n"),
    ("a size beyond 64 bits", b"10000000000000003\r\nabc\r\n0\r\n\r\n"),
    ("a chunk longer than its size", b"3\r\nabcd\r\n0\r\n\r\n"),
    ("a chunk shorter than its size", b"4\r\nabc\r\n0\r\n\r\n"),
    ("a chunk without its end", b"3\r\nabc0\r\n\r\n"),
    ("a size line with a bare line feed", b"3\nabc\r\n0\r\n\r\n"),
    ("a chunk that ends with a bare line feed", b"3\r\nabc\n0\r\n\r\n"),
    ("a chunk that ends with a bare carriage return", b"3\r\nabc\r0\r\n\r\n"),
    ("an extension without a name", b"3;\r\nabc\r\n0\r\n\r\n"),
    ("a second extension without a name", b"3;a;\r\nabc\r\n0\r\n\r\n"),
    ("an extension whose string does not end", b'3;a="b\r\nabc\r\n0\r\n\r\n'),
    ("an extension with a bare line feed", b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    ("an extension with a bare carriage return", b"3;a\rb\r\nabc\r\n0\r\n\r\n"),
    ("an extension with NUL", b"3;a\x00\r\nabc\r\n0\r\n\r\n"),
    ("a trailer with a bare line feed", b"3\r\nabc\r\n0\r\nX: 1\n\r\n"),
    ("a trailer without a colon", b"3\r\nabc\r\n0\r\nX\r\n\r\n"),
    ("a folded trailer", b"3\r\nabc\r\n0\r\nX: 1\r\n 2\r\n\r\n"),
    ("a trailer with NUL", b"3\r\nabc\r\n0\r\nX: \x00\r\n\r\n"),
    ("a trailer that declares a length", b"3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n"),
    ("a trailer that declares a coding", b"3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("an extension of 200 KB", b"3;" + b"x" * 200_000 + b"\r\nabc\r\n0\r\n\r\n"),
    ("trailers of 200 KB", b"3\r\nabc\r\n0\r\n" + b"X: y\r\n" * 33_000 + b"\r\n"),
)


@pytest.mark.parametrize("behind", [b"", AMBIGUOUS_HEADS], ids=["alone", "with another behind"])
@pytest.mark.parametrize(("data", "status", "code"), LINES)
async def test_an_ambiguous_head_is_refused(
    bench: Bench, data: bytes, status: int, code: str | None, behind: bytes
) -> None:
    response = await bench.refused(data + behind)
    assert response.status == status
    assert response.code == code if code else response.code in ("bad_framing", "bad_path")


@pytest.mark.parametrize("behind", [b"", AMBIGUOUS_HEADS], ids=["alone", "with another behind"])
@pytest.mark.parametrize(("fields", "body", "status"), AMBIGUOUS_BODIES)
async def test_a_body_with_ambiguous_framing_is_refused(
    bench: Bench, fields: bytes, body: bytes, status: int | None, behind: bytes
) -> None:
    response = await bench.refused(upload(fields, body + behind))
    assert response.status == status if status else response.status in (400, 501)
    assert response.code in ("bad_framing", "not_supported")


@pytest.mark.parametrize("behind", [b"", AMBIGUOUS_HEADS], ids=["alone", "with another behind"])
@pytest.mark.parametrize("body", INVALID_CHUNKS)
async def test_a_body_with_invalid_chunks_never_arrives_complete(bench: Bench, body: bytes, behind: bytes) -> None:
    async with bench.talk(upload(CHUNKED, body + behind)) as caller:
        response = await caller.response()
        assert (response.status, response.code) == (400, "bad_framing")
        assert await caller.rest() == b""
    await bench.serves_others()
    whole = [received.target for received in bench.recorder.requests if received.partial is None]
    assert whole == [bench.last_target]
    assert bench.recorder.faults == []


@pytest.mark.parametrize("position", [1, 4, 9, 15, 30, 60, 100, 140])
async def test_a_message_is_the_same_wherever_it_is_split(bench: Bench, position: int) -> None:
    data = request(b"/proxy/cut%2Fhere?a", b"X-A: 1\r\n")
    received, _ = await bench.passes(data[:position], data[position:])
    assert (received.target, received.passed_on) == (b"/cut%2Fhere?a", [b"X-A: 1"])


async def test_a_message_sent_byte_by_byte_is_the_same_message(bench: Bench) -> None:
    data = upload(CHUNKED, b"3;a=b\r\nabc\r\n0\r\nX: 1\r\n\r\n")
    received, _ = await bench.passes(*(data[n : n + 1] for n in range(len(data))))
    assert received.body.data == b"abc"


@pytest.mark.parametrize("position", [100_000, 3000, 300])
async def test_a_long_chunk_extension_is_dropped(bench: Bench, position: int) -> None:
    """An extension of up to 16 KB is dropped, whether it arrives with the head or in several pieces."""
    data = upload(CHUNKED, b"3\r\nabc\r\n3;" + b"x" * 10_000 + b"\r\ndef\r\n0\r\n\r\n")
    received, _ = await bench.passes(*filter(None, (data[:position], data[position:])))
    assert received.body.data == b"abcdef"


async def test_a_request_line_in_pieces_is_checked_too(bench: Bench) -> None:
    """RFC 9112 §3 lets a reader accept two spaces instead of one. Not all readers do, so the gateway refuses such a
    line.
    """
    rest = request().removeprefix(b"GET /proxy/x HTTP/1.1")
    pieces = (b"GET ", b" /pro", b"xy/x HTTP/1.1" + rest[:9], rest[9:])
    response = await bench.refuses(*pieces, status=400, code="bad_framing")
    assert "more than one space" in response.message


TOO_LARGE_HEADS = table(
    ("a target of 20 KB", request(b"/proxy/" + b"a" * 20_000)),
    ("a value of 20 KB", request(fields=b"X-A: " + b"a" * 20_000 + b"\r\n")),
    ("a name of 20 KB", request(fields=b"X" + b"a" * 20_000 + b": 1\r\n")),
    ("four values of 10 KB", request(fields=b"".join(b"X-%d: %s\r\n" % (n, b"a" * 10_000) for n in range(4)))),
    ("300 fields", request(fields=b"X:1\r\n" * 300)),
    ("5000 fields", request(fields=b"X:1\r\n" * 5000)),
)


@pytest.mark.parametrize("data", TOO_LARGE_HEADS)
async def test_a_head_that_is_too_large_is_refused(bench: Bench, data: bytes) -> None:
    response = await bench.refuses(data, status=431, code="headers_too_large")
    assert "headers are too large" in response.message
