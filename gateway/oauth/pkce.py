"""Proof Key for Code Exchange: only who began an authorization can redeem its code (RFC 7636)."""

import base64
import hashlib
import secrets


def new_verifier() -> str:
    """43 unreserved characters from 256 random bits (RFC 7636 §4.1)."""
    return secrets.token_urlsafe(32)


def challenge(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636 §4.2); `plain` is never used."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
