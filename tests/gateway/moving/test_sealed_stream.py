"""A stream encrypted with a passphrase: any length, constant memory, complete or not at all."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.moving import bundle
from gateway.moving.foreign_files import read_bundle
from gateway.moving.moved_connection import MovedConnection, SourceRefused
from gateway.moving.sealed_stream import CHUNK_BYTES, SealedWriter, decrypt
from gateway.secret import Secret
from tests.gateway.moving.conftest import SITE, oauth

PASSPHRASE = Secret("correct horse battery staple")
QUICK = 10


def seal(plain: bytes) -> io.BytesIO:
    out = io.BytesIO()
    writer = SealedWriter(out, PASSPHRASE, log2_n=QUICK)
    writer.write(plain)
    writer.close()
    return io.BytesIO(out.getvalue())


@pytest.mark.parametrize("length", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_decrypted_stream_equals_the_written_bytes(length: int) -> None:
    plain = bytes(n % 251 for n in range(length))
    assert b"".join(decrypt(seal(plain), PASSPHRASE)) == plain


@pytest.mark.parametrize("length", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES])
def test_stream_that_was_not_closed_is_refused_at_its_end(length: int) -> None:
    out = io.BytesIO()
    SealedWriter(out, PASSPHRASE, log2_n=QUICK).write(bytes(length))
    with pytest.raises(SourceRefused):
        list(decrypt(io.BytesIO(out.getvalue()), PASSPHRASE))


@pytest.mark.parametrize("log2_n", [9, 21, 60])
def test_a_header_with_too_costly_scrypt_settings_is_refused(log2_n: int) -> None:
    raw = seal(b"x").getvalue().replace(b'"log2_n": 10', f'"log2_n": {log2_n}'.ljust(12).encode())
    with pytest.raises(SourceRefused, match="header"):
        list(decrypt(io.BytesIO(raw), PASSPHRASE))


def test_a_bundle_without_its_end_line_is_reported_as_unfinished() -> None:
    with pytest.raises(SourceRefused, match="incomplete"):
        bundle.check_bundle(seal(b'{"kind":"bundle"}\n{"kind":"connection"}\n'), PASSPHRASE)


def test_error_for_a_later_version_names_the_version() -> None:
    with pytest.raises(SourceRefused, match="has version 2, and this gateway reads 1"):
        bundle.check_bundle(seal(b'{"kind":"bundle","version":2}\n'), PASSPHRASE)


def test_thousands_of_connections_are_imported_in_constant_memory(tmp_path: Path) -> None:
    def lines() -> Iterator[bytes]:
        for n in range(5000):
            row = {"provider_config_key": "tracker", "connection_id": f"c{n}", "credentials": oauth(n)}
            more = {"connection_config": SITE, "metadata": {"note": "x" * 2000}, "past": {"state": "active"}}
            yield json.dumps({"kind": "connection", **row, **more}).encode() + b"\n"
        yield b'{"kind":"end","integrations":0,"connections":5000}\n'

    file = tmp_path / "many.bundle"
    tracemalloc.start()
    try:
        with file.open("wb") as out:
            writer = SealedWriter(out, PASSPHRASE, log2_n=QUICK)
            for line in lines():
                writer.write(line)
            writer.close()
        with file.open("rb") as source:
            assert bundle.check_bundle(source, PASSPHRASE).connections == 5000
            source.seek(0)
            names = (
                item.connection_id for item in read_bundle(source, PASSPHRASE) if isinstance(item, MovedConnection)
            )
            assert all(name == f"c{n}" for n, name in enumerate(names))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert file.stat().st_size > 10_000_000
    assert peak < 4 << 20
