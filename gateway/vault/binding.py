"""Associated data: what a ciphertext is bound to, spelled so that no two places share a spelling."""

import struct
from typing import Final

FORMAT: Final = 1
NONCE_BYTES: Final = 12  # NIST SP 800-38D §8.2.2: random, 96 bits
TAG_BYTES: Final = 16


def associated_data(purpose: str, *parts: str | int) -> bytes:
    """Format version, `purpose` and `parts`, each with its length in front, so that ("ab", "c") is not ("a", "bc")."""
    fields = [str(part).encode("utf-8", "surrogatepass") for part in (FORMAT, purpose, *parts)]
    return b"".join(struct.pack(">I", len(field)) + field for field in fields)
