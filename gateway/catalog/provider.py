"""The shape of a catalog entry: what a provider's YAML file may say, and `/providers` shows (docs/catalog.md#fields)."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.evidence import EntryEvidence, GroupEvidence, provenance_of
from gateway.catalog.provider_parts import (
    CATEGORIES,
    SCRIPT_ALIASES,
    AccountForm,
    ClientAuth,
    Encoding,
    Jwt,
    Paginate,
    Proxy,
    RefreshPolicy,
    RequestSigning,
    Retry,
    Setting,
    Setup,
    Shape,
    Signature,
    Step,
    Sunset,
    TokenCall,
    TokenResponse,
    Verification,
    VisibleWhen,
    WebhookKeys,
    WebhookSignature,
    with_titles,
)

__all__ = [
    "AccountForm",
    "EntryEvidence",
    "GroupEvidence",
    "Jwt",
    "Paginate",
    "Provider",
    "Proxy",
    "RefreshPolicy",
    "RequestSigning",
    "Retry",
    "Setting",
    "Setup",
    "Shape",
    "Signature",
    "Step",
    "Sunset",
    "TokenCall",
    "TokenResponse",
    "Verification",
    "VisibleWhen",
    "WebhookKeys",
    "WebhookSignature",
]


def _our_spelling(script: Any) -> Any:
    return SCRIPT_ALIASES.get(script, script) if isinstance(script, str) else script


Script = Annotated[str, BeforeValidator(_our_spelling)]
Forms = Annotated[dict[str, Setting], BeforeValidator(with_titles)]


class Provider(Shape):
    """A catalog entry. A field that the file leaves out is absent in answers, never null."""

    name: str
    """The provider's id: the file's name without its ending. May be left out of the file."""
    display_name: str = Field(min_length=1)
    """What people call it."""
    logo_url: str | None = None
    """Address of a logo. Left out: a neutral image that we serve."""
    categories: list[str] = Field(min_length=1)
    """What it is for, from the vocabulary in docs/catalog.md."""
    auth_mode: str
    """How a connection proves itself; [Auth modes](auth-modes.md) shows what each needs."""
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
    docs: str | None = None
    """The provider's own page on how to integrate with it. Left out: the guide page that we serve."""
    docs_connect: str | None = None
    """A page for the end user who connects."""
    homepage: str | None = None
    """The product's own page."""
    setup_guide_url: str | None = None
    """A page for the operator: how to register the app at the provider."""
    setup: Setup | None = None
    """What to do in the provider's developer console, step by step."""

    alias: str | None = None
    """Another entry that this one inherits from, field by field; `null` takes an inherited field away."""
    family: str | None = None
    """Another entry whose app, registered at the provider, serves this one too."""
    alternatives: dict[str, list[str]] = Field(default_factory=dict)
    """Further forms of an address, by field (`token_url`, `proxy.base_url` …): the first whose settings were given is taken."""

    authorization_params: dict[str, str] = Field(default_factory=dict)
    """Further parameters of the authorization request."""
    authorization_param_renames: dict[str, str] = Field(default_factory=dict)
    """Standard parameter of the authorization request ▸ the provider's name for it; empty leaves it out."""
    authorization_url_fragment: str | None = None
    """Route behind `#` that the authorization request's query goes to, for a consent page that is a script."""
    authorization_code_param_in_callback: str | None = None
    """The callback's parameter that holds the code; `code` if absent."""
    state_in_redirect_uri: bool | None = None
    """True for a provider that does not send `state` back: the query of the callback address carries it instead."""
    redirect_uri_metadata: list[str] | None = None
    """Parameters of the callback that are kept as settings."""
    issuer: str | None = None
    """Compared exactly with `iss` in the callback (RFC 9207). Absent: `iss` must have `authorization_url`'s origin."""
    disable_pkce: bool | None = None
    """True for a provider that breaks on PKCE parameters; all others get S256."""
    scope_separator: str | None = None
    """What stands between scopes; a blank if absent. `+` stands unencoded in the address."""
    default_scopes: list[str] | None = None
    """Scopes requested when the integration names none."""
    available_scopes: list[str] | None = None
    """Scopes that exist, for people who choose."""
    request_url: str | None = None
    """OAUTH1: where a request token is had (RFC 5849 §2.1)."""
    request_params: dict[str, str] = Field(default_factory=dict)
    """OAUTH1: further parameters of the request for a request token."""
    signature_method: Literal["HMAC-SHA1", "HMAC-SHA256", "PLAINTEXT", "RSA-SHA1"] | None = None
    """OAUTH1 and TBA: how requests are signed; `HMAC-SHA1` if absent, for TBA `HMAC-SHA256`."""
    client_registration: Literal["static", "dynamic", "metadata_document"] | None = None
    """MCP: how the client comes to its ID: registered by hand, by request (RFC 7591), or the address of a document of ours."""
    registration_url: str | None = None
    """Where clients register (RFC 7591). Absent: found by discovery."""
    installation_token_url: str | None = None
    """CUSTOM: where the app asks for an installation's token; `token_url` is that of the end user's."""

    token_params: dict[str, str] = Field(default_factory=dict)
    """Further parameters of the token request; with other grants than OAuth's, all of them. Where a code is exchanged,
    `${callback.name}` is a parameter of the callback."""
    token_param_renames: dict[str, str] = Field(default_factory=dict)
    """Standard parameter of token requests ▸ the provider's name for it; empty leaves it out."""
    token_body: dict[str, Any] | None = None
    """JSON body of the token request where it is more than a flat list of parameters; templates in its texts."""
    token_headers: dict[str, str] = Field(default_factory=dict)
    """Header fields of all token requests."""
    token_request_method: Literal["POST", "GET", "PUT"] | None = None
    """Method of the token request; `POST` if absent."""
    token_request_auth_method: ClientAuth | None = None
    """How the client proves itself: `basic`, `body` (the default; with MCP, what the server supports), `private_key_jwt`
    (OAUTH2_CC, RFC 7523), `custom`: by what the entry itself writes with `${clientId}` and `${clientSecret}`, or `none`."""
    body_format: Encoding | None = None
    """How token requests are encoded; `form` if absent."""
    token_response: TokenResponse | None = None
    """Where the token, its end and the refresh token lie in the answer."""
    alternate_access_token_response_path: str | None = None
    """Dotted path in the token answer to the object that holds `access_token` when the top level has none."""
    expires_in_unit: Literal["seconds", "milliseconds"] | None = None
    """Unit of a lifetime in the token answer; `seconds` if absent."""
    token_ttl: int | None = Field(default=None, gt=0)
    """Seconds a token lives where the provider does not say."""
    token_expiration_buffer: int | None = Field(default=None, ge=0)
    """Seconds before expiry at which a token is refreshed; at most half its lifetime counts."""
    token_response_metadata: list[str] | None = None
    """Dotted paths in the token answer that are kept as settings, under the path as their name."""
    additional_steps: list[Step] | None = None
    """OAUTH2 and TWO_STEP: requests after the token request, such as one that exchanges a short-lived token for a long-lived
    one. The last one's answer holds the token. A refresh does not repeat them with OAUTH2."""
    require_client_certificate: bool | None = None
    """Whether the provider is only reached with a client certificate (mutual TLS), of the credential."""

    refresh_url: str | None = None
    """Where tokens are refreshed, if not at `token_url`."""
    refresh_params: dict[str, str] = Field(default_factory=dict)
    """Further parameters of a refresh; those of the token request if absent."""
    refresh_param_renames: dict[str, str] = Field(default_factory=dict)
    """Standard parameter of a refresh ▸ the provider's name for it; `token_param_renames` if absent."""
    refresh: RefreshPolicy | None = None
    """What it does with refresh tokens."""
    revocation_url: str | None = None
    """Where tokens are revoked (RFC 7009). Placeholders allowed."""
    revocation: TokenCall | None = None
    """How its revocation differs from RFC 7009."""
    introspection_url: str | None = None
    """Where a token can be asked about (RFC 7662)."""
    introspection: TokenCall | None = None
    """How its introspection differs from RFC 7662."""

    jwt: Jwt | None = None
    """The JWT that the mode signs."""
    signature: Signature | None = None
    """SIGNATURE: the token that is made from user name and password."""
    request_signing: RequestSigning | None = None
    """AWS_SIGV4: how each request is signed."""
    account: AccountForm | None = None
    """Whose account a credential belongs to, and where the answer names it."""
    credentials_verification_script: Script | None = None
    """Script that proves a credential where no single call does."""
    pre_connection_deletion_script: Script | None = None
    """Script that runs before a connection is deleted."""
    connection_config: Forms = Field(default_factory=dict)
    """Settings of a connection, by name."""
    credentials: Forms = Field(default_factory=dict)
    """What an end user types in where nothing is authorized by redirect, by name: the auth mode's own fields and any others,
    such as a secret that signs, `${apiSecret}` in templates."""
    assertion_option: Forms = Field(default_factory=dict)
    """What else an end user types in for the assertion of TWO_STEP, by name: `${assertionOption.name}`."""
    webhook_signature: WebhookSignature | None = None
    """How it signs its webhooks."""
    webhook_user_defined_secret: bool | None = None
    """Whether the operator chooses the webhook secret at the provider."""
    evidence: EntryEvidence | None = None
    """What its facts rest on, by group of fields. An entry with `alias` inherits it for groups whose fields it does not set."""
    provenance: Literal["confirmed", "sourced", "unconfirmed", "reviewed"] | None = None
    """How far addresses and credential placement can be trusted; of an entry with `evidence`, what that says. `reviewed` is
    an older word for `unconfirmed`."""
    review: str | None = None
    """What a review rested on, in words."""
    sources: list[str] | None = None
    """Where its facts were seen. Those of `evidence` are shown with them."""
    sunset: Sunset | None = None
    """The announced end of this API; `lint`, `check` and the guide warn of it."""

    def trust(self) -> str | None:
        """`provenance`, as `/providers` shows it."""
        levels = {} if self.evidence is None else {name: {"level": one.level} for name, one in self.evidence.groups()}
        return provenance_of({"provenance": self.provenance, "evidence": levels})


# ── The JSON Schema of an entry, for editors: ``catalog/_schema.json``, which shipped files name in their first line.


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a catalog file. It is looser than loading: templates and names are not checked."""
    schema = Provider.model_json_schema()
    fields = schema["properties"]
    fields["auth_mode"]["enum"] = sorted(AUTH_MODES)
    fields["categories"]["items"] = {"anyOf": [{"enum": sorted(CATEGORIES)}, {"type": "string"}]}
    schema["required"] = [key for key in schema["required"] if key != "name"]
    schema["allOf"] = [
        {"if": {"properties": {"auth_mode": {"const": name}}}, "then": {"required": sorted(mode.needs)}}
        for name, mode in sorted(AUTH_MODES.items())
        if mode.needs
    ]
    # An entry that inherits may leave out what its base has.
    required, rules = schema.pop("required"), schema.pop("allOf")
    schema["if"], schema["then"] = {"not": {"required": ["alias"]}}, {"required": required, "allOf": rules}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A provider of the integration gateway"}
    return head | {key: value for key, value in schema.items() if key != "title"}
