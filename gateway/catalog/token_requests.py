"""How tokens are asked for, renewed and ended where the entry's flat fields do not say it all."""

from typing import Any, Literal

from pydantic import Field

from gateway.catalog.shape import Shape

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
    """A further request of TWO_STEP. Its answer is `${stepN.…}` for those after it; the token request is step 1."""

    url: str
    """Where it goes. Placeholders allowed, those of earlier steps too."""
    method: Literal["GET", "POST", "PUT"] = "POST"
    """The request's method."""
    params: dict[str, str] = Field(default_factory=dict)
    """Its parameters."""
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
    """What the provider does with refresh tokens; the idle limits feed the keep-alive."""

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
