"""Which auth mode a stored credential belongs to: that of its provider's entry, as long as the two still fit."""

from collections.abc import Mapping
from typing import Any

from gateway.auth import modes
from gateway.auth.mode import AuthMode
from gateway.catalog.provider import Provider
from gateway.connections import advice
from gateway.errors import ReconnectNeeded
from gateway.records.connection import ConnectionRef


def mode_for(provider: Provider, held: Mapping[str, Any], ref: ConnectionRef) -> AuthMode:
    """Raises ReconnectNeeded where the entry has got another mode since the connection was made."""
    mode = modes()[provider.auth_mode]
    if held["type"] not in mode.types():
        raise ReconnectNeeded(
            "reconnect_needed",
            f"Connection '{ref.connection_id}' holds a credential of type {held['type']}, but provider "
            f"'{provider.name}' now uses {provider.auth_mode}. {advice.sentence(advice.RECONNECT)}",
            payload={"provider_config_key": ref.integration_id, "connection_id": ref.connection_id},
        )
    return mode
