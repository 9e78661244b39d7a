"""Keys and secrets as single values of a configuration, on the terms of `values`: what is right for each, and in what form."""

import base64
import binascii
import re
from typing import Final

from gateway.config.values import VISIBLE
from gateway.secret import Secret
from gateway.wording import counted

SECRET_KEY_MIN: Final = 16
ENCRYPTION_KEY_BYTES: Final = 32
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (?:RSA |EC )?PRIVATE KEY-----.+-----END", re.DOTALL)


def encryption_key(text: str) -> Secret:
    """A master key, in standard base64 with padding whatever form it came in."""
    try:
        raw = base64.b64decode(_padded(text.strip().translate(str.maketrans("-_", "+/"))), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"is not base64; {_make_a_key()}") from None
    if len(raw) != ENCRYPTION_KEY_BYTES:
        raise ValueError(
            f"is {counted(len(raw), 'byte')} once decoded and must be {ENCRYPTION_KEY_BYTES}; {_make_a_key()}"
        )
    return Secret(base64.b64encode(raw).decode())


def secret_key(text: str) -> Secret:
    """What the customer application sends as ``Authorization: Bearer …``."""
    if not VISIBLE.fullmatch(text):
        raise ValueError("holds a character that a header cannot carry; use visible ASCII without spaces")
    if len(text) < SECRET_KEY_MIN:
        raise ValueError(
            f"is {counted(len(text), 'character')} and must be {SECRET_KEY_MIN} or more; `openssl rand -hex 32` makes one"
        )
    return Secret(text)


def signing_key(text: str) -> Secret:
    """What events are signed with: ``whsec_`` and base64 (Standard Webhooks), or any text that a secret key may be."""
    if text.startswith("whsec_"):
        try:
            base64.b64decode(text.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise ValueError("begins with whsec_ but has no base64 behind it") from None
    return secret_key(text)


def client_value(text: str) -> str:
    """A client ID or secret: VSCHAR (RFC 6749 appendix A), so that a stray newline is found here and not at the provider."""
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise ValueError(
            "holds a space at its end, a newline or another character that no provider issues; copy it again"
        )
    return text


def private_key(text: str) -> Secret:
    """A private key in PEM, without a passphrase; ``\\n`` stands for a line's end where it was written in one line."""
    unfolded = text.replace("\\n", "\n").strip()
    if not _PRIVATE_KEY.search(unfolded):
        raise ValueError("is not a private key in PEM without a passphrase; ${file:app.pem} reads one from a file")
    return Secret(unfolded + "\n")


def _padded(text: str) -> str:
    return text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)


def _make_a_key() -> str:
    return f"`openssl rand -base64 {ENCRYPTION_KEY_BYTES}` makes a key"
