"""The auth modes: the name in the catalog ▸ the mode. Another package adds one by the entry point ``gateway.auth_modes``."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

from gateway.auth.api_key import ApiKey
from gateway.auth.basic import Basic
from gateway.auth.mode import AuthMode
from gateway.auth.oauth2 import OAuth2

OWN: Mapping[str, AuthMode] = {mode.name: mode for mode in (OAuth2(), ApiKey(), Basic())}


@cache
def modes() -> Mapping[str, AuthMode]:
    """All modes by name: ours, and those that installed packages offer. Ours cannot be replaced."""
    offered = {point.name: point.load()() for point in entry_points(group="gateway.auth_modes")}
    return {**offered, **OWN}
