"""The form of what we mint: secret keys, and capabilities that stand in an address."""

import secrets
import string
import zlib
from typing import Final

from gateway.records.access import Kind
from gateway.secret import Secret

PREFIX: Final = "gw_sk_"
CAPABILITY_PREFIX: Final = "gw_cap_"
PREFIXES: Final[dict[Kind, str]] = {"key": PREFIX, "capability": CAPABILITY_PREFIX}
DIGITS: Final = string.digits + string.ascii_letters
BODY_CHARS: Final = 43
CHECKSUM_CHARS: Final = 6
_URL_SAFE: Final = frozenset(string.ascii_letters + string.digits + "-_")


def mint(kind: Kind = "key") -> Secret:
    """A new one: a prefix that tells secret scanners what it is, 43 url-safe characters, and a checksum of six, by which a
    scanner knows a real key from a text that looks like one without asking us.
    """
    body = secrets.token_urlsafe(32)
    return Secret(f"{PREFIXES[kind]}{body}{checksum(body)}")


def kind_of(text: str) -> Kind | None:
    """What `text` has the form of, checksum included; None: it was never minted here."""
    for kind, prefix in PREFIXES.items():
        if text.startswith(prefix):
            body, check = text[len(prefix) : -CHECKSUM_CHARS], text[-CHECKSUM_CHARS:]
            fits = len(body) == BODY_CHARS and _URL_SAFE.issuperset(body) and checksum(body) == check
            return kind if fits else None
    return None


def checksum(body: str) -> str:
    """The CRC-32 of `body`, as six digits of base 62."""
    number, digits = zlib.crc32(body.encode("ascii")), ""
    for _ in range(CHECKSUM_CHARS):
        number, digit = divmod(number, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits
