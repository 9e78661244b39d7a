"""Minimal catalog entries for tests."""

from typing import Any

from gateway.catalog.provider import Provider


def provider(**changes: Any) -> Provider:
    """Return a tracker entry that grants OAuth 2.0 tokens. `changes`: fields of the entry."""
    entry: dict[str, Any] = {
        "name": "tracker",
        "display_name": "Tracker",
        "categories": ["project-tracking"],
        "docs": "https://docs.example.com",
        "auth_mode": "OAUTH2",
        "authorization_url": "https://auth.example.com/authorize",
        "token_url": "https://auth.example.com/token",
        "proxy": {"base_url": "https://api.example.com"},
    }
    return Provider.model_validate({**entry, **changes})
