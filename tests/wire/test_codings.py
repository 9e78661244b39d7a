"""Content codings are forwarded unchanged in both directions, and decoded on request up to a limit."""

import gzip
import zlib

import brotli
import pytest
import zstandard

from tests.wire.bench import Bench, table
from tests.wire.messages import HOST, KEY, connection_fields, request
from tests.wire.recorder import ok, sends

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = b'{"hello": "world"}' * 200
GZIP, DEFLATE = gzip.compress(TEXT, mtime=0), zlib.compress(TEXT)
RAW_DEFLATE = zlib.compressobj(wbits=-15)
RAW = RAW_DEFLATE.compress(TEXT) + RAW_DEFLATE.flush()
BROTLI, ZSTD = brotli.compress(TEXT), zstandard.compress(TEXT)
DECODING_REQUEST = request(gateway_fields=HOST + KEY + connection_fields(b"decoding"))

CODED_BODIES = table(
    ("gzip", b"gzip", GZIP),
    ("GZIP in capitals", b"GZIP", GZIP),
    ("x-gzip", b"x-gzip", GZIP),
    ("deflate", b"deflate", DEFLATE),
    ("deflate without its wrapper", b"deflate", RAW),
    ("br", b"br", BROTLI),
    ("zstd", b"zstd", ZSTD),
    ("gzip in two members", b"gzip", gzip.compress(TEXT[:100], mtime=0) + gzip.compress(TEXT[100:], mtime=0)),
    ("gzip over deflate", b"deflate, gzip", gzip.compress(DEFLATE, mtime=0)),
)


@pytest.mark.parametrize(("coding", "coded"), CODED_BODIES)
async def test_a_compressed_response_is_forwarded_unchanged(bench: Bench, coding: bytes, coded: bytes) -> None:
    response = await bench.responded(sends(ok(coded, b"Content-Encoding: " + coding + b"\r\n")))
    assert (response.body.data, response.head.one("content-encoding")) == (coded, coding)


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "in pieces"])
@pytest.mark.parametrize(("coding", "coded"), CODED_BODIES)
async def test_a_compressed_response_is_decoded_on_request(
    bench: Bench, coding: bytes, coded: bytes, cut: bool
) -> None:
    said = ok(coded, b'ETag: "x"\r\nContent-Encoding: ' + coding + b"\r\n")
    script = sends(said[: -len(coded) // 2], said[-len(coded) // 2 : -1], said[-1:]) if cut else sends(said)
    response = await bench.responded(script, DECODING_REQUEST)
    assert response.body.data == TEXT
    assert response.head.all("content-encoding") == []
    assert response.head.one("etag") == b'W/"x"'


UNDECODABLE_RESPONSES = table(
    ("a coding that is not known", b"200 OK", b"compress", b"abc"),
    ("identity", b"200 OK", b"identity", b"abc"),
    ("a known coding over one that is not", b"200 OK", b"compress, gzip", GZIP),
    ("a part of a coded whole", b"206 Partial Content", b"gzip", GZIP[5:20]),
)


@pytest.mark.parametrize(("status", "coding", "coded"), UNDECODABLE_RESPONSES)
async def test_a_response_that_cannot_be_decoded_is_forwarded_unchanged(
    bench: Bench, status: bytes, coding: bytes, coded: bytes
) -> None:
    said = ok(coded, b"Content-Encoding: " + coding + b"\r\n").replace(b"200 OK", status)
    response = await bench.responded(sends(said), DECODING_REQUEST)
    assert (response.body.data, response.head.one("content-encoding")) == (coded, coding)


async def test_the_caller_can_request_and_refuse_decoding(bench: Bench) -> None:
    coded = sends(ok(GZIP, b"Content-Encoding: gzip\r\n"))
    assert (await bench.responded(coded, request(fields=b"Decompress: true\r\n"))).body.data == TEXT
    declined = request(fields=b"Decompress: false\r\n", gateway_fields=HOST + KEY + connection_fields(b"decoding"))
    assert (await bench.responded(coded, declined)).body.data == GZIP


BROKEN_BODIES = table(
    ("text that says it is gzip", b"gzip", b"hello"),
    ("text that says it is br", b"br", b"hello, this is text"),
    ("text that says it is zstd", b"zstd", b"hello"),
    ("gzip with a wrong checksum", b"gzip", GZIP[:-8] + b"\0" * 8),
    ("half of a gzip", b"gzip", GZIP[: len(GZIP) // 2]),
    ("half of a zstd", b"zstd", ZSTD[: len(ZSTD) // 2]),
    ("half of a br", b"br", BROTLI[: len(BROTLI) // 2]),
    ("gzip and other bytes behind it", b"gzip", GZIP + b"evil"),
)


@pytest.mark.parametrize(("coding", "coded"), BROKEN_BODIES)
async def test_a_response_with_an_invalid_coding_never_looks_complete(
    bench: Bench, coding: bytes, coded: bytes
) -> None:
    response = await bench.responded(sends(ok(coded, b"Content-Encoding: " + coding + b"\r\n")), DECODING_REQUEST)
    assert response.end == "torn" or (response.status, response.code) == (502, "upstream_protocol")


@pytest.mark.parametrize("coding", table(("gzip", b"gzip"), ("br", b"br"), ("zstd", b"zstd")))
async def test_a_decompression_bomb_is_cut_while_it_is_decoded(bench: Bench, coding: bytes) -> None:
    zeros = b"\0" * (48 << 20)
    coded = {b"gzip": gzip.compress, b"br": lambda text: brotli.compress(text, quality=1), b"zstd": zstandard.compress}[
        coding
    ](zeros)
    response = await bench.responded(sends(ok(coded, b"Content-Encoding: " + coding + b"\r\n")), DECODING_REQUEST)
    assert response.end == "torn" or response.status == 502
    assert len(response.body.data) < 8 << 20
