"""Request bodies: the same bytes in the gateway's framing, complete or visibly truncated."""

import gzip
from typing import Any

import pytest

from tests.wire.bench import Bench, table
from tests.wire.messages import CHUNKED, request, sized_upload, upload
from tests.wire.recorder import ok, sends, turns

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERY_BYTE = bytes(range(256))
ODD = b"0\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n"

BODIES = table(
    ("one byte", b"x"),
    ("every byte there is", EVERY_BYTE),
    ("line ends only", b"\r\n\r\n\n\r"),
    ("the end of a chunked body", b"0\r\n\r\n"),
    ("another request", ODD),
    ("JSON with odd spacing", b'{ "a" :1,\r\n"a":2 }\n'),
    ("a form with encoded letters", b"a=%41+b&&a=%zz"),
    ("multipart", b'--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n\x00\xff\r\n--b--\r\n'),
    ("gzip", gzip.compress(b"text" * 100, mtime=0)),
    ("300 KB", EVERY_BYTE * 1200),
)


@pytest.mark.parametrize("body", BODIES)
async def test_a_body_of_declared_length_arrives_complete(bench: Bench, body: bytes) -> None:
    received, _ = await bench.passes(sized_upload(body, b"Content-Encoding: gzip\r\nContent-Type: a/b\r\n"))
    assert (received.body.data, received.body.framing) == (body, "length")
    assert received.passed_on == [b"Content-Encoding: gzip", b"Content-Type: a/b"]


@pytest.mark.parametrize("body", BODIES)
async def test_a_chunked_body_arrives_complete(bench: Bench, body: bytes) -> None:
    chunks = b"".join(
        b"%X\r\n%s\r\n" % (len(body[at : at + 999]), body[at : at + 999]) for at in range(0, len(body), 999)
    )
    received, _ = await bench.passes(upload(CHUNKED, chunks + b"0\r\n\r\n"))
    assert (received.body.data, received.body.framing) == (body, "chunks")


CHUNKS = table(
    ("extensions are dropped", b"3;a=b;c\r\nabc\r\n0;last\r\n\r\n", b"abc"),
    ("an extension in quotes", b'3;a="b;c"\r\nabc\r\n0\r\n\r\n', b"abc"),
    ("zeros before a size", b"0003\r\nabc\r\n0000\r\n\r\n", b"abc"),
    ("sizes in either case", b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", b"01234567890123456789"),
    ("trailers are dropped", b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n", b"abc"),
    ("trailers that look like ours", b"3\r\nabc\r\n0\r\nConnection-Id: c2\r\nAuthorization: Bearer x\r\n\r\n", b"abc"),
    ("a trailer that names a host", b"3\r\nabc\r\n0\r\nHost: evil.example\r\n\r\n", b"abc"),
    ("no data at all", b"0\r\n\r\n", b""),
    ("chunks of one byte", b"1\r\nx\r\n" * 500 + b"0\r\n\r\n", b"x" * 500),
)


@pytest.mark.parametrize(("chunks", "body"), CHUNKS)
async def test_only_the_data_of_chunks_is_forwarded(bench: Bench, chunks: bytes, body: bytes) -> None:
    received, _ = await bench.passes(upload(CHUNKED, chunks))
    assert received.body.data == body
    assert received.body.trailers == ()
    assert b";" not in received.body.raw


@pytest.mark.parametrize("coding", [b"chunked", b"CHUNKED", b"Chunked", b"  chunked  "])
async def test_the_transfer_coding_is_case_insensitive(bench: Bench, coding: bytes) -> None:
    received, _ = await bench.passes(upload(b"Transfer-Encoding: " + coding + b"\r\n", b"3\r\nabc\r\n0\r\n\r\n"))
    assert received.body.data == b"abc"


REQUESTS_WITHOUT_BODY = table(
    ("GET without a length", b"GET", b"", "none"),
    ("DELETE without a length", b"DELETE", b"", "none"),
    ("OPTIONS without a length", b"OPTIONS", b"", "none"),
    ("GET with a length of nothing", b"GET", b"Content-Length: 0\r\n", "length"),
    ("DELETE with a length of nothing", b"DELETE", b"Content-Length: 0\r\n", "length"),
    ("POST with a length of nothing", b"POST", b"Content-Length: 0\r\n", "length"),
    ("POST without a length", b"POST", b"", "length"),
    ("a length with zeros before it", b"POST", b"Content-Length: 000\r\n", "length"),
)


@pytest.mark.parametrize(("method", "fields", "framing"), REQUESTS_WITHOUT_BODY)
async def test_a_request_without_a_body_is_forwarded_without_one(
    bench: Bench, method: bytes, fields: bytes, framing: str
) -> None:
    received, _ = await bench.passes(request(fields=fields, method=method))
    assert (received.body.data, received.body.framing) == (b"", framing)


async def test_a_body_sent_in_pieces_arrives_while_it_is_sent(bench: Bench) -> None:
    async with bench.talk(upload(b"Content-Length: 6\r\n")) as caller:
        await turns()
        assert [received.target for received in bench.recorder.requests] == [b"/x"]
        await caller.send(b"abc")
        await turns()
        await caller.send(b"def")
        assert (await caller.response()).status == 200
    assert bench.recorder.requests[0].body.data == b"abcdef"


INCOMPLETE_BODIES = table(
    ("in the middle of its length", b"Content-Length: 10\r\n", b"abc"),
    ("before its first byte", b"Content-Length: 10\r\n", b""),
    ("in the middle of a chunk", CHUNKED, b"5\r\nab"),
    ("after a chunk", CHUNKED, b"2\r\nab\r\n"),
    ("in the middle of a size", CHUNKED, b"2\r\nab\r\n1"),
    ("before the last empty line", CHUNKED, b"2\r\nab\r\n0\r\n"),
    ("in a trailer", CHUNKED, b"2\r\nab\r\n0\r\nX-Su"),
)


@pytest.mark.parametrize("ending", ["half-closed", "closed", "reset"])
@pytest.mark.parametrize(("fields", "body"), INCOMPLETE_BODIES)
async def test_a_body_that_breaks_off_never_arrives_complete(
    bench: Bench, fields: bytes, body: bytes, ending: str
) -> None:
    async with bench.talk(upload(fields, body)) as caller:
        await turns()
        if ending == "half-closed":
            caller.writer.write_eof()
            await caller.rest()
        elif ending == "closed":
            caller.writer.close()
        else:
            caller.reset()
        await turns()
    await bench.serves_others()
    assert all(received.target != b"/x" or received.partial is not None for received in bench.recorder.requests)
    assert bench.recorder.faults == []


REST_LENGTH = b"Content-Length: %d\r\n" % (5 + len(ODD))
EARLY_RESPONSES = table(
    ("of declared length", REST_LENGTH, b"hello", ODD),
    ("chunked", CHUNKED, b"5\r\nhello\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(ODD), ODD)),
)


@pytest.mark.parametrize("then", ["keep", "close"])
@pytest.mark.parametrize(("fields", "first", "rest"), EARLY_RESPONSES)
async def test_a_response_before_the_end_of_the_upload_is_forwarded_immediately(
    bench: Bench, fields: bytes, first: bytes, rest: bytes, then: Any
) -> None:
    early = sends(ok(b"no").replace(b"200 OK", b"413 Too Large"), early=True, then=then)
    async with bench.talk(upload(fields, first), script=early) as caller:
        response = await caller.response()
        assert (response.status, response.code, response.body.data) == (413, "", b"no")
        await caller.send(rest)
        if response.head.one("connection") != b"close":
            await bench.goes_on(caller, kept=True)
    await bench.serves_others()
    assert b"/evil" not in [received.target for received in bench.recorder.requests]
