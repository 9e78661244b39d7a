"""Content codings are decoded piece by piece, within limits, completely or not at all."""

import gzip
import os
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.content_coding import MAX_EMPTY_MEMBERS, MAX_INNER_MEMBERS, CodingError, Decoder, codings_of
from tests.fakes.scaling import linear_fault


def bare_deflate(body: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(body) + deflater.flush()


CODERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", lambda body: gzip.compress(body[:7]) + gzip.compress(body[7:])),
    ("deflate", zlib.compress),
    ("deflate", bare_deflate),
    ("br", lambda body: brotli.compress(body, quality=3)),
    ("zstd", zstandard.ZstdCompressor().compress),
    ("zstd", lambda body: zstandard.compress(body[:7]) + zstandard.compress(body[7:])),
    ("gzip, br", lambda body: brotli.compress(gzip.compress(body), quality=3)),
]
every_coder = pytest.mark.parametrize(("name", "coder"), CODERS)


def decode(name: str, coded: bytes, step: int = 1 << 16) -> bytes:
    decoder = Decoder()
    assert decoder.start(name)
    body = b"".join(part for at in range(0, len(coded), step) for part in decoder.feed(coded[at : at + step]))
    decoder.finish()
    return body


@every_coder
@settings(max_examples=30)
@given(body=st.binary(max_size=4000), step=st.integers(1, 5000))
def test_coded_body_is_decoded_in_pieces_of_any_size(
    name: str, coder: Callable[[bytes], bytes], body: bytes, step: int
) -> None:
    assert decode(name, coder(body), step) == body


@every_coder
def test_truncated_body_is_an_error(name: str, coder: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CodingError, match="ends too early"):
        decode(name, coder(os.urandom(3000))[:-3])


@every_coder
def test_body_in_another_coding_is_an_error(name: str, coder: Callable[[bytes], bytes]) -> None:
    coded = bytearray(coder(os.urandom(3000)))
    coded[0:40] = b"\xff" * 40
    with pytest.raises(CodingError):
        decode(name, bytes(coded))


@every_coder
def test_empty_body_is_decoded_to_nothing(name: str, coder: Callable[[bytes], bytes]) -> None:
    assert decode(name, b"") == b""


@pytest.mark.parametrize(("name", "coder"), CODERS[:1] + CODERS[2:6])
def test_decompression_bomb_is_stopped_early_and_in_small_pieces(name: str, coder: Callable[[bytes], bytes]) -> None:
    bomb = coder(bytes(64 << 20))
    decoder = Decoder()
    decoder.start(name)
    sizes: list[int] = []

    def decompress_bomb() -> None:
        for at in range(0, len(bomb), 1 << 16):
            sizes.extend(len(part) for part in decoder.feed(bomb[at : at + (1 << 16)]))

    with pytest.raises(CodingError, match="grows more than"):
        decompress_bomb()
    assert sum(sizes) < 8 << 20
    assert all(size <= 8 << 20 for size in sizes)


def test_bomb_is_stopped_if_only_the_outer_coding_expands() -> None:
    """The inner coding ignores NUL bytes after its end, so only the outer coding's output is large."""
    with pytest.raises(CodingError, match="grows more than"):
        decode("gzip, gzip", gzip.compress(gzip.compress(b"body") + bytes(16 << 20)))


EMPTY_MEMBERS = {"gzip": gzip.compress(b""), "zstd": zstandard.compress(b"")}


@pytest.mark.parametrize("name", EMPTY_MEMBERS)
def test_members_without_content_are_limited(name: str) -> None:
    few = EMPTY_MEMBERS[name] * MAX_EMPTY_MEMBERS
    full = {"gzip": gzip.compress, "zstd": zstandard.compress}[name](b"x")
    assert decode(name, few + full + few, 100) == b"x"
    with pytest.raises(CodingError, match="too many members without content"):
        decode(name, full + few + EMPTY_MEMBERS[name])


@pytest.mark.parametrize("outer", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("inner", ["gzip", "zstd"])
def test_members_inside_another_coding_are_limited(inner: str, outer: str) -> None:
    """A body of 2 KB that held 48,000 members of one byte took a tenth of a second."""
    codings, inside, outside = f"{inner}, {outer}", dict(CODERS[:6])[inner], dict(CODERS[:6])[outer]
    assert decode(codings, outside(inside(b"a") * (MAX_INNER_MEMBERS + 1))) == b"a" * (MAX_INNER_MEMBERS + 1)
    with pytest.raises(CodingError, match="too many members inside another coding"):
        decode(codings, outside(inside(b"a") * 48_000))
    texts = [os.urandom(40) for _ in range(3 * MAX_INNER_MEMBERS)]
    assert decode(codings, outside(b"".join(map(inside, texts)))) == b"".join(texts)


def test_small_members_take_linear_time() -> None:
    small = b"".join(gzip.compress(b"%d" % number, mtime=0) + b"\0" for number in range(2000))

    def work(size: int) -> Callable[[], object]:
        return lambda: decode("gzip", small * (size // len(small)), size)

    assert linear_fault(work, 1 << 20) == ""


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_bytes_after_the_end_are_an_error_unless_they_are_padding(name: str) -> None:
    coded = dict(CODERS[:4])[name](b"body")
    assert decode(name, coded + b"\0\0") == b"body"
    with pytest.raises(CodingError):
        decode(name, coded + b"more")


@pytest.mark.parametrize(
    ("header", "codings"),
    [
        ("", ()),
        ("identity", ()),
        (" GZIP ,identity", ("gzip",)),
        ("gzip, br", ("gzip", "br")),
        ("gzip, gzip, gzip", None),
        ("compress", None),
        ("aws-chunked, gzip", None),
    ],
)
def test_unknown_coding_is_not_decoded(header: str, codings: tuple[str, ...] | None) -> None:
    assert codings_of(header) == codings
    assert Decoder().start(header) is bool(codings)
