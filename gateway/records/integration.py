"""An integration: the configured use of one provider (requirement 2.3)."""

from dataclasses import dataclass, field
from typing import Literal

from gateway.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """Addressed by (`environment`, `integration_id`); the latter is sent as ``Provider-Config-Key``.

    `scopes` None means that the operator named none, so the provider's default scopes are asked for.
    `app_id`, `app_link` and `private_key` are of an app that end users install: who it is, its page at the provider, and
    what it signs with, in PEM.
    `site_selection` ``ask`` shows a picker where a token reaches several sites; ``match`` follows requirement 5.3.
    """

    environment: str
    integration_id: str
    provider: str
    display_name: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = field(default=None, repr=False)
    app_id: str | None = None
    app_link: str | None = None
    private_key: Secret | None = field(default=None, repr=False)
    scopes: tuple[str, ...] | None = None
    allowed_origins: tuple[str, ...] = ()
    forward_set_cookie: bool = False
    site_selection: Literal["match", "ask"] = "match"
