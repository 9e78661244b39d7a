"""Minimal catalog entries for tests."""

from typing import Any

from gateway.catalog.provider import Provider


def provider(**changes: Any) -> Provider:
    """Return a catalog entry `tracker` that uses OAuth 2.0. `changes`: fields of the entry to replace."""
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
