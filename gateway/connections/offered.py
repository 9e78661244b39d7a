"""What a connect session allows: which integrations, and which settings its end user may choose."""

from collections.abc import Mapping
from typing import Any

from gateway.catalog.provider import Provider
from gateway.connections.settings import accepted, by_browser
from gateway.errors import Forbidden
from gateway.oauth.authorize import scope_list
from gateway.records.connecting import ConnectSession
from gateway.store.sessions import used


def settings_of(
    session: ConnectSession, provider: Provider, integration_id: str, typed: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """The settings of a new connection, and the scopes that the back end fixed for it, if it did.

    Merged under the entry's spelling of the names, so that no other spelling gets past what the back end fixed.
    """
    own = dict(session.defaults.get(integration_id, {}).get("connection_config") or {})
    scopes = own.pop("oauth_scopes_override", None)
    by_end_user = by_browser(provider, accepted(provider, typed, ("params",)))
    config = {**by_end_user, **accepted(provider, own, ("connection_config",))}
    return config, scope_list(scopes) if scopes else None


def check_offered(session: ConnectSession, integration_id: str) -> None:
    """Raises Forbidden where the session was made for other integrations."""
    if session.allowed_integrations and integration_id not in session.allowed_integrations:
        raise Forbidden(
            "integration_not_allowed",
            f"This connect session does not offer '{integration_id}', only {', '.join(session.allowed_integrations)}.",
        )


def check_room(session: ConnectSession) -> None:
    """Raises Forbidden where the session has made as many connections as it may: before anybody goes to a provider."""
    if session.used_up:
        raise used(session.max_connections)
