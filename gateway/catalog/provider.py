"""The shape of a catalog entry: what a provider's YAML file may say, and what `/providers` shows of it (requirement 2.1)."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    """Unknown keys are a fault: a misspelt key that is silently ignored costs an afternoon."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Setting(Shape):
    """One value that a connection needs: a form field, or, where `automated`, set by the service itself."""

    type: Literal["string"] = "string"
    title: str
    description: str | None = None
    example: str | None = None
    pattern: str | None = None
    enum: list[str] | None = None
    format: Literal["hostname", "uri", "uuid", "email"] | None = None
    default_value: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    order: int | None = None
    optional: bool = False
    secret: bool = False
    hidden: bool = False
    automated: bool = False


class Paginate(Shape):
    """How the provider cuts long lists (requirement 2.1)."""

    type: Literal["cursor", "link", "offset"]
    limit_name_in_request: str | None = None
    response_path: str | None = None
    cursor_path_in_response: str | None = None
    cursor_name_in_request: str | None = None
    has_more_path_in_response: str | None = None
    link_rel_in_response_header: str | None = None
    link_path_in_response_body: str | None = None
    offset_name_in_request: str | None = None
    offset_start_value: int | None = None
    offset_calculation_method: Literal["per-page", "by-response-size"] | None = None
    applies_to: str | None = None


class Retry(Shape):
    """Where the provider says when to come back: header names, and the statuses that mean it."""

    after: list[str] | str | None = None
    at: list[str] | str | None = None
    remaining: str | None = None
    error_code: list[str] | None = None


class Verification(Shape):
    """A cheap call that proves a credential; endpoints are tried in turn until one answers 2xx."""

    method: Literal["GET", "POST", "HEAD"] = "GET"
    endpoints: list[str]
    base_url_override: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)


class Proxy(Shape):
    """Where proxied requests go and what is put on them."""

    base_url: str
    headers: dict[str, str] = Field(default_factory=dict)
    query: dict[str, str] = Field(default_factory=dict)
    decompress: bool | None = None
    paginate: Paginate | None = None
    paginate_alternatives: list[Paginate] | None = None
    retry: Retry | None = None
    verification: Verification | None = None
    allowed_origins: list[str] = Field(default_factory=list)
    path_form: str | None = None


class RefreshPolicy(Shape):
    """What the provider does with refresh tokens; the idle limits feed the keep-alive."""

    rotating: bool | None = None
    requires_scope: str | None = None
    expires_after_days_unused: int | None = None
    expires_after_days_owner_inactive: int | None = None
    access_token_lifetime_s: int | None = None


class Provider(Shape):
    """One catalog entry. `name` is the file's name. A field that the file leaves out is absent in answers, never null."""

    name: str
    display_name: str
    logo_url: str | None = None
    categories: list[str]
    auth_mode: str
    docs: str
    docs_connect: str | None = None
    homepage: str | None = None
    authorization_url: str | None = None
    token_url: str | None = None
    refresh_url: str | None = None
    revocation_url: str | None = None
    issuer: str | None = None
    authorization_params: dict[str, str] = Field(default_factory=dict)
    token_params: dict[str, str] = Field(default_factory=dict)
    refresh_params: dict[str, str] = Field(default_factory=dict)
    token_headers: dict[str, str] = Field(default_factory=dict)
    token_request_auth_method: Literal["basic", "body"] | None = None
    body_format: Literal["form", "json"] | None = None
    scope_separator: str | None = None
    default_scopes: list[str] | None = None
    available_scopes: list[str] | None = None
    disable_pkce: bool | None = None
    token_expiration_buffer: int | None = None
    token_ttl: int | None = None
    alternate_access_token_response_path: str | None = None
    token_response_metadata: list[str] | None = None
    redirect_uri_metadata: list[str] | None = None
    refresh: RefreshPolicy | None = None
    connection_configuration: list[str] | None = None
    connection_config: dict[str, Setting] = Field(default_factory=dict)
    credentials: dict[str, Setting] = Field(default_factory=dict)
    post_connection_script: str | None = None
    webhook_routing_script: str | None = None
    webhook_signature: dict[str, Any] | None = None
    proxy: Proxy
