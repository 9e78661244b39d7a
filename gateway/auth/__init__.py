"""The auth modes: the name in the catalog ▸ the mode. Another package adds one by the entry point ``gateway.auth_modes``."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from gateway.auth.api_key import ApiKey
from gateway.auth.basic import Basic
from gateway.auth.mode import AuthMode
from gateway.auth.oauth2 import OAuth2

GROUP: Final = "gateway.auth_modes"
OWN: Final[Mapping[str, AuthMode]] = {mode.name: mode for mode in (OAuth2(), ApiKey(), Basic())}


@cache
def modes() -> Mapping[str, AuthMode]:
    """All modes by name: ours, and those that installed packages offer. Ours cannot be replaced."""
    offered = {point.name: _loaded(point) for point in entry_points(group=GROUP)}
    return {**offered, **OWN}


def _loaded(point: EntryPoint) -> AuthMode:
    mode = point.load()()
    if not isinstance(mode, AuthMode) or mode.name != point.name:
        raise TypeError(
            f"The entry point '{point.name}' of {GROUP} ({point.value}) must name a class that derives from "
            f"gateway.auth.mode.AuthMode and whose `name` is '{point.name}'."
        )
    return mode
