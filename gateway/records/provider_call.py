"""A small exchange with a provider, as data: a request that an auth mode needs, such as a token request, and the
reply."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote, quote_plus

from gateway.secret import MASK, Secret

MIN_SECRET_CHARS: Final = 4  # a shorter text is no secret, and masking it would make any sentence unreadable


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The gateway's identity in mutual TLS (RFC 8705): a certificate with its chain, and the private key; both PEM."""

    certificate: str
    private_key: Secret


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """A request to send. Every part except `method` can contain secrets. `secrets`: the secrets that the provider's
    reply could repeat."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    method: str = "POST"
    identity: ClientIdentity | None = None

    def scrubbed(self, text: str) -> str:
        """Return the provider's `text` with the secrets of this call masked."""
        return scrubbed(text, self.secrets)


@dataclass(frozen=True, slots=True)
class Reply:
    """The decoded reply. `headers`: a mapping that ignores the case of names.

    `asked_at`: when the call was sent. The provider counts a token's lifetime from a later moment, so an expiry that is
    computed from `asked_at` is never too late, however long the reply took.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    asked_at: datetime


def scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    """Return `text` with each of `secrets` masked, in all spellings in which a provider could repeat a secret:
    unchanged, percent-encoded or in base64."""
    spellings = {spelling for secret in secrets if len(secret) >= MIN_SECRET_CHARS for spelling in _spellings(secret)}
    for spelling in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelling, MASK)
    return text


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="", errors="surrogatepass")
    yield quote_plus(secret, errors="surrogatepass")
    yield base64.b64encode(secret.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")
