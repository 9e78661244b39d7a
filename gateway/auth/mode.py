"""The interface of an auth mode. No I/O: a mode returns the requests to send and reads the responses.

A mode of another package derives from `AuthMode`, or from `GrantingMode` if the end user consents at the provider. The
package registers it with the entry point ``gateway.auth_modes``. Methods that are not abstract have a working default.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

from gateway.auth.context import AuthContext
from gateway.catalog.provider import Provider
from gateway.oauth.token_requests import OAuthClient
from gateway.records.provider_call import ClientIdentity, ProviderCall, Reply
from gateway.records.proxied_call import UpstreamRequest
from gateway.secret import Secret
from gateway.timestamps import moment

# ── Signs each request, for modes whose credential depends on the request's method, URL or body.


class Signer(Protocol):
    """Signs the request as it is sent. Each attempt is signed again, because a nonce and a time are valid once."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Lower-case names of the header fields that the signer writes; it replaces existing values."""

    @property
    def query_fields(self) -> tuple[str, ...]:
        """Names of the query parameters that the signer writes."""

    def wants_body(self, request: UpstreamRequest) -> bool:
        """Return whether the signature covers the body, so that the whole body must be read before the head is sent."""

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        """Write the signature into `request`; nothing changes the request afterwards.

        `body`: the whole body if `wants_body`, empty if the request has none, None if the body streams.
        """


T = TypeVar("T")

# A dialogue with the provider: a generator that yields requests, receives the responses and returns the result. It
# raises TokenRefused after a final refusal, TokenUnavailable after a temporary failure and InvalidRequest if a setting
# is missing or wrong. If no response arrives, the caller throws TokenUnavailable into the generator.
Dialogue: TypeAlias = Generator[ProviderCall, Reply, T]


@dataclass(frozen=True, slots=True)
class RevocableToken:
    """A token that can be revoked at its provider. `hint`: its ``token_type_hint`` (RFC 7009 §2.1)."""

    hint: str
    token: Secret


@dataclass(frozen=True, slots=True)
class TokenRevocation:
    """The revocation endpoint, and the client that the tokens were issued to, authenticated as in token requests."""

    url: str
    client: OAuthClient | None = None
    auth_method: str | None = None
    identity: ClientIdentity | None = None


class AuthMode(ABC):
    """A way to authenticate requests to a provider on behalf of an end user.

    `credential` is the JSON object of docs/compatibility.md#credentials: encrypted in the store, plain in memory.
    """

    name: ClassVar[str]
    """The value of `auth_mode` in the catalog."""
    stored_as: ClassVar[tuple[str, ...]] = ()
    """Allowed values of the credential's `type`, if not only `name`; an import gets the first."""
    momentary: ClassVar[bool] = False
    """Whether the value it adds to a request is valid for one request only."""

    @classmethod
    def types(cls) -> tuple[str, ...]:
        """Return the allowed values of the credential's `type`."""
        return cls.stored_as or (cls.name,)

    @abstractmethod
    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        """Return the credential read from a form or an import (docs/compatibility.md#credentials).

        Raises InvalidRequest with every error.
        """

    def settings(self, credential: Mapping[str, Any]) -> Mapping[str, str]:
        """Return connection settings that the credential contains. Explicitly given settings take precedence."""
        return {}

    def complete(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        """Return the credential ready to use; request its token if it has none."""
        yield from ()
        return dict(credential)

    def expires_at(self, credential: Mapping[str, Any]) -> datetime | None:
        """Return when the credential expires; None if unknown or never."""
        return None

    def refreshable(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        """Return whether the credential can be refreshed."""
        return False

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        """Return the refreshed credential, which replaces `credential`. Called only if `refreshable`."""
        raise TypeError(f"{self.name} cannot be refreshed: check `refreshable` before you call `renew`")

    @abstractmethod
    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        """Return the values of the credential's placeholders in templates: ``accessToken``, ``apiKey``, ``username``
        …"""

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        """Return header templates for the credential, used if the entry's `proxy.headers` have no place for it."""
        return {}

    def signer(self, credential: Mapping[str, Any], context: AuthContext) -> Signer | None:
        """Return a signer if the credential must be computed for each request; None if fixed headers and query
        suffice."""
        return None

    def identity(self, credential: Mapping[str, Any]) -> ClientIdentity | None:
        """Return the client certificate for mutual TLS (RFC 8705), or None if the credential has none."""
        certificate, key = credential.get("client_certificate"), credential.get("client_private_key")
        return ClientIdentity(certificate, Secret(key)) if certificate and key else None

    def revocable(self, credential: Mapping[str, Any]) -> Sequence[RevocableToken]:
        """Return the tokens that stay valid after a deletion unless the provider revokes them, longest-lived first."""
        return ()

    def revocation(self, credential: Mapping[str, Any], context: AuthContext) -> TokenRevocation | None:
        """Return how to revoke tokens; None if the entry has no `revocation_url`.

        Raises InvalidRequest if a setting is missing or `revocation_url` may not receive the client's secret, and
        TokenRefused if the client's key cannot sign.
        """
        if not context.provider.revocation_url:
            return None
        url = context.url("revocation_url", context.values(self.values(credential)))
        client = self.client_at(url, credential, context)
        return TokenRevocation(url, client, context.provider.token_request_auth_method, self.identity(credential))

    @staticmethod
    def client_at(url: str, credential: Mapping[str, Any], context: AuthContext) -> OAuthClient | None:
        """Return the client that revokes tokens at `url`; None if the call needs none. Raises InvalidRequest if `url`
        may not receive the client's secret."""
        spec = context.provider.revocation
        if (spec is not None and spec.auth_method in {"bearer", "none"}) or not context.has_client(credential):
            return None
        return context.for_destinations(url).client(credential.get("config_override"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequestInput:
    """The input for starting an authorization. `params` come from the session and, if the session allows it, the
    browser.

    `scopes` None: the integration's scopes. `override`: the end user's own client (``client_id``, ``client_secret``),
    and a ``refresh_token`` for providers that return none. `state` identifies the flow; the callback must return it.
    """

    state: str
    scopes: tuple[str, ...] | None = None
    override: Mapping[str, str] = field(default_factory=dict, repr=False)
    user_scope: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsentRedirect:
    """The URL of the consent page. `kept`: JSON that `finish_consent` receives; it is stored, never sent to the
    browser."""

    url: str
    kept: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Granted:
    """The credential from an authorization, and the settings that the provider returned with it."""

    held: Mapping[str, Any] = field(repr=False)
    config: Mapping[str, str] = field(default_factory=dict)


# Former names of these methods, which modes of other packages may still define.
FORMER_METHODS: Final = {
    "set_out": "start_consent",
    "answered": "has_provider_response",
    "has_provider_answer": "has_provider_response",
    "arrive": "finish_consent",
}


class GrantingMode(AuthMode):
    """A mode in which the end user consents on the provider's page and returns to the gateway's callback."""

    needs_client: ClassVar[bool] = True
    """Whether the operator must have registered the integration with the provider: client ID, app key …"""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for former, name in FORMER_METHODS.items():
            if former in vars(cls) and name not in vars(cls):
                setattr(cls, name, vars(cls)[former])

    @abstractmethod
    def start_consent(
        self, context: AuthContext, authorization: AuthorizationRequestInput
    ) -> Dialogue[ConsentRedirect]:
        """Return the URL to redirect the browser to. Raises InvalidRequest if the integration or a setting does not
        allow it."""

    @abstractmethod
    def has_provider_response(self, context: AuthContext, query: Mapping[str, str]) -> bool:
        """Return whether the callback's query holds the provider's response, success or error, which ends the flow."""

    @abstractmethod
    def finish_consent(
        self, context: AuthContext, kept: Mapping[str, Any], query: Mapping[str, str]
    ) -> Dialogue[Granted]:
        """Return the credential that the callback yields. `kept`: from `ConsentRedirect`. `query`: the callback's
        query.

        Raises InvalidRequest, with a text for the end user, if the authorization failed.
        """


# ── Modes whose credential is typed in once and then exchanged for tokens: no end user is needed for a refresh.


class TokenExchangeMode(AuthMode):
    """A mode that stores a token with ``expires_at`` and the credential to request the next token: it can always
    refresh."""

    brought: ClassVar[str | None] = None
    """Name of the credential's member that may hold an imported token. If it is given, the gateway requests no first
    token. None: the gateway always requests the first token."""

    def complete(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        return (
            dict(credential)
            if self.brought and credential.get(self.brought)
            else (yield from self.renew(credential, context))
        )

    def expires_at(self, credential: Mapping[str, Any]) -> datetime | None:
        return moment(credential.get("expires_at"))

    def refreshable(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        return True


# ── Former names, for modes of other packages: they were in use in release 0.2.

Wish = AuthorizationRequestInput
SetOut = ConsentRedirect
ExchangedMode = TokenExchangeMode
