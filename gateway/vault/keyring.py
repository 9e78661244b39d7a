"""Master keys by id: they wrap data keys; what a ciphertext is bound to; what can go wrong."""

import base64
import binascii
import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.secret import Secret
from gateway.text import counted

# ── Why something could not be sealed or opened. The messages name places and key ids, never contents.


class VaultError(Exception):
    """A ciphertext that is not what was sealed here, or a key that cannot be used. Nothing was opened."""


class Damaged(VaultError):
    """It is not what was sealed here: a byte was changed, or it was moved here from another place."""


class UnknownKey(VaultError):
    """The key that this was sealed under is not in the keyring. Unlike damage, that can be fixed: add the key."""


# ── Associated data: what a ciphertext is bound to, spelled so that no two places share a spelling.

FORMAT: Final = 1
NONCE_BYTES: Final = 12  # NIST SP 800-38D §8.2.2: random, 96 bits
TAG_BYTES: Final = 16


def associated_data(purpose: str, *parts: str | int) -> bytes:
    """Format version, `purpose` and `parts`, each with its length in front, so that ("ab", "c") is not ("a", "bc")."""
    fields = [str(part).encode("utf-8", "surrogatepass") for part in (FORMAT, purpose, *parts)]
    return b"".join(struct.pack(">I", len(field)) + field for field in fields)


# ── Master keys by id. They wrap data keys and seal nothing else, so replacing one means wrapping a few rows again.

KEY_BYTES: Final = 32
REPLACE: Final = (
    "put a new key (openssl rand -base64 32) first in store.encryption_keys, reload, run `gateway keys rotate`, "
    "then take this one out"
)
DISTINCT_BYTES: Final = 16  # of 32 random bytes about 30 differ; fewer than this come up once in 10^18 keys


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A data key as it is stored: `id` is 16 hex digits, `wrapped` is nonce, ciphertext and tag."""

    id: str
    environment: str
    master_key_id: str
    wrapped: bytes


def instance(key_id: str) -> str:
    """What ``/health`` shows of the first master key, by which `gateway doctor` knows its own gateway from another.

    It comes from the key's id, which is a hash already: it says nothing of the key.
    """
    return hashlib.sha256(f"gateway instance {key_id}".encode()).hexdigest()[:16]


class Keyring:
    """The operator's master keys, 32 bytes each: the first wraps, every one unwraps. Raises VaultError on a bad key."""

    def __init__(self, keys: Sequence[Secret | bytes]) -> None:
        if not keys:
            raise VaultError("No encryption key is given: put base64 of 32 random bytes into store.encryption_keys.")
        decoded = [key_bytes(key, number) for number, key in enumerate(keys, start=1)]
        self._keys = {_key_id(key): AESGCM(key) for key in decoded}
        self.first_id = _key_id(decoded[0])
        self.weaknesses = {number: why for number, key in enumerate(decoded) if (why := weakness(key)) is not None}
        """By place in the list, counted from 0: why that key is no random one."""

    @property
    def ids(self) -> list[str]:
        """Of every key, in the order in which they were given, each once."""
        return list(self._keys)

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"

    def new_data_key(self, environment: str) -> tuple[WrappedKey, bytes]:
        """A fresh data key for `environment`, wrapped under the first master key, and the key itself."""
        key_id, data_key = os.urandom(8).hex(), os.urandom(KEY_BYTES)
        return self._wrapped(key_id, environment, data_key), data_key

    def wrap_again(self, stored: WrappedKey) -> WrappedKey:
        """The same data key under the first master key. Raises as `unwrap` does."""
        return self._wrapped(stored.id, stored.environment, self.unwrap(stored))

    def _wrapped(self, key_id: str, environment: str, data_key: bytes) -> WrappedKey:
        nonce = os.urandom(NONCE_BYTES)
        bound_to = _data_key_binding(self.first_id, environment, key_id)
        wrapped = nonce + self._keys[self.first_id].encrypt(nonce, data_key, bound_to)
        return WrappedKey(key_id, environment, self.first_id, wrapped)

    def unwrap(self, stored: WrappedKey) -> bytes:
        """The data key in `stored`. Raises UnknownKey without its master key, VaultError if the row was changed."""
        master = self._keys.get(stored.master_key_id)
        if master is None:
            raise UnknownKey(
                f"Data key {stored.id} is wrapped under master key {stored.master_key_id}, which is not given."
            )
        nonce, body = stored.wrapped[:NONCE_BYTES], stored.wrapped[NONCE_BYTES:]
        if len(body) != KEY_BYTES + TAG_BYTES:
            raise VaultError(f"Data key {stored.id} has the wrong length.")
        try:
            return master.decrypt(nonce, body, _data_key_binding(stored.master_key_id, stored.environment, stored.id))
        except InvalidTag:
            raise VaultError(f"Data key {stored.id} was changed after it was stored, or belongs elsewhere.") from None


def weakness(key: bytes) -> str | None:
    """What shows that somebody made `key` up, without showing it; None where it may well be random."""
    steps = {(after - before) % 256 for before, after in pairwise(key)}
    if len(steps) == 1:
        return "is one byte repeated" if steps == {0} else "counts up or down"
    for period in range(2, KEY_BYTES // 2 + 1):
        if key == (key[:period] * KEY_BYTES)[:KEY_BYTES]:
            return f"repeats the same {counted(period, 'byte')}"
    if len(set(key)) < DISTINCT_BYTES:
        return f"has only {len(set(key))} different bytes"
    if key.isascii() and key.decode().isprintable():
        return "is text, not random bytes"
    return None


def _data_key_binding(master_key_id: str, environment: str, key_id: str) -> bytes:
    return associated_data("data key", master_key_id, environment, key_id)


def _key_id(key: bytes) -> str:
    """A name for the key that reveals nothing of it: a labelled digest, cut to 64 bits."""
    return hashlib.sha256(b"integration-gateway master key id\0" + key).hexdigest()[:16]


def key_bytes(key: Secret | bytes, number: int) -> bytes:
    if isinstance(key, Secret):
        text = key.reveal().strip().rstrip("=").replace("-", "+").replace("_", "/")
        try:
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise VaultError(f"Encryption key {number} is not base64.") from None
    if len(key) != KEY_BYTES:
        raise VaultError(f"Encryption key {number} has {counted(len(key), 'byte')}; it needs {KEY_BYTES}.")
    return bytes(key)
