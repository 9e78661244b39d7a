"""The interface of an auth mode. No I/O: a mode returns the requests to send and reads the responses.

A mode of another package derives from `AuthMode`, or from `GrantingMode` if the end user consents at the provider. The
package registers the mode with the entry point ``gateway.auth_modes``. Methods that are not abstract have a working
default.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

from gateway.auth.context import AuthContext
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest, Issue
from gateway.oauth.token_requests import OAuthClient
from gateway.records.provider_call import ClientIdentity, ProviderCall, Reply
from gateway.records.proxied_call import UpstreamRequest
from gateway.secret import Secret
from gateway.timestamps import parse_time

# ── Signs each request, for modes whose credential depends on the request's method, URL or body.


class Signer(Protocol):
    """Signs a request exactly as it is sent. Each attempt is signed again, because a nonce and a time are valid for
    only one request."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Lower-case names of the header fields that the signer writes. The signer replaces existing values."""

    @property
    def query_fields(self) -> tuple[str, ...]:
        """Names of the query parameters that the signer writes."""

    def wants_body(self, request: UpstreamRequest) -> bool:
        """Return whether the signature covers the body. If so, the gateway reads the whole body before it sends the
        head."""

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        """Write the signature into `request`. Nothing changes the request afterwards.

        `body`: the whole body if `wants_body` returns True, empty if the request has no body, None if the body is
        streamed.
        """


T = TypeVar("T")

# A dialogue with the provider: a generator that yields requests, receives the responses and returns the result. The
# generator raises TokenRefused after a final refusal, TokenUnavailable after a temporary failure, and InvalidRequest if
# a setting is missing or wrong. If no response arrives, the caller throws TokenUnavailable into the generator.
Dialogue: TypeAlias = Generator[ProviderCall, Reply, T]


@dataclass(frozen=True, slots=True)
class RevocableToken:
    """A token that can be revoked at its provider. `hint`: the token's ``token_type_hint`` (RFC 7009 §2.1)."""

    hint: str
    token: Secret


@dataclass(frozen=True, slots=True)
class TokenRevocation:
    """The revocation endpoint, and the client to which the tokens were issued. The client authenticates as in token
    requests."""

    url: str
    client: OAuthClient | None = None
    auth_method: str | None = None
    identity: ClientIdentity | None = None


# Former names of these class attributes, which modes of other packages may still define.
FORMER_ATTRIBUTES: Final = {"momentary": "single_use", "brought": "imported_token_member"}


class AuthMode(ABC):
    """A way to authenticate requests to a provider on behalf of an end user.

    `credential` is the JSON object of docs/compatibility.md#credentials. The credential is encrypted in the store and
    plain in memory.
    """

    name: ClassVar[str]
    """The value of `auth_mode` in the catalog."""
    stored_as: ClassVar[tuple[str, ...]] = ()
    """Allowed values of the credential's `type`. The tuple is empty if only `name` is allowed. An imported credential
    gets the first value."""
    single_use: ClassVar[bool] = False
    """Whether the value that the mode adds to a request is valid for only one request."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for former, name in FORMER_ATTRIBUTES.items():
            if former in vars(cls) and name not in vars(cls):
                setattr(cls, name, vars(cls)[former])

    @classmethod
    def types(cls) -> tuple[str, ...]:
        """Return the allowed values of the credential's `type`."""
        return cls.stored_as or (cls.name,)

    @abstractmethod
    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        """Return the credential read from a form or an import (docs/compatibility.md#credentials).

        Raises InvalidRequest with every error.
        """

    def check_type(self, kind: object, subject: str) -> None:
        """Raise InvalidRequest if `kind`, the ``type`` of a credential to import, is not a type of this mode.

        `kind`: None if the credential names no type. `subject`: the subject of the message, such as ``Integration 'x'``.
        """
        if kind is None or kind in (self.name, *self.types()):
            return
        message = f"{subject} takes credentials of type '{self.name}', not {str(kind)[:40]!r}."
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("credentials", "type"))])

    def settings(self, credential: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the connection settings that the credential contains. Settings that the caller gives explicitly take
        precedence."""
        return {}

    def complete(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        """Return the credential, ready to use. If the credential has no token yet, request a token."""
        yield from ()
        return dict(credential)

    def expires_at(self, credential: Mapping[str, Any]) -> datetime | None:
        """Return when the credential expires, or None if this time is unknown or the credential never expires."""
        return None

    def refreshable(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        """Return whether the credential can be refreshed."""
        return False

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        """Return the refreshed credential, which replaces `credential`. The gateway calls this method only if
        `refreshable` returns True."""
        raise TypeError(f"{self.name} cannot be refreshed: check `refreshable` before you call `renew`")

    def sends_refresh_token(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        """Return whether `renew` would send a refresh token now. False also means that an earlier `renew` of this
        credential has sent none, so that no refresh token is used up if its response was lost."""
        return True

    def dropped_part(self, old_credential: Mapping[str, Any], new_credential: Mapping[str, Any]) -> str | None:
        """Return which part of `old_credential` the refreshed `new_credential` lacks, because the provider refused this
        part; None if nothing was dropped. The gateway reports the part."""
        return None

    @abstractmethod
    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        """Return the values for the placeholders of templates that use the credential: ``accessToken``, ``apiKey``,
        ``username`` …"""

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        """Return header templates for the credential. These templates are used if the entry's `proxy.headers` do not
        contain the credential."""
        return {}

    def signer(self, credential: Mapping[str, Any], context: AuthContext) -> Signer | None:
        """Return a signer if the credential must be computed for each request. Return None if fixed header fields and
        query parameters are sufficient."""
        return None

    def identity(self, credential: Mapping[str, Any]) -> ClientIdentity | None:
        """Return the client certificate for mutual TLS (RFC 8705), or None if the credential has no certificate."""
        certificate, key = credential.get("client_certificate"), credential.get("client_private_key")
        return ClientIdentity(certificate, Secret(key)) if certificate and key else None

    def revocable(self, credential: Mapping[str, Any]) -> Sequence[RevocableToken]:
        """Return the tokens that the provider must revoke when the connection is deleted, because they would otherwise
        stay valid. The token with the longest lifetime comes first."""
        return ()

    def revocation(self, credential: Mapping[str, Any], context: AuthContext) -> TokenRevocation | None:
        """Return the endpoint and the client for revoking tokens, or None if the entry has no `revocation_url`.

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
        """Return the client that revokes tokens at `url`, or None if the call needs no client. Raises InvalidRequest if
        `url` may not receive the client's secret."""
        spec = context.provider.revocation
        if (spec is not None and spec.auth_method in {"bearer", "none"}) or not context.has_client(credential):
            return None
        return context.for_destinations(url).client(credential.get("config_override"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequestInput:
    """The input for starting an authorization.

    `state` identifies the flow; the callback must return the same `state`. `scopes`: None for the integration's scopes.
    `override`: the end user's own client (``client_id``, ``client_secret``), and a ``refresh_token`` for providers that
    return no refresh token. `params`: further parameters: the session's, and those that the browser may add.
    """

    state: str
    scopes: tuple[str, ...] | None = None
    override: Mapping[str, str] = field(default_factory=dict, repr=False)
    user_scope: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsentRedirect:
    """The URL of the consent page. `kept`: JSON that `finish_consent` receives later. The gateway stores this JSON and
    never sends it to the browser."""

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
    """Whether the operator must first register a client or an app with the provider."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for former, name in FORMER_METHODS.items():
            if former in vars(cls) and name not in vars(cls):
                setattr(cls, name, vars(cls)[former])

    @abstractmethod
    def start_consent(
        self, context: AuthContext, authorization: AuthorizationRequestInput
    ) -> Dialogue[ConsentRedirect]:
        """Return the URL to redirect the browser to. Raises InvalidRequest if the integration or a setting is
        incomplete or invalid."""

    @abstractmethod
    def has_provider_response(self, context: AuthContext, query: Mapping[str, str]) -> bool:
        """Return whether the callback's query contains the provider's response. This response, a success or an error,
        ends the flow."""

    @abstractmethod
    def finish_consent(
        self, context: AuthContext, flow_details: Mapping[str, Any], query: Mapping[str, str]
    ) -> Dialogue[Granted]:
        """Exchange the callback's `query` for the credential, and return the credential. `flow_details`: the data from
        `ConsentRedirect`.

        Raises InvalidRequest, with a text for the end user, if the authorization failed.
        """


# ── Modes whose credential is typed in once and then exchanged for tokens: no end user is needed for a refresh.


class TokenExchangeMode(AuthMode):
    """A mode that stores a token with ``expires_at``, and the credential with which the next token is requested. Such a
    mode can always refresh."""

    imported_token_member: ClassVar[str | None] = None
    """Name of the credential's member that can hold an imported token. If the member has a token, the gateway requests
    no first token. None: the gateway always requests the first token."""

    def complete(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        return (
            dict(credential)
            if self.imported_token_member and credential.get(self.imported_token_member)
            else (yield from self.renew(credential, context))
        )

    def expires_at(self, credential: Mapping[str, Any]) -> datetime | None:
        return parse_time(credential.get("expires_at"))

    def refreshable(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        return True


# ── Former names, from release 0.2. Modes of other packages may still use these names.

Wish = AuthorizationRequestInput
SetOut = ConsentRedirect
ExchangedMode = TokenExchangeMode
