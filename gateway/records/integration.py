"""An integration: the configured use of one provider (docs/configuration.md#integrations)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from gateway.secret import Secret

TraceHeaders = Literal["own", "pass", "drop"]
"""What becomes of a caller's ``traceparent`` and ``tracestate`` on the way to the provider."""
OWN: Final = "own"
DROP: Final = "drop"


@dataclass(frozen=True, slots=True)
class Made:
    """The row of an integration that was made through the API: its identity and version, and when it was written."""

    uid: str
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """Addressed by (`environment`, `integration_id`); the latter is sent as ``Provider-Config-Key``.

    `scopes` None means that the operator named none, so the provider's default scopes are requested.
    `app_id`, `app_link` and `private_key` are of an app that end users install: who it is, its page at the provider, and
    what it signs with, in PEM. `webhook_secret` is what the provider signs its webhooks with, and during a rotation
    `webhook_secret_previous` too; `forward_webhooks`: whether they are passed on. `allow_unsigned_webhooks`: without a
    secret to check them with, they are accepted from anybody who knows the address.
    `allowed_hosts`: which hosts an end user may name where the provider's entry leaves that open, and where its secrets may
    go then: ``git.example.com``, ``*.example.com``, each with a port if it is not the default one.
    `site_selection` where a token reaches several sites: ``ask`` shows a picker, ``match`` goes by the subdomain.
    `trace_headers` None: as `egress.trace_headers` says.
    `custom`: names and values of the customer's own, kept for it. `made` None: it stands in gateway.yaml.
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
    made: Made | None = None

    @property
    def webhook_secrets(self) -> tuple[Secret, ...]:
        """Each of them signs well, the newest first. An empty one is none: anybody could sign with it."""
        return tuple(one for one in (self.webhook_secret, self.webhook_secret_previous) if one)
