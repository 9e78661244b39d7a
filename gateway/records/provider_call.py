"""A small exchange with a provider, as data: the request that an auth mode needs, and the reply."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote, quote_plus

from gateway.secret import MASK, Secret

SHORTEST: Final = 4  # a shorter text is no secret, and masking it would make any sentence unreadable


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The gateway's identity in mutual TLS (RFC 8705): a certificate, its chain behind it, and the private key; both PEM."""

    certificate: str
    private_key: Secret


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """A request ready to be sent. Any part but `method` may hold secrets; `secrets` lists those that its answer may quote."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    method: str = "POST"
    identity: ClientIdentity | None = None

    def scrubbed(self, words: str) -> str:
        """`words` of the provider without any secret of this call that they may quote."""
        return scrubbed(words, self.secrets)


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply, decoded. Names in `headers` compare as HTTP has it.

    `asked_at`: when the call was sent. What the answer says about a lifetime counts from some moment after that, so a
    token that is reckoned from there never outlives its end here, however long the answer was under way.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    asked_at: datetime


def scrubbed(words: str, secrets: tuple[str, ...]) -> str:
    """`words` without any of `secrets`, in the spellings in which a provider may quote them."""
    found = {spelt for secret in secrets if len(secret) >= SHORTEST for spelt in _spellings(secret)}
    for spelt in sorted(found, key=len, reverse=True):
        words = words.replace(spelt, MASK)
    return words


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield base64.b64encode(secret.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")
