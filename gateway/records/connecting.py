"""What lives for minutes while an end user connects: the session a customer opens, and the flow a browser walks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gateway.records.connection import EndUser, Sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSession:
    """Made by the customer's back end, handed to the browser as a token, kept as that token's digest (hex SHA-256).

    `allowed_integrations` empty means all. `defaults` are the contract's ``integrations_config_defaults``:
    integration ▸ ``{connection_config, authorization_params, user_scopes}``. `connection_id` pins a reconnect.
    """

    digest: str
    environment: str
    expires_at: datetime
    end_user: EndUser | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    allowed_integrations: tuple[str, ...] = ()
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    webhook_url_override: str | None = None
    connection_id: str | None = None
    integration_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One authorization under way. `state_digest` is its key, `browser_digest` that of the cookie its browser holds.

    `details` is what the callback needs and a reader of the database must not have: ``{"code_verifier", "config", …}``.
    """

    state_digest: str
    browser_digest: str
    environment: str
    integration_id: str
    connection_id: str
    session_digest: str
    expires_at: datetime
    details: Sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFlow:
    """A flow about to be stored; the store seals `details`."""

    state_digest: str
    browser_digest: str
    environment: str
    integration_id: str
    connection_id: str
    session_digest: str
    expires_at: datetime
    details: Mapping[str, Any] = field(repr=False)
