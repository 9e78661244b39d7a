"""Webhooks that are signed with a private key: the secret of the integration is then the public one that belongs to it."""

import base64
from collections.abc import Callable, Mapping
from typing import Final

Right = Callable[[str, bytes, bytes], bool]


def _ed25519(key: str, signature: bytes, said: bytes) -> bool:
    """`key`: 32 bytes in hex (RFC 8032)."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, said)
    except (InvalidSignature, ValueError):
        return False
    return True


def _ecdsa_p256(key: str, signature: bytes, said: bytes) -> bool:
    """`key`: a SubjectPublicKeyInfo in base64; `signature`: DER (RFC 3279 §2.2.3)."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        public = load_der_public_key(base64.b64decode(key))
        if not isinstance(public, EllipticCurvePublicKey):
            return False
        public.verify(signature, said, ECDSA(SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


PUBLIC_KEYS: Final[Mapping[str, Right]] = {"ed25519": _ed25519, "ecdsa-p256-sha256": _ecdsa_p256}
