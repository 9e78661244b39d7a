"""Sealing what is secret (ADR 6).

    keyring.py  Master keys by id: they wrap data keys; what a ciphertext is bound to; what can go wrong.
    seal.py     Values sealed with AES-256-GCM, each bound to its place; and texts that a caller keeps for us.

Always true: master keys wrap data keys, data keys seal values, and each value opens in its own place only.
"""

from gateway.vault.keyring import Damaged, Keyring, UnknownKey, VaultError, WrappedKey, instance
from gateway.vault.seal import Tokens, Vault

__all__ = ["Damaged", "Keyring", "Tokens", "UnknownKey", "Vault", "VaultError", "WrappedKey", "instance"]
