"""Signatures of what we send: Standard Webhooks, and the header that clients of the field's best-known service verify.

One key string serves both. Standard Webhooks' key is the base64 behind ``whsec_``; the other header's is the whole string as
it stands. A key that an operator brings and that does not begin so is its own bytes for either.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

from gateway.secret import Secret

PREFIX: Final = "whsec_"
KEY_BYTES: Final = 32

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
HMAC: Final = "X-Nango-Hmac-Sha256"
LEGACY: Final = "X-Nango-Signature"
OWN: Final = frozenset(name.lower() for name in (ID, TIMESTAMP, SIGNATURE, HMAC, LEGACY))


def mint() -> Secret:
    """A new key: ``whsec_`` and 32 random bytes in base64."""
    return Secret(PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode())


def standard_key(key: Secret) -> bytes:
    """The key bytes of Standard Webhooks in `key`."""
    text = key.reveal()
    if text.startswith(PREFIX):
        try:
            return base64.b64decode(text[len(PREFIX) :], validate=True)
        except binascii.Error:
            pass
    return text.encode()


def standard_form(key: Secret) -> Secret:
    """`key` as the libraries of Standard Webhooks take it: ``whsec_`` and base64."""
    return Secret(PREFIX + base64.b64encode(standard_key(key)).decode())


def signed(body: bytes, message_id: str, timestamp: int, keys: Sequence[Secret]) -> dict[str, str]:
    """The header fields that prove `body`. The first of `keys` is in force; in an overlap the former one signs beside it.

    `timestamp`: seconds since 1970, of this attempt.
    """
    said = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signatures = [base64.b64encode(hmac.digest(standard_key(key), said, "sha256")).decode() for key in keys]
    whole = keys[0].reveal().encode()
    return {
        ID: message_id,
        TIMESTAMP: str(timestamp),
        SIGNATURE: " ".join(f"v1,{signature}" for signature in signatures),
        HMAC: hmac.digest(whole, body, "sha256").hex(),
        LEGACY: hashlib.sha256(whole + body).hexdigest(),
    }
