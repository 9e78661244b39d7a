"""Texts that a caller keeps for us and brings back: sealed, so that they return unread and unchanged."""

import base64
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gateway.secret import Secret
from gateway.vault.errors import VaultError
from gateway.vault.keyring import key_bytes

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


class Tokens:
    """One kind of them, told apart from others by `purpose`. Nothing is stored: any node with the same keys opens them.

    The keys are derived (RFC 5869) from the master keys; as with those the first seals, every one opens.
    """

    def __init__(self, keys: Sequence[Secret | bytes], purpose: str) -> None:
        self._masters = [Secret(key_bytes(key, number).hex()) for number, key in enumerate(keys, start=1)]
        self._purpose = purpose

    @cached_property
    def _fernet(self) -> "MultiFernet":
        """Made on first use: a worker that never needs it has 2 MB less to hold."""
        from cryptography.fernet import Fernet, MultiFernet

        derived = [_derived(bytes.fromhex(key.reveal()), self._purpose) for key in self._masters]
        return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])

    def seal(self, text: str) -> str:
        """`text` as letters, digits, ``-`` and ``_``."""
        return self._fernet.encrypt(text.encode()).decode("ascii").rstrip("=")

    def open(self, token: str) -> str:
        """What was sealed. Raises VaultError for what another purpose, another gateway or nobody has sealed."""
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(token.encode() + b"=" * (-len(token) % 4)).decode()
        except (InvalidToken, UnicodeError) as fault:
            raise VaultError("This token was not sealed here, or was changed since.") from fault


def _derived(master: bytes, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt=None, info=b"integration-gateway " + purpose.encode()).derive(master)
