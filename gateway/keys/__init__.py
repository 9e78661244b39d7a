"""Secret keys and capabilities: their form, who holds them, and how often they may be used."""

from gateway.keys.known import Keys
from gateway.keys.mint import checksum, mint

__all__ = ["Keys", "checksum", "mint"]
