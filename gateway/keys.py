"""Secret keys: the way from the bearer of a request to its environment. Only digests are kept in memory."""

import secrets
import string
import zlib
from collections.abc import Mapping
from typing import Final

from gateway.config import Config
from gateway.errors import Unauthorized
from gateway.records.environment import Environment
from gateway.secret import Secret, digest

PREFIX: Final = "gw_sk_"
DIGITS: Final = string.digits + string.ascii_letters


class Keys:
    """The keys that gateway.yaml declares. A look-up by digest tells nothing through its timing about the key."""

    def __init__(self, by_digest: Mapping[str, Environment]) -> None:
        self._by_digest = dict(by_digest)

    @classmethod
    def declared(cls, config: Config) -> "Keys":
        return cls(
            {
                digest(key.reveal()): Environment(environment.name)
                for environment in config.environments.values()
                for key in environment.secret_keys
            }
        )

    def environment_of(self, key: str) -> Environment:
        """The environment that `key` opens. Raises Unauthorized."""
        found = self.opened_by(digest(key))
        if found is None:
            raise Unauthorized(
                "unknown_account",
                "This secret key opens no environment. Use one of environments.<name>.secret_keys in gateway.yaml.",
            )
        return found

    def opened_by(self, key_digest: str) -> Environment | None:
        """The environment of the key with this digest (`secret.digest`), if there is one."""
        return self._by_digest.get(key_digest)


def mint() -> Secret:
    """A new secret key: a prefix that tells secret scanners what it is, 43 url-safe characters, and a checksum of six,
    by which a scanner knows a real key from a text that looks like one without asking us.
    """
    body = secrets.token_urlsafe(32)
    return Secret(f"{PREFIX}{body}{checksum(body)}")


def checksum(body: str) -> str:
    """The CRC-32 of `body`, as six digits of base 62."""
    number, digits = zlib.crc32(body.encode("ascii")), ""
    for _ in range(6):
        number, digit = divmod(number, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits
