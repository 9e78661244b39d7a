"""Texts that a caller keeps for us and brings back: sealed, so that they return unread and unchanged."""

import base64
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gateway.secret import Secret
from gateway.vault.errors import VaultError
from gateway.vault.keyring import key_bytes


class Tokens:
    """One kind of them, told apart from others by `purpose`. Nothing is stored: any node with the same keys opens them.

    The keys are derived (RFC 5869) from the master keys; as with those the first seals, every one opens.
    """

    def __init__(self, keys: Sequence[Secret | bytes], purpose: str) -> None:
        derived = [_derived(key_bytes(key, number), purpose) for number, key in enumerate(keys, start=1)]
        self._fernet = MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])

    def seal(self, text: str) -> str:
        """`text` as letters, digits, ``-`` and ``_``."""
        return self._fernet.encrypt(text.encode()).decode("ascii").rstrip("=")

    def open(self, token: str) -> str:
        """What was sealed. Raises VaultError for what another purpose, another gateway or nobody has sealed."""
        try:
            return self._fernet.decrypt(token.encode() + b"=" * (-len(token) % 4)).decode()
        except (InvalidToken, UnicodeError) as fault:
            raise VaultError("This token was not sealed here, or was changed since.") from fault


def _derived(master: bytes, purpose: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=b"integration-gateway " + purpose.encode()).derive(master)
