"""The sandbox's large bodies: the same bytes for every range and coding."""

import hashlib
import zlib

import pytest

from gateway.sandbox.noise import BLOCK_BYTES, CODINGS, compress, digest, pieces


def test_a_range_returns_that_part_of_the_content() -> None:
    whole = b"".join(pieces(0, 3 * BLOCK_BYTES))
    assert len(whole) == 3 * BLOCK_BYTES
    assert whole[:8] == bytes(8)
    assert whole[BLOCK_BYTES : BLOCK_BYTES + 8] == (1).to_bytes(8, "big")
    for start, end in ((0, 0), (5, 17), (BLOCK_BYTES - 1, BLOCK_BYTES + 1), (100, 3 * BLOCK_BYTES)):
        assert b"".join(pieces(start, end)) == whole[start:end]
    assert digest(1000) == hashlib.sha256(whole[:1000]).hexdigest()


def test_zeros_body_contains_only_zeros() -> None:
    assert b"".join(pieces(0, BLOCK_BYTES + 10, zeros=True)) == bytes(BLOCK_BYTES + 10)


@pytest.mark.parametrize("coding", sorted(CODINGS))
def test_every_coding_decodes_to_the_same_bytes(coding: str) -> None:
    import brotli
    import zstandard

    plain = b"".join(pieces(0, 100_000))
    sent = b"".join(compress(pieces(0, 100_000), coding))
    undo = {
        "gzip": lambda: zlib.decompress(sent, 31),
        "deflate": lambda: zlib.decompress(sent),
        "br": lambda: brotli.decompress(sent),
        "zstd": lambda: zstandard.ZstdDecompressor().decompressobj().decompress(sent),
    }
    assert undo[coding]() == plain
