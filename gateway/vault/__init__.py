"""Sealing what is secret (ADR 6).

Master keys wrap data keys, data keys seal values, and each value opens in its own place only.
"""

from gateway.vault.errors import UnknownKey, VaultError
from gateway.vault.keyring import Keyring, WrappedKey
from gateway.vault.seal import Vault

__all__ = ["Keyring", "UnknownKey", "Vault", "VaultError", "WrappedKey"]
