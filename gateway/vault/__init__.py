"""Seals secrets: encrypts each value so that it can be opened only in its own place (ADR 6).

    seal      master keys, and data keys that they wrap; values sealed with AES-256-GCM; sealed tokens that a caller
              keeps, such as cursors

Master keys come from `store.encryption_keys`. To wrap a data key means to encrypt this key with a master key. Data keys
seal values, and are stored wrapped in the database (`store/data_keys.py`).

Always true: a value can be opened only with its own environment, table, row, column and version; no key is stored
unencrypted; docs/security.md#where-secrets-are-stored states these rules and names the tests.
"""

from gateway.vault.seal import (
    DamagedValue,
    Keyring,
    SealedTokens,
    UnknownKey,
    Vault,
    VaultError,
    WrappedKey,
    instance_id_of,
)

__all__ = [
    "DamagedValue",
    "Keyring",
    "SealedTokens",
    "UnknownKey",
    "Vault",
    "VaultError",
    "WrappedKey",
    "instance_id_of",
]
