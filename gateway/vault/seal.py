"""Envelope encryption: master keys wrap data keys, and data keys seal values.

Each sealed value is bound to its place in the database, so that the value cannot be opened in another place. This
module also seals tokens that callers keep.
"""

import base64
import binascii
import hashlib
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.http.json_depth import parse_stored_json
from gateway.records.connection import Sealed
from gateway.secret import Secret
from gateway.text import counted

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


# ── Errors. Error messages contain places and key ids, but never values or keys.


class VaultError(Exception):
    """A ciphertext was changed or moved, or a key cannot be used. No value is returned."""


class DamagedValue(VaultError):
    """A stored value was changed, or was moved here from another place."""


class UnknownKey(VaultError):
    """The key that sealed this value is not in the keyring. The value itself is not damaged.

    To fix the error, add the key to the keyring.
    """


# ── Associated data: binds a ciphertext to its place. Two places never have the same associated data.

FORMAT_VERSION: Final = 1
NONCE_BYTES: Final = 12  # NIST SP 800-38D §8.2.2: a random nonce of 96 bits
TAG_BYTES: Final = 16


def associated_data(purpose: str, *parts: str | int) -> bytes:
    """Return the format version, `purpose` and `parts` as bytes.

    Each field begins with its length, so that ("ab", "c") and ("a", "bc") give different bytes.
    """
    fields = [str(part).encode("utf-8", "surrogatepass") for part in (FORMAT_VERSION, purpose, *parts)]
    return b"".join(struct.pack(">I", len(field)) + field for field in fields)


# ── Master keys by id. Master keys encrypt only data keys. Therefore, after a change of the master key, only the few
# data keys are encrypted again, and no values.

KEY_BYTES: Final = 32
REPLACE_KEY_ADVICE: Final = (
    "put a new key (openssl rand -base64 32) first in store.encryption_keys, reload, run `gateway keys rotate`, "
    "then take this one out"
)
MIN_DISTINCT_BYTES: Final = (
    16  # 32 random bytes have about 30 distinct values; about one key in 3 * 10^16 has fewer than 16
)


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A data key as it is stored. `id`: 16 hex digits. `wrapped`: nonce, ciphertext and tag."""

    id: str
    environment: str
    master_key_id: str
    wrapped: bytes


def instance_id_of(key_id: str) -> str:
    """Return the gateway's identifier in ``/health``. `gateway doctor` recognizes its own gateway by this identifier.

    The identifier reveals nothing about the first master key: it is a hash of the key's id, and the id is a hash too.
    """
    return hashlib.sha256(f"gateway instance {key_id}".encode()).hexdigest()[:16]


class Keyring:
    """The operator's master keys, 32 bytes each.

    The first key wraps new data keys; every key can unwrap data keys. Raises VaultError if a key is invalid.
    """

    def __init__(self, keys: Sequence[Secret | bytes]) -> None:
        if not keys:
            raise VaultError("No encryption key is given: put base64 of 32 random bytes into store.encryption_keys.")
        raw_keys = [key_bytes(key, number) for number, key in enumerate(keys, start=1)]
        self._keys = {_key_id(key): AESGCM(key) for key in raw_keys}
        self.first_id = _key_id(raw_keys[0])
        self.weaknesses = {
            number: weakness_text for number, key in enumerate(raw_keys) if (weakness_text := weakness(key)) is not None
        }
        """For each weak key: its index in the list (from 0), and the reason why the key cannot be random."""

    @property
    def ids(self) -> list[str]:
        """The ids of all keys in the operator's order, without duplicates."""
        return list(self._keys)

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"

    def new_data_key(self, environment: str) -> tuple[WrappedKey, bytes]:
        """Return a new data key for `environment`: wrapped under the first master key, and unencrypted."""
        key_id, data_key = os.urandom(8).hex(), os.urandom(KEY_BYTES)
        return self._wrap_key(key_id, environment, data_key), data_key

    def wrap_again(self, wrapped_key: WrappedKey) -> WrappedKey:
        """Return the stored data key, wrapped under the first master key.

        Raises UnknownKey if the keyring does not have the data key's present master key, and VaultError if the row was
        changed.
        """
        return self._wrap_key(wrapped_key.id, wrapped_key.environment, self.unwrap(wrapped_key))

    def _wrap_key(self, key_id: str, environment: str, data_key: bytes) -> WrappedKey:
        nonce = os.urandom(NONCE_BYTES)
        binding = _data_key_binding(self.first_id, environment, key_id)
        wrapped = nonce + self._keys[self.first_id].encrypt(nonce, data_key, binding)
        return WrappedKey(key_id, environment, self.first_id, wrapped)

    def unwrap(self, wrapped_key: WrappedKey) -> bytes:
        """Return the data key in `wrapped_key`, unencrypted.

        Raises UnknownKey if the keyring does not have the data key's master key, and VaultError if the row was changed.
        """
        master_key = self._keys.get(wrapped_key.master_key_id)
        if master_key is None:
            raise UnknownKey(
                f"Data key {wrapped_key.id} needs master key {wrapped_key.master_key_id}, which is not in store.encryption_keys."
            )
        nonce, body = wrapped_key.wrapped[:NONCE_BYTES], wrapped_key.wrapped[NONCE_BYTES:]
        if len(body) != KEY_BYTES + TAG_BYTES:
            raise VaultError(f"Data key {wrapped_key.id} has the wrong length.")
        try:
            return master_key.decrypt(
                nonce, body, _data_key_binding(wrapped_key.master_key_id, wrapped_key.environment, wrapped_key.id)
            )
        except InvalidTag:
            raise VaultError(
                f"Data key {wrapped_key.id} was changed after it was stored, or belongs elsewhere."
            ) from None


def weakness(key: bytes) -> str | None:
    """Return why `key` cannot be random, without revealing the key. Return None if no weakness is found."""
    differences = {(later_byte - earlier_byte) % 256 for earlier_byte, later_byte in pairwise(key)}
    if len(differences) == 1:
        return "is one byte repeated" if differences == {0} else "counts up or down"
    for period in range(2, KEY_BYTES // 2 + 1):
        if key == (key[:period] * KEY_BYTES)[:KEY_BYTES]:
            return f"repeats the same {counted(period, 'byte')}"
    if len(set(key)) < MIN_DISTINCT_BYTES:
        return f"has only {len(set(key))} different bytes"
    if key.isascii() and key.decode().isprintable():
        return "is text, not random bytes"
    return None


def _data_key_binding(master_key_id: str, environment: str, key_id: str) -> bytes:
    return associated_data("data key", master_key_id, environment, key_id)


def _key_id(key: bytes) -> str:
    """Return an id that reveals nothing about the key: the first 64 bits of a hash of a label and the key."""
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


# ── Values sealed with AES-256-GCM, each bound to its place.
#
# A ciphertext is: format version (1 byte), data key id (8), nonce (12), AES-GCM ciphertext with its tag (16).

KEY_ID: Final = slice(1, 9)
NONCE: Final = slice(9, 9 + NONCE_BYTES)
BODY: Final = slice(9 + NONCE_BYTES, None)
MIN_CIPHERTEXT_BYTES: Final = 9 + NONCE_BYTES + TAG_BYTES


@dataclass(slots=True)
class DataKey:
    """An unwrapped data key.

    `allowance`: how many more values this process may seal with the key (`store.data_keys`).
    `replaced`: there is a newer data key; operations that begin now seal with the newer key.
    """

    id: str
    environment: str
    cipher: AESGCM = field(repr=False)
    allowance: int = 0
    replaced: bool = False


class Vault:
    """Seals and opens values with data keys. No I/O: the store loads, counts and replaces the keys.

    `on_damage`: called with each value that was changed or moved after sealing, before DamagedValue is raised.
    """

    def __init__(self, on_damage: Callable[[Sealed], None] = lambda _: None) -> None:
        self._on_damage = on_damage
        self._keys_by_id: dict[str, DataKey] = {}
        self._sealing_keys: dict[str, DataKey] = {}

    def add_data_key(self, key_id: str, environment: str, key: bytes) -> DataKey:
        """Add a data key, and return the key. A key that was added before stays unchanged.

        The key becomes its environment's sealing key, unless the present sealing key still has an allowance. Otherwise
        an operation that has reserved an allowance of the present key could get a key without an allowance.
        """
        data_key = self._keys_by_id.setdefault(key_id, DataKey(key_id, environment, AESGCM(key)))
        present = self._sealing_keys.get(environment)
        if present is None or present.allowance <= 0:
            self._sealing_keys[environment] = data_key
        return data_key

    def use_sealing_key(self, key: DataKey) -> None:
        """Make `key` its environment's sealing key. The key must have an allowance, and must have been added before."""
        self._sealing_keys[key.environment] = key

    def sealing_key(self, environment: str) -> DataKey | None:
        """Return the data key that seals new values of `environment`; None if there is no such key."""
        return self._sealing_keys.get(environment)

    def has_key_of(self, sealed: Sealed) -> bool:
        """Return whether the data key of `sealed` is in memory.

        If it is not, another process has possibly created a new data key.
        """
        return _stored_bytes(sealed)[KEY_ID].hex() in self._keys_by_id

    def seal_json(
        self, value: Mapping[str, Any], *, environment: str, table: str, row: str, column: str, version: int
    ) -> Sealed:
        """Return `value` as a ciphertext that can be opened only in this place.

        Raises UnknownKey if the environment has no data key, and VaultError if the key's allowance is used up.
        """
        plaintext = json.dumps(value, separators=(",", ":")).encode()
        return self._seal(plaintext, Sealed(b"", environment, table, row, column, version))

    def open_json(self, sealed: Sealed) -> dict[str, Any]:
        """Return the value in `sealed`.

        Raises VaultError if the ciphertext was changed or was sealed for another place, or if the data key is unknown.
        """
        opened: dict[str, Any] = parse_stored_json(self._open(sealed).decode())
        return opened

    def seal_again(self, sealed: Sealed) -> Sealed:
        """Return the value sealed under the present data key, for the same place.

        Raises VaultError if the value cannot be opened, or if the allowance of the present key is used up.
        """
        return self._seal(self._open(sealed), sealed)

    def _seal(self, plaintext: bytes, place: Sealed) -> Sealed:
        key = self._sealing_keys.get(place.environment)
        if key is None:
            raise UnknownKey(f"Environment '{place.environment}' has no data key: it is not in the configuration.")
        if key.allowance <= 0:
            raise VaultError(f"This process has used up its share of data key {key.id}, and has not reserved more.")
        key.allowance -= 1
        nonce = os.urandom(NONCE_BYTES)
        header = bytes([FORMAT_VERSION]) + bytes.fromhex(key.id)
        return replace(place, ciphertext=header + nonce + key.cipher.encrypt(nonce, plaintext, _binding(key, place)))

    def _open(self, sealed: Sealed) -> bytes:
        data, place = _stored_bytes(sealed), f"{sealed.table}.{sealed.column}"
        if len(data) < MIN_CIPHERTEXT_BYTES or data[0] != FORMAT_VERSION:
            self._on_damage(sealed)
            raise DamagedValue(f"The value in {place} is not a ciphertext of this version.")
        key = self._keys_by_id.get(data[KEY_ID].hex())
        if key is None:
            raise UnknownKey(
                f"The value in {place} is sealed under unknown data key {data[KEY_ID].hex()}. If encryption keys were "
                "rotated, add the new key to store.encryption_keys and send SIGHUP, or restart the gateway."
            )
        try:
            return key.cipher.decrypt(data[NONCE], data[BODY], _binding(key, sealed))
        except InvalidTag:
            self._on_damage(sealed)
            raise DamagedValue(f"The value in {place} was changed, or moved from another place.") from None


def _stored_bytes(sealed: Sealed) -> bytes:
    """Return the stored bytes; empty if the value has another type, because SQLite allows any type in any column."""
    return sealed.ciphertext if isinstance(sealed.ciphertext, bytes | memoryview) else b""


def _binding(key: DataKey, place: Sealed) -> bytes:
    """Return the associated data that binds a ciphertext to its place."""
    place_parts = (place.environment, place.table, place.row, place.column, place.version)
    return associated_data("value", key.id, *place_parts)


# ── Tokens: texts that a caller keeps and sends back. Sealing prevents the caller from reading or changing a token.


class SealedTokens:
    """Seals and opens tokens of one kind. `purpose`: the name of this kind.

    A token of one purpose cannot be opened with another purpose. Nothing is stored: any node with the same master keys
    can open the tokens. A separate key is derived from each master key (RFC 5869). The key from the first master key
    encrypts; all of the derived keys can decrypt.
    """

    def __init__(self, keys: Sequence[Secret | bytes], purpose: str) -> None:
        self._master_secrets = [Secret(key_bytes(key, number).hex()) for number, key in enumerate(keys, start=1)]
        self._purpose = purpose

    @cached_property
    def _fernet(self) -> "MultiFernet":
        """The cipher, created at its first use: a worker that never uses the cipher saves 2 MB."""
        from cryptography.fernet import Fernet, MultiFernet

        derived_keys = [_derived_key(bytes.fromhex(key.reveal()), self._purpose) for key in self._master_secrets]
        return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived_keys])

    def seal(self, text: str) -> str:
        """Return `text` as a token of letters, digits, ``-`` and ``_``."""
        return self._fernet.encrypt(text.encode()).decode("ascii").rstrip("=")

    def open(self, token: str) -> str:
        """Return the text in `token`.

        Raises VaultError if the token was not sealed for this purpose with one of the master keys.
        """
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(token.encode() + b"=" * (-len(token) % 4)).decode()
        except (InvalidToken, UnicodeError) as fault:
            raise VaultError("This token was not sealed here, or was changed since.") from fault


def _derived_key(master_key: bytes, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt=None, info=b"integration-gateway " + purpose.encode()).derive(master_key)
