"""An integration: the configured use of one provider (docs/configuration.md#integrations)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from gateway.secret import Secret

TraceHeaders = Literal["own", "pass", "drop"]
"""What happens to a caller's ``traceparent`` and ``tracestate`` in the request to the provider."""
OWN: Final = "own"
DROP: Final = "drop"


@dataclass(frozen=True, slots=True)
class ApiManagedRow:
    """The row of an integration created through the API: its identity and version, and when it was written."""

    uid: str
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """An integration, identified by (`environment`, `integration_id`); clients send the latter as
    ``Provider-Config-Key``.

    `scopes` None: the operator named none, so the provider's default scopes are requested. `app_id`, `app_link`,
    `private_key`: the id, the page at the provider and the signing key (PEM) of an app that end users install.
    `webhook_secret`: the secret that the provider signs webhooks with, and during a rotation `webhook_secret_previous`
    too. `forward_webhooks`: whether webhooks are forwarded. `allow_unsigned_webhooks`: without a secret to verify them,
    webhooks are accepted from anyone who knows the URL. `allowed_hosts`: hosts that an end user may name if the
    provider's entry leaves the host open, and to which its secrets may then be sent: ``git.example.com``,
    ``*.example.com``, each with a port unless it is the default one. `site_selection`, if a token reaches several
    sites: ``ask`` shows a picker, ``match`` compares the subdomain. `trace_headers` None: as `egress.trace_headers`
    says. `custom`: names and values that the customer stores with the integration. `made` None: the integration is in
    gateway.yaml.
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
    webhook_secret: Secret | None = field(default=None, repr=False)
    webhook_secret_previous: Secret | None = field(default=None, repr=False)
    scopes: tuple[str, ...] | None = None
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    forward_set_cookie: bool = False
    site_selection: Literal["match", "ask"] = "match"
    forward_webhooks: bool = True
    allow_unsigned_webhooks: bool = False
    trace_headers: TraceHeaders | None = None
    custom: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    made: ApiManagedRow | None = None

    @property
    def webhook_secrets(self) -> tuple[Secret, ...]:
        """All valid signing secrets, the newest first. An empty one is left out: anybody could sign with it."""
        return tuple(one for one in (self.webhook_secret, self.webhook_secret_previous) if one)
