"""Sealing what is secret (ADR 6).

Master keys wrap data keys, data keys seal values, and each value opens in its own place only. What a caller keeps for us is
sealed under keys derived from the master keys.
"""

from gateway.vault.errors import Damaged, UnknownKey, VaultError
from gateway.vault.keyring import Keyring, WrappedKey, instance
from gateway.vault.seal import Vault
from gateway.vault.tokens import Tokens

__all__ = ["Damaged", "Keyring", "Tokens", "UnknownKey", "Vault", "VaultError", "WrappedKey", "instance"]
