"""Seals secrets: encrypts each value so that it can be opened only in its own place (ADR 6).

    seal      master keys by id; the associated data of a ciphertext; values sealed with AES-256-GCM; sealed tokens that
              a caller keeps, such as cursors

Master keys come from `store.encryption_keys` and wrap data keys. Data keys are stored wrapped in the database
(`store/data_keys.py`) and seal values.

Always true: a value opens in its own environment, table, row, column and version only; no key is ever stored in the
clear; docs/security.md#where-secrets-are-stored promises this and names the tests.
"""

from gateway.vault.seal import DamagedValue, Keyring, SealedTokens, UnknownKey, Vault, VaultError, WrappedKey, instance

__all__ = ["DamagedValue", "Keyring", "SealedTokens", "UnknownKey", "Vault", "VaultError", "WrappedKey", "instance"]
