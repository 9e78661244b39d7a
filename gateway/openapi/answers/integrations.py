"""Integrations."""

from gateway.openapi.answers.model import Absent, Answer, Moment


class Integration(Answer):
    unique_key: str
    """Sent as Provider-Config-Key."""
    provider: str
    display_name: str
    logo: str
    forward_webhooks: bool
    allowed_hosts: list[str] | Absent = None
    """Hosts that end users may name and that its client secret may go to; absent where it names none."""
    allow_unsigned_webhooks: bool
    """Whether webhooks that no secret can check are accepted, from anybody who knows the address."""
    created_at: Moment
    updated_at: Moment
    webhook_url: str | Absent | None = None
    """With include=webhook: where the provider is to send its webhooks; null where they are not routed."""
    credentials: dict[str, str | None] | Absent | None = None
    """With include=credentials: the fields of its type; null where it has none."""
    custom: dict[str, str] | Absent = None
    """With include=credentials, where there are any."""


class IntegrationAnswer(Answer):
    data: Integration


class IntegrationList(Answer):
    data: list[Integration]
