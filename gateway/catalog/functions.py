"""The functions of the template language: text in, text out."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


class BadArgument(ValueError):
    """A function cannot work with what it was given; the message says what would be right. Never the value."""


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256_base64(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _hmac_sha1_hex(message: str, key: str) -> str:
    # Providers that ask for HMAC-SHA1 are old, but HMAC does not rest on SHA-1's lost collision resistance.
    return hmac.new(key.encode(), message.encode(), hashlib.sha1).hexdigest()


def _hmac_sha256_hex(message: str, key: str) -> str:
    return hmac.new(key.encode(), message.encode(), hashlib.sha256).hexdigest()


def _hmac_sha256_base64(message: str, key: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), message.encode(), hashlib.sha256).digest()).decode()


def _fingerprint(pem: str) -> str:
    """``SHA256:`` and the digest of the public key (its SubjectPublicKeyInfo, RFC 5280 §4.1.2.7) in base64.

    From either half of the pair in PEM; this is how Snowflake names a key.
    """
    # Loaded by the few who need it: it takes longer than the rest of this package together.
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

    if "PRIVATE KEY" in pem:
        public = _private_key(pem).public_key()
    else:
        try:
            public = load_pem_public_key(pem.encode())
        except ValueError:
            raise BadArgument("must be a key in PEM") from None
    digest = hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    return f"SHA256:{base64.b64encode(digest).decode()}"


def _ed25519_sign(message: str, pem: str) -> str:
    """The signature (RFC 8032) in base64."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = _private_key(pem)
    if not isinstance(key, Ed25519PrivateKey):
        raise BadArgument("must be an Ed25519 private key in PEM")
    return base64.b64encode(key.sign(message.encode())).decode()


def _private_key(pem: str) -> "PrivateKeyTypes":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadArgument("must be a private key in PEM, without a password") from None


FUNCTIONS: Final[dict[str, Callable[..., str]]] = {
    "base64": _base64,
    "sha256Hex": _sha256_hex,
    "sha256Base64": _sha256_base64,
    "hmacSha1Hex": _hmac_sha1_hex,
    "hmacSha256Hex": _hmac_sha256_hex,
    "hmacSha256Base64": _hmac_sha256_base64,
    "fingerprint": _fingerprint,
    "ed25519Sign": _ed25519_sign,
}

ARITY: Final = {"base64": 1, "sha256Hex": 1, "sha256Base64": 1, "fingerprint": 1} | dict.fromkeys(
    ("hmacSha1Hex", "hmacSha256Hex", "hmacSha256Base64", "ed25519Sign"), 2
)
