"""Defines the fields of a catalog entry: a provider's YAML file, shown by `/providers` (docs/catalog.md#fields)."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.evidence import EntryEvidence, GroupEvidence, overall_provenance
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


def _gateway_script_name(script: Any) -> Any:
    """Return the gateway's name of a script that is written with Nango's name."""
    return SCRIPT_ALIASES.get(script, script) if isinstance(script, str) else script


Script = Annotated[str, BeforeValidator(_gateway_script_name)]
Forms = Annotated[dict[str, Setting], BeforeValidator(with_titles)]


class Provider(Shape):
    """A catalog entry. A field that the file leaves out is absent in responses, never null."""

    name: str
    """The provider's id: the file's name without its ending. May be left out of the file."""
    display_name: str = Field(min_length=1)
    """The provider's name for people."""
    logo_url: str | None = None
    """URL of a logo. Absent: an image that the gateway serves."""
    categories: list[str] = Field(min_length=1)
    """Categories, from the vocabulary in docs/catalog.md."""
    auth_mode: str
    """How a connection authenticates; [Auth modes](auth-modes.md) shows what each mode needs."""
    authorization_url: str | None = None
    """URL to which the end user is sent to consent. Placeholders allowed."""
    token_url: str | None = None
    """URL at which a code or a refresh token is exchanged. Placeholders allowed."""
    connection_configuration: list[str] | None = None
    """Names of a connection's settings. By default the keys of `connection_config`."""
    post_connection_script: Script | None = None
    """Script that completes a new connection."""
    webhook_routing_script: Script | None = None
    """Script that finds the connection for an incoming webhook."""
    proxy: Proxy
    """How the provider's API is called."""
    docs: str | None = None
    """The provider's own page on how to integrate with it. Absent: the guide page that the gateway serves."""
    docs_connect: str | None = None
    """The provider's help page for end users who connect; the connect page links to it."""
    homepage: str | None = None
    """The product's own page."""
    setup_guide_url: str | None = None
    """A page for the operator: how to register the app at the provider."""
    setup: Setup | None = None
    """What to do in the provider's developer console, step by step."""

    alias: str | None = None
    """Another entry that this one inherits from, field by field; `null` removes an inherited field."""
    family: str | None = None
    """Another entry of the same provider. An app registered at the provider for that entry also works for this one."""
    alternatives: dict[str, list[str]] = Field(default_factory=dict)
    """Further forms of a URL, by field (`token_url`, `proxy.base_url` …). The first form whose settings all have a
    value is used; else the field itself."""

    authorization_params: dict[str, str] = Field(default_factory=dict)
    """Further parameters of the authorization request."""
    authorization_param_renames: dict[str, str] = Field(default_factory=dict)
    """Standard parameter of the authorization request ▸ the provider's name for it; an empty name leaves it out."""
    authorization_url_fragment: str | None = None
    """For consent pages that are single-page apps: the client-side route after `#`. The query of the authorization
    request is appended to it."""
    authorization_code_param_in_callback: str | None = None
    """The callback's parameter that has the code; `code` if absent."""
    state_in_redirect_uri: bool | None = None
    """True for a provider that does not send `state` back: `state` is then in the query of the callback URL."""
    redirect_uri_metadata: list[str] | None = None
    """Parameters of the callback that are stored as settings."""
    issuer: str | None = None
    """Compared exactly with `iss` in the callback (RFC 9207). Absent: `iss` must have `authorization_url`'s origin."""
    disable_pkce: bool | None = None
    """True for a provider that fails on PKCE parameters; all others get an S256 challenge."""
    scope_separator: str | None = None
    """Separator between scopes; a space if absent. `+` is not encoded in the URL."""
    default_scopes: list[str] | None = None
    """Scopes that are requested if the integration sets none."""
    available_scopes: list[str] | None = None
    """All scopes that the provider offers, to choose from."""
    request_url: str | None = None
    """OAUTH1: URL at which a request token is requested (RFC 5849 §2.1)."""
    request_params: dict[str, str] = Field(default_factory=dict)
    """OAUTH1: further parameters of the request for a request token."""
    signature_method: Literal["HMAC-SHA1", "HMAC-SHA256", "PLAINTEXT", "RSA-SHA1"] | None = None
    """OAUTH1 and TBA: how requests are signed; `HMAC-SHA1` if absent, for TBA `HMAC-SHA256`."""
    client_registration: Literal["static", "dynamic", "metadata_document"] | None = None
    """MCP: how the client gets its ID: the operator registers it (`static`), the gateway registers it (`dynamic`, RFC
    7591), or the ID is the URL of the gateway's client metadata document (`metadata_document`)."""
    registration_url: str | None = None
    """URL at which clients register (RFC 7591). Absent: found by discovery."""
    installation_token_url: str | None = None
    """CUSTOM: URL at which the app requests an installation's token; `token_url` is for the end user's token."""
    installation_access_url: str | None = None
    """CUSTOM: URL that returns 200 with JSON only if the end user can access the installation; it must contain
    `${connectionConfig.installation_id}`. It is requested by GET with the end user's token and `token_headers`, before the
    installation's token. Absent: the installation is not checked, so an end user can connect another customer's
    installation."""

    token_params: dict[str, str] = Field(default_factory=dict)
    """Additional parameters of the token request. If the grant is not an OAuth grant, these are all parameters. In the
    exchange of a code, `${callback.name}` is a parameter of the callback."""
    token_param_renames: dict[str, str] = Field(default_factory=dict)
    """Standard parameter of token requests ▸ the provider's name for it; an empty name leaves it out."""
    token_body: dict[str, Any] | None = None
    """JSON body of the token request, if it is not a flat list of parameters. Templates allowed in its texts."""
    token_headers: dict[str, str] = Field(default_factory=dict)
    """Header fields of all token requests."""
    token_request_method: Literal["POST", "GET", "PUT"] | None = None
    """Method of the token request; `POST` if absent."""
    token_request_auth_method: ClientAuth | None = None
    """How the client authenticates: `basic`, `body` (the default; with MCP, what the server supports),
    `private_key_jwt` (OAUTH2_CC, RFC 7523), `custom` (the entry's own templates with `${clientId}` and
    `${clientSecret}`), or `none`."""
    body_format: Encoding | None = None
    """How token requests are encoded; `form` if absent."""
    token_response: TokenResponse | None = None
    """Where the token response has the token, its expiry and the refresh token."""
    alternate_access_token_response_path: str | None = None
    """Dotted path in the token response to the object that has `access_token`, if the top level has none."""
    expires_in_unit: Literal["seconds", "milliseconds"] | None = None
    """Unit of a lifetime in the token response; `seconds` if absent."""
    token_ttl: int | None = Field(default=None, gt=0)
    """Lifetime of a token in seconds, if the token response has none."""
    token_expiration_buffer: int | None = Field(default=None, ge=0)
    """Seconds before expiry at which a token is refreshed, limited to half of its lifetime."""
    token_response_metadata: list[str] | None = None
    """Dotted paths in the token response; their values are stored as settings with the path as name."""
    additional_steps: list[Step] | None = None
    """OAUTH2 and TWO_STEP: requests after the token request, such as the exchange of a short-lived token for a
    long-lived one. The response to the last request has the token. With OAUTH2, a refresh does not repeat them."""
    require_client_certificate: bool | None = None
    """Whether the provider requires a client certificate (mutual TLS), which is part of the credential."""

    refresh_url: str | None = None
    """URL at which tokens are refreshed; `token_url` if absent."""
    refresh_params: dict[str, str] = Field(default_factory=dict)
    """Further parameters of a refresh. Absent: the parameters of the token request."""
    refresh_param_renames: dict[str, str] = Field(default_factory=dict)
    """Standard parameter of a refresh ▸ the provider's name for it; as `token_param_renames` if absent."""
    refresh: RefreshPolicy | None = None
    """How the provider handles refresh tokens."""
    revocation_url: str | None = None
    """URL at which tokens are revoked (RFC 7009). Placeholders allowed."""
    revocation: TokenCall | None = None
    """How the provider's revocation differs from RFC 7009."""
    introspection_url: str | None = None
    """URL at which tokens are introspected (RFC 7662)."""
    introspection: TokenCall | None = None
    """How the provider's introspection differs from RFC 7662."""

    jwt: Jwt | None = None
    """The JWT that the mode signs."""
    signature: Signature | None = None
    """SIGNATURE: the token that is built from user name and password."""
    request_signing: RequestSigning | None = None
    """AWS_SIGV4: how each request is signed."""
    account: AccountForm | None = None
    """How to find the account that a credential belongs to."""
    credentials_verification_script: Script | None = None
    """Script that verifies a credential, if no single call can."""
    pre_connection_deletion_script: Script | None = None
    """Script that runs before a connection is deleted."""
    connection_config: Forms = Field(default_factory=dict)
    """Settings of a connection, by name."""
    credentials: Forms = Field(default_factory=dict)
    """Fields that an end user fills in, for modes without a redirect, by name: the auth mode's own fields and others,
    such as a signing secret (`${apiSecret}` in templates)."""
    assertion_option: Forms = Field(default_factory=dict)
    """TWO_STEP: further fields that an end user fills in for the assertion, by name: `${assertionOption.name}`."""
    webhook_signature: WebhookSignature | None = None
    """How the provider signs its webhooks."""
    webhook_user_defined_secret: bool | None = None
    """Whether the operator chooses the webhook secret at the provider."""
    evidence: EntryEvidence | None = None
    """The evidence for the entry's facts, by group of fields. An entry with `alias` inherits a group if the entry sets
    none of the group's fields."""
    provenance: Literal["confirmed", "sourced", "unconfirmed", "reviewed"] | None = None
    """How well URLs and credential placement are confirmed; `evidence`, if present, overrides it. `reviewed` is an
    older word for `unconfirmed`."""
    review: str | None = None
    """What a review was based on, in words."""
    sources: list[str] | None = None
    """Sources of the entry's facts; shown together with the sources in `evidence`."""
    sunset: Sunset | None = None
    """The announced end of this API; `lint`, `check` and the guide warn about it."""

    def shown_provenance(self) -> str | None:
        """Return the provenance as ``GET /providers`` shows it; None if the provenance is unknown."""
        groups = () if self.evidence is None else self.evidence.groups()
        levels = {name: {"level": group.level} for name, group in groups}
        return overall_provenance({"provenance": self.provenance, "evidence": levels})


# ── The JSON Schema of an entry, with which editors check catalog files: ``catalog/_schema.json``, which shipped files
# name in their first line.


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a catalog file.

    When the gateway loads a file, it checks more than the schema, such as templates and names.
    """
    schema = Provider.model_json_schema()
    fields = schema["properties"]
    fields["auth_mode"]["enum"] = sorted(AUTH_MODES)
    fields["categories"]["items"] = {"anyOf": [{"enum": sorted(CATEGORIES)}, {"type": "string"}]}
    schema["required"] = [key for key in schema["required"] if key != "name"]
    schema["allOf"] = [
        {"if": {"properties": {"auth_mode": {"const": name}}}, "then": {"required": sorted(mode.required_fields)}}
        for name, mode in sorted(AUTH_MODES.items())
        if mode.required_fields
    ]
    # An entry with `alias` can leave out required fields, because it inherits them.
    required, rules = schema.pop("required"), schema.pop("allOf")
    schema["if"], schema["then"] = {"not": {"required": ["alias"]}}, {"required": required, "allOf": rules}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A provider of the integration gateway"}
    return head | {key: value for key, value in schema.items() if key != "title"}
