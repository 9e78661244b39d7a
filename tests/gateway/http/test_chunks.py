"""Chunked bodies: what the fast path accepts is what aiohttp's parser, which the chain uses, accepts."""

import asyncio

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser

from gateway.http.chunks import ChunkedDecoder
from gateway.http.response_head import MalformedMessage

EXTENSIONS = [
    *(b"", b";", b"; ", b";\t", b";;", b";a", b";a;", b";a=", b";a=b", b';a="b"', b';a="b', b";=", b";=;a", b"; a"),
    *(b";a b", b" ;a", b"\t", b" ", b';a="b"c', b";\x80", b';a="\x80"', b';a="b\\"c"', b";a=b;c", b";(", b";a=("),
    *(b";a=b=c", b';a="b";', b";a =b", b";a= b", b";a\x00", b';a="b\x00"', b";a=;b", b';a="";b', b';a="\\', b";a=\x80"),
]  # fmt: skip


@pytest.mark.parametrize("extension", EXTENSIONS)
async def test_a_chunk_extension_is_accepted_where_the_chain_accepts_it(extension: bytes) -> None:
    body = b"3%b\r\nabc\r\n0\r\n\r\n" % extension
    assert accepted_by_chunks(body) is accepted_by_aiohttp(body)


def accepted_by_chunks(body: bytes) -> bool:
    chunks = ChunkedDecoder(of_request=True)
    try:
        return chunks.feed(body) == b"abc" and chunks.rest == b""
    except MalformedMessage:
        return False


def accepted_by_aiohttp(body: bytes) -> bool:
    loop = asyncio.get_running_loop()
    parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16)
    [(_, payload)], _, _ = parser.feed_data(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        parser.feed_data(body)
    except HttpProcessingError:
        return False
    return payload.is_eof() and payload.exception() is None


def test_a_provider_may_send_an_extension_of_any_form() -> None:
    chunks = ChunkedDecoder()
    assert chunks.feed(b"3; \r\nabc\r\n0;\r\n\r\n") == b"abc"
    assert chunks.rest == b""
