"""The interface of an auth mode. No I/O: a mode returns the requests to send and reads their replies.

A mode of another package derives from `AuthMode`, or from `GrantingMode` where the end user consents at the provider,
and is offered by the entry point ``gateway.auth_modes``. What is not abstract has a default that works.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from gateway.auth.context import Context
from gateway.catalog.provider import Provider
from gateway.oauth.token_requests import OAuthClient
from gateway.records.provider_call import ClientIdentity, ProviderCall, Reply
from gateway.records.proxied_call import UpstreamRequest
from gateway.secret import Secret
from gateway.timestamps import moment

# ── What signs requests one by one, for modes whose proof depends on method, address or body.


class Signer(Protocol):
    """Signs what is really sent, again for each attempt: nonces and times are used once."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Lower-case names of the header fields it writes, over anything that stands there."""

    @property
    def query_fields(self) -> tuple[str, ...]:
        """Names of the query parameters it writes."""

    def wants_body(self, request: UpstreamRequest) -> bool:
        """Return whether the signature covers the body, so that all of it must be there before the head is sent."""

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        """Write the proof into `request`, the last to touch it.

        `body`: all of it where `wants_body` or where there is none, which is empty; None for one that streams by.
        """


T = TypeVar("T")

# A dialogue with the provider: yields requests, is sent their replies, returns the result. It raises
# TokenRefused after a final no and TokenUnavailable after anything that may pass; the latter is also thrown into it
# where nothing came back.
Dialogue: TypeAlias = Generator[ProviderCall, Reply, T]


@dataclass(frozen=True, slots=True)
class RevocableToken:
    """A token that its provider can be asked to end. `hint` as RFC 7009 §2.1 has it."""

    hint: str
    token: Secret


@dataclass(frozen=True, slots=True)
class TokenRevocation:
    """Where tokens are ended, and who asks: the client they were given to, proven as in token requests."""

    url: str
    client: OAuthClient | None = None
    auth_method: str | None = None
    identity: ClientIdentity | None = None


class AuthMode(ABC):
    """A way to prove to a provider on whose behalf a request comes.

    A credential travels as the JSON object of docs/compatibility.md#credentials (`held`): sealed in the store, opened in memory.
    """

    name: ClassVar[str]
    """As the catalog's `auth_mode` spells it."""
    stored_as: ClassVar[tuple[str, ...]] = ()
    """What the `type` of its credentials may be, if not `name` alone; the first is what an import gets."""
    momentary: ClassVar[bool] = False
    """Whether what it places is good for one request."""

    @classmethod
    def types(cls) -> tuple[str, ...]:
        """Return the values that `type` of its credentials may have."""
        return cls.stored_as or (cls.name,)

    @abstractmethod
    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        """The credential in a form or an import (docs/compatibility.md#credentials). Raises InvalidRequest with each fault."""

    def settings(self, held: Mapping[str, Any]) -> Mapping[str, str]:
        """Settings of the connection that its credential brings along, below those that are given."""
        return {}

    def complete(self, held: Mapping[str, Any], context: Context) -> Dialogue[dict[str, Any]]:
        """The credential, ready to use: a token that it lacks is requested."""
        yield from ()
        return dict(held)

    def expires_at(self, held: Mapping[str, Any]) -> datetime | None:
        """When it stops working; None if that is not known or never."""
        return None

    def refreshable(self, held: Mapping[str, Any], provider: Provider) -> bool:
        """Return whether the credential holds anything to refresh it with."""
        return False

    def renew(self, held: Mapping[str, Any], context: Context) -> Dialogue[dict[str, Any]]:
        """The credential that replaces `held`. Asked only where `refreshable`."""
        raise TypeError(f"{self.name} holds nothing to refresh: `refreshable` says so")

    @abstractmethod
    def values(self, held: Mapping[str, Any]) -> Mapping[str, Secret]:
        """The placeholders it fills in the entry's templates: ``accessToken``, ``apiKey``, ``username`` …"""

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        """Header templates that carry the credential where the entry's own `proxy.headers` name no slot for it."""
        return {}

    def signer(self, held: Mapping[str, Any], context: Context) -> Signer | None:
        """Return what signs each request, where the proof depends on the request; None where headers and query suffice."""
        return None

    def identity(self, held: Mapping[str, Any]) -> ClientIdentity | None:
        """The certificate to show in mutual TLS (RFC 8705), where the credential has one."""
        certificate, key = held.get("client_certificate"), held.get("client_private_key")
        return ClientIdentity(certificate, Secret(key)) if certificate and key else None

    def revocable(self, held: Mapping[str, Any]) -> Sequence[RevocableToken]:
        """Return the tokens that outlive a deletion unless the provider is asked to revoke them, the longest-lived first."""
        return ()

    def revocation(self, held: Mapping[str, Any], context: Context) -> TokenRevocation | None:
        """The revocation request; None where it has no such place. Raises InvalidRequest where a setting is missing."""
        if not context.provider.revocation_url:
            return None
        url = context.url("revocation_url", context.values(self.values(held)))
        client = self.client_at(url, held, context)
        return TokenRevocation(url, client, context.provider.token_request_auth_method, self.identity(held))

    @staticmethod
    def client_at(url: str, held: Mapping[str, Any], context: Context) -> OAuthClient | None:
        """Return the client that ends tokens at `url`; None if the call needs none. Raises InvalidRequest if its secret is
        withheld."""
        spec = context.provider.revocation
        if (spec is not None and spec.auth_method in {"bearer", "none"}) or not context.has_client(held):
            return None
        return context.toward(url).client(held.get("config_override"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The input of an authorization that begins. `params` come from the session and, where it allows, the browser.

    `scopes` None: those of the integration. `override`: a client of the end user's own, ``client_id`` and ``client_secret``,
    and a ``refresh_token`` for where the provider gives none. `state` names the flow and must come back in the callback.
    """

    state: str
    scopes: tuple[str, ...] | None = None
    override: Mapping[str, str] = field(default_factory=dict, repr=False)
    user_scope: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetOut:
    """Where the browser goes. `kept` is JSON that `arrive` gets back: nothing of it travels with the browser."""

    url: str
    kept: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Granted:
    """The credential from an authorization, and settings that the provider returned on the way."""

    held: Mapping[str, Any] = field(repr=False)
    config: Mapping[str, str] = field(default_factory=dict)


class GrantingMode(AuthMode):
    """A mode whose end user consents at the provider's own page and comes back to our callback."""

    needs_client: ClassVar[bool] = True
    """Whether the operator must have registered the integration with the provider: client ID, app key …"""

    @abstractmethod
    def set_out(self, context: Context, wish: Wish) -> Dialogue[SetOut]:
        """Where to send the browser. Raises InvalidRequest where the integration or a setting does not allow it."""

    @abstractmethod
    def answered(self, context: Context, query: Mapping[str, str]) -> bool:
        """Return whether the callback's query holds an answer, good or bad, which uses the flow up."""

    @abstractmethod
    def arrive(self, context: Context, kept: Mapping[str, Any], query: Mapping[str, str]) -> Dialogue[Granted]:
        """The result of the callback. Raises InvalidRequest, with a text for the end user, where it failed."""


# ── Modes whose credential is typed in once and exchanged for tokens ever after: what is held refreshes itself.


class ExchangedMode(AuthMode):
    """Holds ``expires_at`` beside its token, and what the next token is had with: asking again is always possible."""

    brought: ClassVar[str | None] = None
    """The member that may be brought along, so that nothing need be asked at first; None: it is always made by us."""

    def complete(self, held: Mapping[str, Any], context: Context) -> Dialogue[dict[str, Any]]:
        return dict(held) if self.brought and held.get(self.brought) else (yield from self.renew(held, context))

    def expires_at(self, held: Mapping[str, Any]) -> datetime | None:
        return moment(held.get("expires_at"))

    def refreshable(self, held: Mapping[str, Any], provider: Provider) -> bool:
        return True
