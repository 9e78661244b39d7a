"""The parts of an entry: settings, token requests, signing, traffic, webhooks; and their closed word lists."""

from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

# ── What all shapes of the catalog have in common.


class Shape(BaseModel):
    """Unknown keys are a fault: a misspelt key that is silently ignored costs an afternoon.

    The text under a field is its description in the JSON Schema, which editors show.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True)


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


# A status or a status range: YAML reads 429 as a number, 5xx as text.
Status = Annotated[str, BeforeValidator(_number_as_text)]


# ── The closed word lists of the catalog: categories, and the other spelling of scripts. Auth modes: `auth_modes`.

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

# The peer's spelling of script names, which operators have in their files, and ours.
SCRIPT_ALIASES: Final = MappingProxyType(
    {
        "jiraPostConnection": "jira_post_connection",
        "jiraWebhookRouting": "jira_webhook_routing",
    }
)


# ── A setting: one value that a connection or a credential consists of, as a form field and as a rule for its value.


class VisibleWhen(Shape):
    """Show a field only while another one has a certain value."""

    field: str
    """Name of the other setting."""
    equals: str
    """The value at which this one is shown."""


class Setting(Shape):
    """A value that a connection needs: a form field or, where `automated`, set by the service itself."""

    type: Literal["string"] = "string"
    """Always `string`."""
    title: str = ""
    """Label of the form field. Made from the setting's name if left out."""
    description: str | None = None
    """One sentence below the field: where to find the value."""
    example: str | None = None
    """A value of the right form that belongs to nobody."""
    pattern: str | None = None
    """Regular expression that the whole value must match."""
    enum: list[str] | None = None
    """The only values allowed."""
    format: Literal["hostname", "uri", "uuid", "email"] | None = None
    """What kind of text. Only a `hostname` may bring dots into a host; only a `uri` may be a whole address."""
    default_value: str | None = None
    """Taken where the connection has no value."""
    prefix: str | None = None
    """Shown before the field, for example `https://`. Never part of the value."""
    suffix: str | None = None
    """Shown after the field, for example `.example.com`. Never part of the value."""
    doc_section: str | None = None
    """Anchor in `docs_connect` where this value is explained."""
    order: int | None = None
    """Place in the form, counted from 0."""
    optional: bool = False
    """Whether the end user may leave it empty."""
    secret: bool = False
    """Whether it is sealed in the store and masked everywhere."""
    hidden: bool = False
    """Whether the form leaves it out."""
    any_host: bool = False
    """Whether it may name any host, as for software that people run themselves. The credential goes there."""
    automated: bool = False
    """Whether the service sets it, so that nobody is asked."""
    visible_when: VisibleWhen | None = None
    """Show it only while another setting has a certain value."""


def with_titles(forms: Any) -> Any:
    """`forms` as it came from YAML, each setting that has no title given one made from its name."""
    if not isinstance(forms, dict):
        return forms
    return {name: _with_title(name, form) for name, form in forms.items()}


def _with_title(name: Any, form: Any) -> Any:
    if form is None:
        form = {}
    return {"title": title_from(str(name)), **form} if isinstance(form, dict) else form


def title_from(name: str) -> str:
    """``cloudId`` ▸ ``Cloud ID``, ``instance_url`` ▸ ``Instance URL``."""
    spaced = "".join(f" {c}" if c.isupper() and i and not name[i - 1].isupper() else c for i, c in enumerate(name))
    words = spaced.replace("_", " ").replace("-", " ").replace(".", " ").split()
    shown = [word.upper() if word.lower() in {"id", "url", "api", "uri"} else word.lower() for word in words]
    return " ".join([shown[0] if shown[0].isupper() else shown[0].capitalize(), *shown[1:]]) if shown else name


# ── Which endpoint names the account behind a credential.


class AccountForm(Shape):
    """The account that authorized. What is not said here is still found in an `id_token`, or by the post-connection script."""

    endpoint: str | None = None
    """Path below `proxy.base_url`, or a whole address, that returns it; asked once with the new credential. Absent: the
    token answer holds it."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields of that call, templates allowed; they replace those of `proxy.headers`."""
    method: Literal["GET", "POST"] | None = None
    """The call's method, `GET` if absent."""
    data: dict[str, Any] | None = None
    """With POST: its JSON body, such as a GraphQL query."""
    id: str | None = None
    """Dotted path to what never changes for one account. A reconnect with another one is refused. Absent: the subject of an
    `id_token`."""
    label: list[str] = Field(default_factory=list)
    """Dotted paths to what people know the account by; the first that is there is taken."""
    settings: dict[str, str] = Field(default_factory=dict)
    """Setting ▸ dotted path to its value in the same answer, kept with a connection that does not have it yet. Where the
    provider does not return it, nothing is stored. `[name=value]` in a path takes the item of a list with that member."""


# ── What is signed, and with which key: JWTs, signed tokens, signed requests.


class Jwt(Shape):
    """The JSON Web Token (RFC 7519) that the mode signs.

    JWT sends it as the access token, TWO_STEP puts it into its token request as `${jwt}` (RFC 7523), APP asks with it for
    an installation's token, and with `token_request_auth_method: private_key_jwt` it is the client's proof.
    """

    header: dict[str, str] = Field(default_factory=dict)
    """Header parameters; `alg` is one of RS256, PS256, ES256, EdDSA, HS256 and their longer kin. Templates allowed."""
    claims: dict[str, Any] = Field(default_factory=dict)
    """Claims besides `iat` and `exp`, which the mode sets. Templates allowed; one whose values are unset is left out."""
    key: str
    """The key that signs, as a template: a private key in PEM or JWK, or the secret of an HMAC."""
    key_encoding: Literal["utf8", "hex", "base64"] | None = None
    """How the secret of an HMAC is written; `utf8` if absent."""
    lifetime_s: int = Field(default=300, gt=0)
    """Seconds from `iat` to `exp`."""


class Signature(Shape):
    """The token that SIGNATURE makes again from user name and password."""

    scheme: Literal["wsse"]
    """`wsse`: a WS-Security UsernameToken."""
    lifetime_s: int = Field(default=300, gt=0)
    """Seconds for which one may be sent."""


class RequestSigning(Shape):
    """How each request is signed."""

    scheme: Literal["aws-sigv4"]
    """`aws-sigv4`: AWS Signature Version 4."""
    region: str
    """Region in the credential scope. Templates allowed."""
    service: str
    """Service in the credential scope. Templates allowed."""


# ── How tokens are requested, refreshed and ended where the entry's flat fields do not say it all.

Encoding = Literal["form", "json", "query"]
ClientAuth = Literal["basic", "body", "private_key_jwt", "custom", "none"]


class TokenResponse(Shape):
    """Where the answer that grants a token keeps what we need, if not where RFC 6749 §5.1 has it."""

    token_path: str | None = None
    """Dotted path to the token; `access_token` if absent."""
    refresh_token_path: str | None = None
    """Dotted path to the refresh token; `refresh_token` if absent."""
    expiry_path: str | None = None
    """Dotted path to the token's end; `expires_in` if absent."""
    expiry_kind: Literal["duration", "timestamp"] | None = None
    """Whether that is a `duration` from now, which is the default, or the `timestamp` of the end, as epoch or as a date."""


class Step(Shape):
    """A further request after the token request, which is step 1. Its answer is `${stepN.…}` for those after it."""

    url: str
    """Where it goes. Placeholders allowed, those of earlier steps too."""
    method: Literal["GET", "POST", "PUT"] = "POST"
    """The request's method."""
    params: dict[str, str] = Field(default_factory=dict)
    """Form or JSON parameters of the request."""
    body: dict[str, Any] | None = None
    """A JSON body that is more than a flat list of parameters; templates in its texts."""
    body_format: Encoding | None = None
    """How `params` are sent; as those of the token request if absent."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields."""


class TokenCall(Shape):
    """How a token is revoked (RFC 7009) or introspected (RFC 7662) where the provider bends the standard."""

    method: Literal["POST", "DELETE", "GET"] = "POST"
    """The request's method."""
    auth_method: Literal["basic", "body", "private_key_jwt", "custom", "bearer", "none"] | None = None
    """How the client proves itself: as in token requests if absent; `bearer` sends the access token in `Authorization`."""
    body_format: Encoding | None = None
    """How parameters are sent; `form` if absent, as the standards have it."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields."""
    params: dict[str, str] = Field(default_factory=dict)
    """Further parameters."""
    param_renames: dict[str, str] = Field(default_factory=dict)
    """Standard parameter (`token`, `token_type_hint`, `client_id` …) ▸ the provider's name for it; empty leaves it out."""
    tokens: Literal["access_token", "refresh_token", "both"] | None = None
    """Which tokens to name, each in a call of its own; `both` if absent."""


class RefreshPolicy(Shape):
    """How the provider handles refresh tokens; the idle limits feed the keep-alive."""

    rotating: bool | None = None
    """Whether each refresh returns a new refresh token and ends the old one."""
    reuse_grace_s: int | None = Field(default=None, gt=0, le=86_400)
    """Seconds for which the provider still takes the refresh token before, in case its answer got lost; we keep it as long."""
    requires_scope: str | None = None
    """The scope without which no refresh token is given."""
    expires_after_days: int | None = Field(default=None, gt=0)
    """Days after which a refresh token dies however much it is used."""
    expires_after_days_unused: int | None = Field(default=None, gt=0)
    """Days after which an unused refresh token dies."""
    expires_after_days_owner_inactive: int | None = Field(default=None, gt=0)
    """Days after which it dies when its owner has not used the provider."""
    access_token_lifetime_s: int | None = Field(default=None, gt=0)
    """How long access tokens usually live, in seconds; for people, since the token answer decides."""
    method: Literal["POST", "GET"] | None = None
    """Method of the refresh request, `POST` if absent."""
    by_access_token: bool | None = None
    """True where there are no refresh tokens and a live access token is exchanged for a younger one."""
    from_age_s: int | None = Field(default=None, gt=0)
    """Seconds that an access token must have lived before the provider renews it; before, it is not asked."""


# ── How a provider's API is called: base address, what goes on every request, paging, retry, proof of a credential.


class Paginate(Shape):
    """How the provider cuts long lists."""

    type: Literal["cursor", "link", "offset", "graphql"]
    """`cursor`: the answer names the next page; `link`: it holds the next address; `offset`: the caller counts; `graphql`:
    a connection with `pageInfo { endCursor hasNextPage }`, by POST."""
    cursor_path_in_response: str | None = None
    """Dotted path in the answer to the next page's cursor. `-1` is the last item of an array."""
    limit_name_in_request: str | None = None
    """Query parameter that carries the page size; with `in_body` a dotted path in the body."""
    cursor_name_in_request: str | None = None
    """Query parameter that carries the cursor; with `in_body` a dotted path in the body; for
    `graphql` `variables.after` if absent."""
    response_path: str | None = None
    """Dotted path in the answer to the array of records, for `graphql` to the connection. Absent: the answer is
    the array, or it differs by resource."""
    has_more_path_in_response: str | None = None
    """Dotted path to the flag that says whether another page follows."""
    link_rel_in_response_header: str | None = None
    """Relation of the next page in the `Link` field (RFC 8288)."""
    link_path_in_response_body: str | None = None
    """Dotted path in the answer to the next page's address."""
    offset_name_in_request: str | None = None
    """Query parameter that carries the offset; with `in_body` a dotted path in the body."""
    offset_start_value: int | None = None
    """The first page's offset, 0 if absent."""
    offset_calculation_method: Literal["per-page", "by-response-size"] | None = None
    """Whether the offset counts pages or records."""
    in_body: bool | None = None
    """True where the list is requested by POST, and cursor, offset and limit are members of its JSON body. In
    an entry `applies_to` must then be the path of such lists, since any other POST may change something."""
    next_path_in_request: str | None = None
    """With `in_body`: path below `base_url` of the request for later pages, whose body holds the cursor alone;
    `{path}` stands for the first page's path."""
    applies_to: str | None = None
    """Path of the lists that it holds for, `{id}` for any one segment, `…` at the end for all that
    lies below. Or words, for people."""
    note: str | None = None
    """What else to know, in words."""


class Retry(Shape):
    """Where the provider says when to come back, and which statuses mean it. `Retry-After` is always honoured."""

    after: list[str] | str | None = None
    """Names of header fields that hold seconds or a date."""
    at: list[str] | str | None = None
    """Names of header fields that hold the time itself, as epoch seconds or as a date."""
    remaining: str | None = None
    """Name of the header field that counts the calls left; 0 means wait."""
    error_code: list[Status] | None = None
    """Statuses that mean it: `429`, `5xx`, `500-502`. They replace the usual ones."""


ANYTHING: Final = "*"  # a value of `expect`
NOTHING: Final = "-"


class Verification(Shape):
    """A cheap call that proves a credential."""

    method: Literal["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE"] = "GET"
    """The request's method."""
    endpoints: list[str]
    """Paths below the base address, tried in turn until one answers 2xx."""
    base_url_override: str | None = None
    """Another base address for these calls."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Fields to add, templates allowed."""
    data: dict[str, Any] | str | None = None
    """Body: an object goes as JSON, or as a form where `headers` say so; text goes as it is. Templates allowed."""
    expect: dict[str, str | bool | int | float] | None = None
    """What the JSON of a 2xx must hold besides, where a wrong credential is answered 2xx too: dotted path ▸ value. `"*"`:
    any but null; `"-"`: absent or null. All must hold."""


class Proxy(Shape):
    """Where proxied requests go and what is put on them."""

    base_url: str
    """Address to which the path of `/proxy/…` is appended. Placeholders allowed."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields. One that holds a credential placeholder replaces the caller's; any other is only a default."""
    query: dict[str, str] = Field(default_factory=dict)
    """Query parameters, under the same rule."""
    body: dict[str, Any] = Field(default_factory=dict)
    """Members put into a JSON object or form that the caller sends, under the same rule; templates in texts."""
    decompress: bool | None = None
    """Whether compressed answers are unpacked for the caller."""
    paginate: Paginate | None = None
    """How long lists are cut."""
    paginate_alternatives: list[Paginate] | None = None
    """Other ways of paging that some of its resources use."""
    retry: Retry | None = None
    """The field that says when to retry."""
    verification: Verification | None = None
    """A cheap call that proves a credential."""
    allowed_origins: list[str] = Field(default_factory=list)
    """Further origins that a `Base-Url-Override`, or the next page of a list, may name; the credential travels there.
    `https://*.example.com` names all hosts one label below."""
    scope_challenge: Literal["all", "any"] | None = None
    """Whether a token needs all scopes that a 403 with `error="insufficient_scope"` names (RFC 6750), which is the default, or
    any one of them."""
    path_form: str | None = None
    """What a path on this provider looks like, for people: `/ex/jira/${connectionConfig.cloudId}/…`."""


# ── How a provider proves that a webhook comes from it.


class WebhookKeys(Shape):
    """Where the public keys are that prove webhooks. They are requested over the same guarded way out as all else."""

    url: str | None = None
    """The key set's address. `${kid}` is the key id in the token, `${name}` one of `secret_fields`, in the host one label."""
    url_header: str | None = None
    """Header field of the webhook that names the address."""
    url_prefixes: list[str] = Field(default_factory=list)
    """With `url_header`: how such an address must begin; a name of letters, digits, `-` and `_` follows."""
    method: Literal["GET", "POST"] = "GET"
    """The request's method."""
    body: dict[str, str] | None = None
    """The request's JSON body, with the same placeholders. The answer is a key set (RFC 7517), one JWK under `key`, or PEM."""


class WebhookSignature(Shape):
    """How the provider signs the webhooks it sends."""

    scheme: str
    """`hmac-sha256`, `hmac-sha1`, `standard-webhooks`, `ed25519`, `ecdsa-p256-sha256`, `rsa-sha256`, `jwt`, `shared-token`,
    `basic` …"""
    header: str | None = None
    """Header field that carries the signature. Absent only where `body_path` says where a shared token is."""
    body_path: str | None = None
    """For `shared-token`: dotted path in the JSON body to the token, `*` for every item of a list."""
    algorithm: Literal["HS256", "HS512", "RS256", "ES256", "PS256"] | None = None
    """For `jwt`: the one algorithm that is taken (RFC 7518)."""
    body_digest_claim: str | None = None
    """For `jwt`: claim with the SHA-256 of the body in hex. Absent: the token does not prove the body."""
    address_claim: str | None = None
    """For `jwt`: claim that must be the address of the webhook, if it is there."""
    secret_claim: str | None = None
    """For `jwt`: claim that must be the integration's `webhook_secret`, such as the account that sends."""
    claims: dict[str, str] = Field(default_factory=dict)
    """For `jwt`: claims that must have these values."""
    keys: WebhookKeys | None = None
    """Where the provider publishes its public keys. Absent: the secret is the key."""
    secret_fields: list[str] = Field(default_factory=list)
    """What the integration's `webhook_secret` holds, with colons between, for `keys`: `[client_id, secret]`."""
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
    key_suffix: str | None = None
    """Text that the provider appends to the client secret before it signs, for example `&`."""
    bodies_repeat: bool | None = None
    """Whether two events may have the same body, so that a message that came before is not taken for a replay."""
    challenge: str | None = None
    """How the provider proves the address before it sends, for example `hub.challenge echoed`."""
    handshake_header: str | None = None
    """Header field that brings the secret in the first request and is echoed."""
    note: str | None = None
    """What else to know, in words."""


# ── How an operator registers an app at the provider.


class Setup(Shape):
    """The steps in the provider's developer console.

    The guide page shows it with the callback address of this gateway.
    """

    console: str
    """Address of the console."""
    app_type: str | None = None
    """Which kind of app to register, as the console calls it."""
    steps: list[str] = Field(min_length=1)
    """What to do there, in order."""
    scopes: list[str] = Field(default_factory=list)
    """Scopes for a first call, to begin with."""
    blocks_production: list[str] = Field(default_factory=list)
    """What keeps other people than the app's owner from connecting, until something is done."""
    date: str = Field(pattern=r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
    """When this was written down. Consoles change."""
    sources: list[str] = Field(default_factory=list)
    """Pages that were read for it; absent: general knowledge that nobody looked up."""


# ── When the provider, or this API of it, ends.


class Sunset(Shape):
    """The announced end of the API that the entry describes."""

    date: str | None = Field(default=None, pattern=r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
    """The last day, as `2026-08-31`. Absent: ended or closed to new apps, on a day that no source names."""
    what: str
    """What ends, in words."""
    source: str
    """Who says so: an address, or words."""
    replaced_by: list[str] = Field(default_factory=list)
    """Entries that replace it."""

    def sentence(self) -> str:
        """Return what ends, when, and what replaces it, without a full stop."""
        when = f" on {self.date}" if self.date else ""
        instead = f"; use {' or '.join(self.replaced_by)}" if self.replaced_by else ""
        return f"sunset{when}: {self.what} (source: {self.source}){instead}"
