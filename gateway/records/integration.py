"""An integration: the configured use of one provider (docs/configuration.md#integrations)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from gateway.secret import Secret

TraceHeaders = Literal["own", "pass", "drop"]
"""What the gateway does with a caller's ``traceparent`` and ``tracestate`` in the request to the provider. ``pass``
forwards both. ``own`` also forwards them, but for a traced call ``traceparent`` names the gateway's span as the parent.
``drop`` removes both."""
OWN: Final = "own"
DROP: Final = "drop"


@dataclass(frozen=True, slots=True)
class ApiManagedRow:
    """The row of an integration created through the API: its identity, its version, and the times of its creation and
    last change."""

    uid: str
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """An integration. `environment` and `integration_id` identify the integration; clients send `integration_id` as
    ``Provider-Config-Key``.

    - `scopes`: None: no scopes are configured, so the provider's default scopes are requested
    - `app_id`, `app_link`, `private_key`: the id, the page at the provider and the signing key (PEM) of an app that end
      users install
    - `webhook_secret`: the secret with which the provider signs webhooks
    - `webhook_secret_previous`: the previous secret, which is also valid during a rotation
    - `forward_webhooks`: whether webhooks are forwarded to the application
    - `allow_unsigned_webhooks`: whether, without a secret to verify them, webhooks are accepted from anyone who knows
      the URL
    - `allowed_hosts`: hosts that an end user may name if the provider's entry does not fix the host; the integration's
      secrets can then be sent to these hosts. Each is a name such as ``git.example.com`` or ``*.example.com``, with the
      port unless it is the default one.
    - `site_selection`: how a site is chosen if a token can access several sites. ``match`` takes the site that the
      settings name, or the first site if they name none; ``ask`` lets the end user choose if several sites match.
    - `trace_headers`: None: the setting `egress.trace_headers` applies
    - `custom`: names and values that the customer stores with the integration
    - `managed_row`: the integration's row, if it was created through the API; None: gateway.yaml declares the
      integration
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
    managed_row: ApiManagedRow | None = None

    @property
    def webhook_secrets(self) -> tuple[Secret, ...]:
        """All valid signing secrets, the newest first. An empty secret is left out, because anybody could sign with
        it."""
        return tuple(secret for secret in (self.webhook_secret, self.webhook_secret_previous) if secret)
