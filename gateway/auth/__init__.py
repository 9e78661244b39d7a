"""The auth modes: the name in the catalog ▸ the mode. Another package adds one by the entry point ``gateway.auth_modes``."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from gateway.auth.api_key import ApiKey
from gateway.auth.app import App
from gateway.auth.aws_sigv4 import AwsSigV4
from gateway.auth.basic import Basic
from gateway.auth.bill import Bill
from gateway.auth.client_credentials import ClientCredentials
from gateway.auth.custom import Custom
from gateway.auth.install_plugin import InstallPlugin
from gateway.auth.jwt import Jwt
from gateway.auth.mcp import McpOAuth2, McpOAuth2Generic
from gateway.auth.mode import AuthMode
from gateway.auth.none import Unauthenticated
from gateway.auth.oauth1 import OAuth1
from gateway.auth.oauth2 import OAuth2
from gateway.auth.signature import Signature
from gateway.auth.tba import TokenBased
from gateway.auth.two_step import TwoStep
from gateway.offered import entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "gateway.auth_modes"
OWN: Final[Mapping[str, AuthMode]] = {
    mode.name: mode
    for mode in (
        OAuth2(),
        ClientCredentials(),
        OAuth1(),
        App(),
        Custom(),
        InstallPlugin(),
        McpOAuth2(),
        McpOAuth2Generic(),
        ApiKey(),
        Basic(),
        Jwt(),
        TwoStep(),
        Signature(),
        Bill(),
        TokenBased(),
        AwsSigV4(),
        Unauthenticated(),
    )
}


@cache
def modes() -> Mapping[str, AuthMode]:
    """All modes by name: ours, and those that installed packages offer. Ours cannot be replaced."""
    offered = {point.name: _loaded(point) for point in entry_points(group=GROUP)}
    return {**offered, **OWN}


def _loaded(point: "EntryPoint") -> AuthMode:
    mode = point.load()()
    if not isinstance(mode, AuthMode) or mode.name != point.name:
        raise TypeError(
            f"The entry point '{point.name}' of {GROUP} ({point.value}) must name a class that derives from "
            f"gateway.auth.mode.AuthMode and whose `name` is '{point.name}'."
        )
    return mode
