"""Encrypts and decrypts a stream of any length with a passphrase, in constant memory (ADR 30).

The stream is divided into chunks, which are encrypted with AES-256-GCM. scrypt (RFC 7914) derives the key from the
passphrase. Each nonce contains the number of its chunk and a flag for the last one, and each chunk authenticates the
header. So a truncated, reordered or changed stream, or a mix of two streams, cannot be decrypted.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from typing import IO, Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from gateway.moving.moved_connection import SourceRefused
from gateway.secret import Secret

MAGIC: Final = b"gateway-bundle\n"
VERSION: Final = 1
CHUNK_BYTES: Final = 64 << 10
TAG_BYTES: Final = 16
MAX_HEADER_BYTES: Final = 4096
LOG2_N: Final = 17  # the derivation of the key needs 128 MiB and about 0.4 s
MAX_LOG2_N: Final = 20  # maximum value in a header, so that a malicious header cannot exhaust the reader's memory
PREFIX_BYTES: Final = 7


class SealedWriter:
    """Encrypts the bytes that are written to this object, and writes the result to `sink`.

    `close` must be called at the end. Otherwise the stream is incomplete and cannot be decrypted.
    """

    def __init__(self, sink: IO[bytes], passphrase: Secret, *, log2_n: int = LOG2_N) -> None:
        salt, prefix = os.urandom(16), os.urandom(PREFIX_BYTES)
        kdf = {"name": "scrypt", "log2_n": log2_n, "r": 8, "p": 1, "salt": salt.hex()}
        fields = {"version": VERSION, "kdf": kdf, "aead": "AES-256-GCM", "nonce": prefix.hex(), "chunk": CHUNK_BYTES}
        header = json.dumps(fields).encode()
        self._sink = sink
        self._chunks = _Chunks(_key(passphrase, salt, log2_n), prefix, header)
        self._unsealed = bytearray()
        sink.write(MAGIC + struct.pack(">H", len(header)) + header)

    def write(self, plaintext: bytes) -> None:
        self._unsealed += plaintext
        while len(self._unsealed) > CHUNK_BYTES:  # `close` writes the last chunk, because it must be marked as the last
            self._sink.write(self._chunks.seal(bytes(self._unsealed[:CHUNK_BYTES]), is_last=False))
            del self._unsealed[:CHUNK_BYTES]

    def close(self) -> None:
        """Encrypt the remaining bytes as the last chunk."""
        self._sink.write(self._chunks.seal(bytes(self._unsealed), is_last=True))
        self._unsealed.clear()


def decrypt(source: IO[bytes], passphrase: Secret) -> Iterator[bytes]:
    """Yield the decrypted chunks. Raises SourceRefused for a wrong passphrase, or a changed or incomplete stream."""
    if source.read(len(MAGIC)) != MAGIC:
        raise SourceRefused("This file is not a bundle. Create one with `gateway connections export`.")
    header, fields = _header(source)
    try:
        kdf = fields["kdf"]
        salt, prefix, log2_n = bytes.fromhex(kdf["salt"]), bytes.fromhex(fields["nonce"]), int(kdf["log2_n"])
        is_supported = (kdf["name"], kdf["r"], kdf["p"], fields["aead"], fields["chunk"]) == (
            "scrypt",
            8,
            1,
            "AES-256-GCM",
            CHUNK_BYTES,
        )
        is_supported = is_supported and 10 <= log2_n <= MAX_LOG2_N and len(prefix) == PREFIX_BYTES and len(salt) == 16
    except (KeyError, TypeError, ValueError):
        is_supported = False
    if not is_supported:
        raise SourceRefused("The bundle's header is damaged, or of a format that this version cannot read.")
    chunks = _Chunks(_key(passphrase, salt, log2_n), prefix, header)
    sealed_chunk = source.read(CHUNK_BYTES + TAG_BYTES)
    while True:
        next_chunk = source.read(CHUNK_BYTES + TAG_BYTES)
        try:
            plaintext = chunks.open(sealed_chunk, is_last=not next_chunk)
        except InvalidTag:
            if chunks.number == 0 and next_chunk:
                raise SourceRefused("Wrong passphrase, or the bundle's beginning is damaged.") from None
            if chunks.number == 0:
                raise SourceRefused("Wrong passphrase, or the bundle is cut off or damaged.") from None
            raise SourceRefused(
                "The bundle is cut off, or was changed, after its first "
                f"{chunks.number * CHUNK_BYTES:,} bytes. Copy it again."
            ) from None
        yield plaintext
        if not next_chunk:
            return
        sealed_chunk = next_chunk


class _Chunks:
    def __init__(self, key: bytes, prefix: bytes, header: bytes) -> None:
        self._aead = AESGCM(key)
        self._prefix = prefix
        self._header = hashlib.sha256(MAGIC + header).digest()
        self.number = 0

    def seal(self, plaintext: bytes, *, is_last: bool) -> bytes:
        sealed_chunk = self._aead.encrypt(self._nonce(is_last=is_last), plaintext, self._header)
        self.number += 1
        return sealed_chunk

    def open(self, sealed_chunk: bytes, *, is_last: bool) -> bytes:
        """Return the decrypted chunk. Raises InvalidTag if the chunk cannot be decrypted.

        `is_last`: whether this must be the last chunk of the stream.
        """
        if len(sealed_chunk) < TAG_BYTES:
            raise InvalidTag
        plaintext = self._aead.decrypt(self._nonce(is_last=is_last), sealed_chunk, self._header)
        self.number += 1
        return plaintext

    def _nonce(self, *, is_last: bool) -> bytes:
        return self._prefix + struct.pack(
            ">IB", self.number, is_last
        )  # raises struct.error after 2^32 chunks (256 TiB)


def _header(source: IO[bytes]) -> tuple[bytes, dict[str, Any]]:
    try:
        (length,) = struct.unpack(">H", source.read(2))
        header = source.read(length) if length <= MAX_HEADER_BYTES else b""
        fields = json.loads(header)
    except (struct.error, ValueError):
        fields = None
    if not isinstance(fields, dict):
        raise SourceRefused("The bundle's header is cut off or damaged.")
    if fields.get("version") != VERSION:
        raise SourceRefused(
            f"The bundle has version {fields.get('version')}, but this gateway reads version {VERSION}."
        )
    return header, fields


def _key(passphrase: Secret, salt: bytes, log2_n: int) -> bytes:
    return Scrypt(salt=salt, length=32, n=2**log2_n, r=8, p=1).derive(passphrase.reveal().encode())
