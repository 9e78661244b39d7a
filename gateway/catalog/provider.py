"""The shape of a catalog entry: what a provider's YAML file may say, and `/providers` shows (requirement 2.1)."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gateway.catalog.setting import Setting, VisibleWhen, with_titles
from gateway.catalog.shape import Shape
from gateway.catalog.traffic import Paginate, Proxy, Retry, Verification
from gateway.catalog.vocabulary import SCRIPT_ALIASES

__all__ = [
    "Paginate",
    "Provider",
    "Proxy",
    "RefreshPolicy",
    "Retry",
    "Setting",
    "Shape",
    "Verification",
    "VisibleWhen",
    "WebhookSignature",
]


def _our_spelling(script: Any) -> Any:
    return SCRIPT_ALIASES.get(script, script) if isinstance(script, str) else script


Script = Annotated[str, BeforeValidator(_our_spelling)]
Forms = Annotated[dict[str, Setting], BeforeValidator(with_titles)]


class RefreshPolicy(Shape):
    """What the provider does with refresh tokens; the idle limits feed the keep-alive."""

    rotating: bool | None = None
    """Whether each refresh returns a new refresh token and ends the old one."""
    requires_scope: str | None = None
    """The scope without which no refresh token is given."""
    expires_after_days_unused: int | None = Field(default=None, gt=0)
    """Days after which an unused refresh token dies."""
    expires_after_days_owner_inactive: int | None = Field(default=None, gt=0)
    """Days after which it dies when its owner has not used the provider."""
    access_token_lifetime_s: int | None = Field(default=None, gt=0)
    """How long access tokens usually live, in seconds; for people, since the token answer decides."""


class WebhookSignature(Shape):
    """How the provider signs the webhooks it sends."""

    scheme: str
    """`hmac-sha256`, `hmac-sha1`, `standard-webhooks` …"""
    header: str
    """Header field that carries the signature."""
    encoding: Literal["hex", "base64"] | None = None
    """How the signature is written."""
    prefix: str | None = None
    """Text before the signature, for example `sha256=`."""
    signed_payload: str | None = None
    """What is signed: `raw body`, or a form such as `v0:{x-slack-request-timestamp}:{raw body}`."""
    timestamp_header: str | None = None
    """Header field that carries the time of sending."""
    tolerance_s: int | None = None
    """How old a message may be, in seconds."""
    key: str | None = None
    """Whose secret signs: `client secret`, `auth token`; absent: one made for the webhook."""
    note: str | None = None
    """What else to know, in words."""


class Provider(Shape):
    """One catalog entry. A field that the file leaves out is absent in answers, never null."""

    name: str
    """The provider's id: the file's name without its ending. May be left out of the file."""
    display_name: str = Field(min_length=1)
    """What people call it."""
    logo_url: str | None = None
    """Address of a logo. Left out: a neutral image that we serve."""
    categories: list[str] = Field(min_length=1)
    """What it is for, from the vocabulary in docs/catalog.md."""
    auth_mode: str
    """How a connection proves itself: `OAUTH2`, `API_KEY` or `BASIC`."""
    authorization_url: str | None = None
    """Where the end user is sent to consent. Placeholders allowed."""
    token_url: str | None = None
    """Where a code or a refresh token is exchanged. Placeholders allowed."""
    connection_configuration: list[str] | None = None
    """Names of the settings a connection has. By default the keys of `connection_config`."""
    post_connection_script: Script | None = None
    """Script that completes a connection when it is made."""
    webhook_routing_script: Script | None = None
    """Script that finds the connection an incoming webhook belongs to."""
    proxy: Proxy
    """How its API is called."""
    docs: str
    """The provider's own page on how to integrate with it."""
    docs_connect: str | None = None
    """A page for the end user who connects."""
    homepage: str | None = None
    """The product's own page."""
    setup_guide_url: str | None = None
    """A page for the operator: how to register the app at the provider."""

    refresh_url: str | None = None
    """Where tokens are refreshed, if not at `token_url`."""
    revocation_url: str | None = None
    """Where tokens are revoked (RFC 7009)."""
    issuer: str | None = None
    """Compared exactly with `iss` in the callback (RFC 9207). Absent: `iss` must have `authorization_url`'s origin."""
    authorization_params: dict[str, str] = Field(default_factory=dict)
    """Further parameters of the authorization request."""
    token_params: dict[str, str] = Field(default_factory=dict)
    """Further parameters of the code exchange."""
    refresh_params: dict[str, str] = Field(default_factory=dict)
    """Further parameters of a refresh."""
    token_headers: dict[str, str] = Field(default_factory=dict)
    """Header fields of both token requests."""
    token_request_auth_method: Literal["basic", "body"] | None = None
    """Where the client proves itself: in `Authorization`, or in the body, which is the default."""
    body_format: Literal["form", "json"] | None = None
    """How token requests are encoded; `form` if absent."""
    scope_separator: str | None = None
    """What stands between scopes; a blank if absent."""
    default_scopes: list[str] | None = None
    """Scopes asked for when the integration names none."""
    available_scopes: list[str] | None = None
    """Scopes that exist, for people who choose."""
    disable_pkce: bool | None = None
    """True for a provider that breaks on PKCE parameters; all others get S256."""
    token_expiration_buffer: int | None = Field(default=None, ge=0)
    """Seconds before expiry at which a token is renewed; at most half its lifetime counts."""
    token_ttl: int | None = Field(default=None, gt=0)
    """Seconds a token lives where the provider does not say."""
    alternate_access_token_response_path: str | None = None
    """Dotted path in the token answer to the object that holds `access_token` when the top level has none."""
    token_response_metadata: list[str] | None = None
    """Dotted paths in the token answer that are kept as settings, under the path as their name."""
    redirect_uri_metadata: list[str] | None = None
    """Parameters of the callback that are kept as settings."""
    refresh: RefreshPolicy | None = None
    """What it does with refresh tokens."""
    connection_config: Forms = Field(default_factory=dict)
    """Settings of a connection, by name."""
    credentials: Forms = Field(default_factory=dict)
    """What an end user types in where nothing is authorized by redirect, by name."""
    webhook_signature: WebhookSignature | None = None
    """How it signs its webhooks."""
    webhook_user_defined_secret: bool | None = None
    """Whether the operator chooses the webhook secret at the provider."""
    provenance: Literal["reviewed", "sourced", "unconfirmed"] | None = None
    """How far the entry can be trusted."""
    sources: list[str] | None = None
    """Where its facts were seen."""

    def setting_names(self) -> tuple[str, ...]:
        """Names of a connection's settings, as `/providers` shows them under ``connection_configuration``."""
        if self.connection_configuration is not None:
            return tuple(self.connection_configuration)
        return tuple(self.connection_config)
