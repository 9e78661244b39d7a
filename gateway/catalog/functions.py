"""The functions of the template language: text in, text out."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Final


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256_base64(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _hmac_sha1_hex(message: str, key: str) -> str:
    # Providers that ask for HMAC-SHA1 are old, but HMAC does not rest on SHA-1's lost collision resistance.
    return hmac.new(key.encode(), message.encode(), hashlib.sha1).hexdigest()


FUNCTIONS: Final[dict[str, Callable[..., str]]] = {
    "base64": _base64,
    "sha256Hex": _sha256_hex,
    "sha256Base64": _sha256_base64,
    "hmacSha1Hex": _hmac_sha1_hex,
}

ARITY: Final = {"base64": 1, "sha256Hex": 1, "sha256Base64": 1, "hmacSha1Hex": 2}
