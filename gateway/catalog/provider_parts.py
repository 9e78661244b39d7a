"""Defines the parts of a catalog entry (settings, token requests, signing, API calls, webhooks) and the vocabularies."""

import datetime as dt
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

# ── The base class of all parts of an entry.


class Shape(BaseModel):
    """Base class of all parts of an entry. An unknown key is a fault, because an ignored typo is hard to find.

    The docstring under a field becomes the field's description in the JSON Schema, which editors show.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        fields = handler.resolve_ref_schema(schema)["properties"]
        for name, text in field_docstrings(cls).items():
            fields[name]["description"] = text
        return schema


def field_docstrings(shape: type[BaseModel]) -> dict[str, str]:
    """Return the docstring under each field of `shape`, by the field's name.

    Pydantic's `use_attribute_docstrings` would read them at each start, which takes 20 ms.
    """
    import ast
    import inspect

    definition = ast.parse(inspect.getsource(shape)).body[0]
    assert isinstance(definition, ast.ClassDef)
    docstrings = dict[str, str]()
    for pair in pairwise(definition.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docstrings[name] = inspect.cleandoc(text)
    return docstrings


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


# An HTTP status or a range of statuses, as text. Numbers are converted, because YAML reads 429 as a number.
Status = Annotated[str, BeforeValidator(_number_as_text)]


def _checked_date(text: str) -> str:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a date such as 2026-08-31") from None
    return text


# A date such as ``2026-08-31``.
Date = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_checked_date)]


# ── The fixed vocabularies of the catalog: categories, and aliases of script names. `catalog.auth_modes` has the auth
# modes.

CATEGORIES: Final = frozenset(
    {
        "accounting", "ai", "analytics", "banking", "calendar", "cloud-infrastructure", "commerce", "communication",
        "content-management", "crm", "customer-support", "data", "design", "developer-tools", "education", "email",
        "erp", "file-storage", "forms-surveys", "gaming", "health", "hr", "identity", "knowledge", "legal",
        "logistics", "marketing", "mcp", "media", "monitoring", "other", "payments", "productivity",
        "project-tracking", "real-estate", "recruiting", "sales", "search", "security", "social", "ticketing",
        "travel",
    }
)  # fmt: skip

# Maps Nango's names of scripts, which operators have in their files, to the gateway's names.
SCRIPT_ALIASES: Final = MappingProxyType(
    {
        "jiraPostConnection": "jira_post_connection",
        "jiraWebhookRouting": "jira_webhook_routing",
    }
)


# ── A setting: one value of a connection or a credential, with its form field and the rules for the value.


class VisibleWhen(Shape):
    """A condition for showing a form field: another field has a certain value."""

    field: str
    """Name of the other setting."""
    equals: str
    """The value that the other setting must have."""


class Setting(Shape):
    """A value that a connection needs: a form field or, if `automated`, set by the gateway."""

    type: Literal["string"] = "string"
    """Always `string`."""
    title: str = ""
    """Label of the form field. Absent: derived from the setting's name."""
    description: str | None = None
    """One sentence below the field: where to find the value."""
    example: str | None = None
    """A valid example value that belongs to nobody."""
    pattern: str | None = None
    """Regular expression that the whole value must match."""
    enum: list[str] | None = None
    """The only values allowed."""
    format: Literal["hostname", "uri", "uuid", "email"] | None = None
    """Kind of text. In a URL's host, only a `hostname`, or a value of an `enum`, may have dots; only a `uri` may be the
    whole base URL."""
    default_value: str | None = None
    """Used if the connection has no value."""
    prefix: str | None = None
    """Shown before the field, for example `https://`. Never part of the value."""
    suffix: str | None = None
    """Shown after the field, for example `.example.com`. Never part of the value."""
    doc_section: str | None = None
    """Anchor in `docs_connect` where this value is explained."""
    order: int | None = None
    """Position in the form, from 0."""
    optional: bool = False
    """Whether the end user may leave the field empty."""
    secret: bool = False
    """Whether the value is encrypted in the store and masked everywhere."""
    hidden: bool = False
    """Whether the form leaves the setting out."""
    any_host: bool = False
    """Whether the value may name any host, as for self-hosted software. The credential is sent to that host."""
    automated: bool = False
    """Whether the gateway sets the value: the form leaves the setting out."""
    visible_when: VisibleWhen | None = None
    """Show the field only while another setting has a certain value."""


def with_titles(settings: Any) -> Any:
    """Return `settings` with a title for each setting. A missing title is derived from the setting's name.

    `settings`: the settings by name, as read from YAML.
    """
    if not isinstance(settings, dict):
        return settings
    return {name: _with_title(name, setting) for name, setting in settings.items()}


def _with_title(name: Any, setting: Any) -> Any:
    if setting is None:
        setting = {}
    return {"title": title_from(str(name)), **setting} if isinstance(setting, dict) else setting


def title_from(name: str) -> str:
    """Return a form label for a setting's name: ``Cloud ID`` for ``cloudId``, ``Instance URL`` for ``instance_url``."""
    spaced_name = "".join(f" {c}" if c.isupper() and i and not name[i - 1].isupper() else c for i, c in enumerate(name))
    words = spaced_name.replace("_", " ").replace("-", " ").replace(".", " ").split()
    cased_words = [word.upper() if word.lower() in {"id", "url", "api", "uri"} else word.lower() for word in words]
    if not cased_words:
        return name
    return " ".join([cased_words[0] if cased_words[0].isupper() else cased_words[0].capitalize(), *cased_words[1:]])


# ── The call that returns the account to which a credential belongs.


class AccountForm(Shape):
    """How to read the account that authorized.

    An ID token or the post-connection script may provide what is missing.
    """

    endpoint: str | None = None
    """Path below `proxy.base_url`, or a whole URL, that returns the account; called once with the new credential.
    If it contains a setting from the callback (`redirect_uri_metadata`), a 401, 403 or 404 refuses the connection.
    Absent: the token response has the account."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields of that call, templates allowed; they replace those of `proxy.headers`."""
    method: Literal["GET", "POST"] | None = None
    """The call's method; `GET` if absent."""
    data: dict[str, Any] | None = None
    """With POST: the call's JSON body, such as a GraphQL query. No templates."""
    id: str | None = None
    """Dotted path to the account's permanent id. A reconnect with another account is refused. Absent: the `sub` claim
    of an ID token."""
    label: list[str] = Field(default_factory=list)
    """Dotted paths to a name for people, such as an e-mail address; the first path with a value is used."""
    settings: dict[str, str] = Field(default_factory=dict)
    """Setting ▸ dotted path to its value in the same response; stored if the connection has no value yet.
    `[name=value]` in a path selects the list item with that member."""


# ── Signatures and their keys: JWTs, signed tokens, signed requests.


class Jwt(Shape):
    """The JSON Web Token (RFC 7519) that the mode signs.

    JWT sends it as the access token, TWO_STEP puts it into its token request as `${jwt}` (RFC 7523), APP requests an
    installation's token with it, and with `token_request_auth_method: private_key_jwt` the client authenticates with
    it.
    """

    header: dict[str, str] = Field(default_factory=dict)
    """Header parameters; `alg` is RS256, PS256, ES256, EdDSA, HS256 or a longer variant. Templates allowed."""
    claims: dict[str, Any] = Field(default_factory=dict)
    """Claims besides `iat` and `exp`, which the mode sets. Templates allowed; a claim with an unset value is left
    out."""
    key: str
    """The signing key, as a template: a private key in PEM or JWK, or the secret of an HMAC."""
    key_encoding: Literal["utf8", "hex", "base64"] | None = None
    """How an HMAC secret is encoded; `utf8` if absent."""
    lifetime_s: int = Field(default=300, gt=0)
    """Seconds from `iat` to `exp`."""


class Signature(Shape):
    """The token that SIGNATURE builds from user name and password, and builds again when it has expired."""

    scheme: Literal["wsse"]
    """`wsse`: a WS-Security UsernameToken."""
    lifetime_s: int = Field(default=300, gt=0)
    """Seconds for which the gateway sends the same token."""


class RequestSigning(Shape):
    """How each request is signed."""

    scheme: Literal["aws-sigv4"]
    """`aws-sigv4`: AWS Signature Version 4."""
    region: str
    """Region in the credential scope. Templates allowed."""
    service: str
    """Service in the credential scope. Templates allowed."""


# ── How tokens are requested, refreshed and revoked: parts for nested fields of an entry.

Encoding = Literal["form", "json", "query"]
ClientAuth = Literal["basic", "body", "private_key_jwt", "custom", "none"]


class TokenResponse(Shape):
    """Where the token response has its values, if not where RFC 6749 §5.1 puts them."""

    token_path: str | None = None
    """Dotted path to the token; `access_token` if absent."""
    refresh_token_path: str | None = None
    """Dotted path to the refresh token; `refresh_token` if absent."""
    expiry_path: str | None = None
    """Dotted path to the token's expiry; `expires_in` if absent."""
    expiry_kind: Literal["duration", "timestamp"] | None = None
    """Kind of the expiry: a `duration` from now (the default), or a `timestamp` as epoch or date."""


class Step(Shape):
    """A further request after the token request, which is step 1. Later steps use its response as `${stepN.…}`."""

    url: str
    """The request's URL. Placeholders allowed, also for responses of earlier steps."""
    method: Literal["GET", "POST", "PUT"] = "POST"
    """The request's method."""
    params: dict[str, str] = Field(default_factory=dict)
    """Parameters of the request, encoded as `body_format` says."""
    body: dict[str, Any] | None = None
    """A JSON body that is not a flat list of parameters. Templates allowed in its texts."""
    body_format: Encoding | None = None
    """How `params` are encoded; as in the token request if absent."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields."""


class TokenCall(Shape):
    """How a token is revoked (RFC 7009) or introspected (RFC 7662), if the provider deviates from the standard."""

    method: Literal["POST", "DELETE", "GET"] = "POST"
    """The request's method."""
    auth_method: Literal["basic", "body", "private_key_jwt", "custom", "bearer", "none"] | None = None
    """How the client authenticates: as in token requests if absent; `bearer` sends the access token in
    `Authorization`."""
    body_format: Encoding | None = None
    """How parameters are encoded; `form` if absent, as in the standards."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields."""
    params: dict[str, str] = Field(default_factory=dict)
    """Further parameters."""
    param_renames: dict[str, str] = Field(default_factory=dict)
    """Standard parameter (`token`, `token_type_hint`, `client_id` …) ▸ the provider's name for it; an empty name leaves
    it out."""
    tokens: Literal["access_token", "refresh_token", "both"] | None = None
    """Which tokens to send, one call per token; `both` if absent."""


class RefreshPolicy(Shape):
    """How the provider handles refresh tokens. The gateway refreshes unused tokens before they expire (keep-alive)."""

    rotating: bool | None = None
    """Whether each refresh returns a new refresh token and invalidates the old one."""
    reuse_grace_s: int | None = Field(default=None, gt=0, le=86_400)
    """Seconds for which the provider still accepts the previous refresh token, in case its response got lost; the
    gateway keeps that token equally long."""
    requires_scope: str | None = None
    """The scope without which the provider returns no refresh token."""
    expires_after_days: int | None = Field(default=None, gt=0)
    """Days after which a refresh token expires, even if it is used."""
    expires_after_days_unused: int | None = Field(default=None, gt=0)
    """Days after which an unused refresh token expires."""
    expires_after_days_owner_inactive: int | None = Field(default=None, gt=0)
    """Days after which a refresh token expires if its owner does not use the provider."""
    access_token_lifetime_s: int | None = Field(default=None, gt=0)
    """Usual lifetime of access tokens in seconds; for information only, since the token response decides."""
    method: Literal["POST", "GET"] | None = None
    """Method of the refresh request; `POST` if absent."""
    by_access_token: bool | None = None
    """True if the provider has no refresh tokens and exchanges a valid access token for a newer one."""
    from_age_s: int | None = Field(default=None, gt=0)
    """Minimum age of an access token in seconds before the provider renews it; the gateway does not refresh it
    earlier."""


# ── How a provider's API is called: base URL, additions to every request, pagination, retry, verification.


class Paginate(Shape):
    """How the provider paginates long lists."""

    type: Literal["cursor", "link", "offset", "graphql"]
    """`cursor`: the response has a cursor for the next page; `link`: it has the next page's URL; `offset`: the caller
    counts pages or records; `graphql`: a connection with `pageInfo { endCursor hasNextPage }`, by POST."""
    cursor_path_in_response: str | None = None
    """Dotted path in the response to the next page's cursor. `-1` is the last item of an array."""
    limit_name_in_request: str | None = None
    """Query parameter that carries the page size; with `in_body`, a dotted path in the body."""
    cursor_name_in_request: str | None = None
    """Query parameter that carries the cursor; with `in_body`, a dotted path in the body. For
    `graphql`, the default is `variables.after`."""
    response_path: str | None = None
    """Dotted path in the response to the array of records; for `graphql`, to the connection. Absent: the response is
    the array, or the path differs by resource."""
    has_more_path_in_response: str | None = None
    """Dotted path to the flag that says whether another page follows."""
    link_rel_in_response_header: str | None = None
    """Relation of the next page in the `Link` header (RFC 8288)."""
    link_path_in_response_body: str | None = None
    """Dotted path in the response to the next page's URL."""
    offset_name_in_request: str | None = None
    """Query parameter that carries the offset; with `in_body` a dotted path in the body."""
    offset_start_value: int | None = None
    """The first page's offset; 0 if absent."""
    offset_calculation_method: Literal["per-page", "by-response-size"] | None = None
    """Whether the offset counts pages (`per-page`) or records (`by-response-size`)."""
    in_body: bool | None = None
    """True if the list is requested by POST, with cursor, offset and limit as members of the JSON body. An
    entry's `applies_to` must then be the path of such lists, since any other POST may change something."""
    next_path_in_request: str | None = None
    """With `in_body`: path below `base_url` for the requests of later pages, with only the cursor in the body;
    `{path}` stands for the first page's path."""
    applies_to: str | None = None
    """Path of the lists that are paginated this way: `{id}` for any one segment, `…` at the end for
    everything below. Or a description in words."""
    note: str | None = None
    """Further remarks, in words."""


class Retry(Shape):
    """The header fields that say when to retry, and the statuses to retry on. `Retry-After` is always honoured."""

    after: list[str] | str | None = None
    """Names of header fields that hold seconds or a date."""
    at: list[str] | str | None = None
    """Names of header fields that hold a point in time, as epoch seconds or as a date."""
    remaining: str | None = None
    """Name of the header field with the number of calls left; 0 means wait."""
    error_code: list[Status] | None = None
    """Statuses to retry on: `429`, `5xx`, `500-502`. They replace the defaults, 429 and 502 to 504."""


ANY_VALUE: Final = "*"  # as a value in `expect`: any value except null
NO_VALUE: Final = "-"


class Verification(Shape):
    """A cheap call that verifies a credential."""

    method: Literal["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE"] = "GET"
    """The request's method."""
    endpoints: list[str]
    """Paths below the base URL, tried in turn until one responds with 2xx. Placeholders allowed."""
    base_url_override: str | None = None
    """Another base URL for these calls."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields to add, templates allowed."""
    data: dict[str, Any] | str | None = None
    """Body: an object is sent as JSON, or as a form if `headers` say so; text is sent as it is. Templates allowed."""
    expect: dict[str, str | bool | int | float] | None = None
    """Required members of a 2xx response's JSON, for a provider that responds with 2xx to a wrong credential too:
    dotted path ▸ value. `"*"`: any value but null; `"-"`: absent or null. All must match."""


class Proxy(Shape):
    """Where proxied requests are sent and what the gateway adds to them."""

    base_url: str
    """URL to which the path after `/proxy` is appended. Placeholders allowed."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields. A field with a credential placeholder replaces the caller's value; other fields are only defaults."""
    query: dict[str, str] = Field(default_factory=dict)
    """Query parameters, with the same rule as `headers`."""
    body: dict[str, Any] = Field(default_factory=dict)
    """Members added to the caller's JSON object or form, with the same rule as `headers`. Templates allowed in texts."""
    decompress: bool | None = None
    """Whether compressed responses are decompressed for the caller."""
    paginate: Paginate | None = None
    """How the provider paginates long lists."""
    paginate_alternatives: list[Paginate] | None = None
    """Other pagination methods that some resources use."""
    retry: Retry | None = None
    """When to retry a call, and on which statuses."""
    verification: Verification | None = None
    """A cheap call that verifies a credential."""
    allowed_origins: list[str] = Field(default_factory=list)
    """Further origins that a `Base-Url-Override`, or the next page of a list, may name; the credential is sent there
    too. `https://*.example.com` means all hosts one label below."""
    scope_challenge: Literal["all", "any"] | None = None
    """How many of the scopes that a 403 with `error="insufficient_scope"` names (RFC 6750) a token needs: `all`,
    the default, or `any` one of them."""
    path_form: str | None = None
    """Example of a path on this provider, for people: `/ex/jira/${connectionConfig.cloudId}/…`."""


# ── How a provider proves that it sent a webhook.


class WebhookKeys(Shape):
    """The provider's public keys for verifying webhooks.

    They are fetched under the same egress rules as all requests.
    """

    url: str | None = None
    """The key set's URL. `${kid}` is the key id in the token, `${name}` one of `secret_fields` (in the host, one
    label)."""
    url_header: str | None = None
    """Header field of the webhook that has the key's URL."""
    url_prefixes: list[str] = Field(default_factory=list)
    """With `url_header`: allowed beginnings of the URL; a name of letters, digits, `-` and `_` must follow."""
    method: Literal["GET", "POST"] = "GET"
    """The request's method."""
    body: dict[str, str] | None = None
    """The request's JSON body, with the same placeholders. The response is a key set (RFC 7517), one JWK under `key`,
    or PEM."""


class WebhookSignature(Shape):
    """How the provider signs the webhooks it sends."""

    scheme: str
    """`hmac-sha256`, `hmac-sha1`, `standard-webhooks`, `ed25519`, `ecdsa-p256-sha256`, `rsa-sha256`, `jwt`,
    `shared-token`, `basic` …"""
    header: str | None = None
    """Header field with the signature. Absent only if `body_path` says where a shared token is."""
    body_path: str | None = None
    """For `shared-token`: dotted path in the JSON body to the token, `*` for every item of a list."""
    algorithm: Literal["HS256", "HS512", "RS256", "ES256", "PS256"] | None = None
    """For `jwt`: the only accepted algorithm (RFC 7518)."""
    body_digest_claim: str | None = None
    """For `jwt`: claim with the SHA-256 of the body in hex. Absent: the token does not protect the body."""
    address_claim: str | None = None
    """For `jwt`: claim that, if present, must equal the webhook URL."""
    secret_claim: str | None = None
    """For `jwt`: claim that must equal the integration's `webhook_secret`, such as the sending account."""
    claims: dict[str, str] = Field(default_factory=dict)
    """For `jwt`: claims that must have these values."""
    keys: WebhookKeys | None = None
    """Where the provider publishes its public keys. Absent: the integration's `webhook_secret` is the key."""
    secret_fields: list[str] = Field(default_factory=list)
    """For `keys`: names of the parts of the integration's `webhook_secret`, separated by colons: `[client_id,
    secret]`."""
    encoding: Literal["hex", "base64"] | None = None
    """Encoding of the signature."""
    prefix: str | None = None
    """Text before the signature, for example `sha256=`."""
    signed_payload: str | None = None
    """What is signed: `raw body`, or a form such as `v0:{x-slack-request-timestamp}:{raw body}`."""
    timestamp_header: str | None = None
    """Header field with the timestamp."""
    tolerance_s: int | None = None
    """Maximum age of a message in seconds; 300 if absent."""
    key: str | None = None
    """The secret with which the provider signs: `client secret`, `auth token`. Absent: a secret created for the
    webhook."""
    key_suffix: str | None = None
    """Text that the provider appends to the client secret before it signs, for example `&`."""
    bodies_repeat: bool | None = None
    """Whether two events may have the same body, so that a repeated body is not treated as a replay."""
    challenge: str | None = None
    """How the provider verifies the webhook URL before it sends webhooks, for example `hub.challenge echoed`."""
    handshake_header: str | None = None
    """Header field that has the secret in the first request and is echoed."""
    note: str | None = None
    """Further remarks, in words."""


# ── How an operator registers an app at the provider.


class Setup(Shape):
    """The steps in the provider's developer console.

    The guide page shows them with the callback URL of this gateway.
    """

    console: str
    """URL of the console."""
    app_type: str | None = None
    """Which kind of app to register, as the console calls it."""
    steps: list[str] = Field(min_length=1)
    """The steps in the console, in order."""
    scopes: list[str] = Field(default_factory=list)
    """Scopes that are enough for a first call."""
    blocks_production: list[str] = Field(default_factory=list)
    """What must be done before people other than the app's owner can connect."""
    date: Date
    """When the steps were written down. Consoles change."""
    sources: list[str] = Field(default_factory=list)
    """Pages with these steps. Absent: general knowledge, without a source."""


# ── When the provider or this API shuts down.


class Sunset(Shape):
    """The announced shutdown of the API that the entry describes."""

    date: Date | None = None
    """The last day, as `2026-08-31`. Absent: already ended or closed to new apps, and no source names the day."""
    what: str
    """What ends, in words."""
    source: str
    """Source of the announcement: a URL, or words."""
    replaced_by: list[str] = Field(default_factory=list)
    """Entries that replace it."""

    def sentence(self) -> str:
        """Return one sentence, without a full stop: what ends, when, and what replaces it."""
        on_date = f" on {self.date}" if self.date else ""
        replacement = f"; use {' or '.join(self.replaced_by)}" if self.replaced_by else ""
        return f"sunset{on_date}: {self.what} (source: {self.source}){replacement}"
