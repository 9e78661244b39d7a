"""The auth modes, one file each: what to ask a provider, and what its answer means. No I/O.

A mode builds requests and reads answers; `refresh/auth_exchange.py` sends them (ADR 17). Read `mode` and `api_key`, then:

    mode, context                             the interface of a mode; entry, client, settings and templates that it works on
    credential_form, provider_answers         reads typed or imported credentials; makes providers' words fit to be shown
    pasted_keys, request_templates            PEM, JWK and HMAC keys as people paste them; templates that name the request
    token_steps                               one of several requests that together make a token
    revocation                                ends tokens at the provider (RFC 7009, or as the entry says)
    api_key, basic, none                      nothing to refresh
    oauth2, client_credentials                access tokens by consent, and by a client of the end user's
    mcp, mcp_discovery                        OAuth 2.0 for MCP servers, whose client may register itself
    app_installation, custom, install_plugin  an app or plugin that the end user installs
    jwt, two_step, signature, bill            what was typed in is exchanged for a token, or signs one
    oauth1, tba, aws_sigv4                    every request is signed

Always true: a mode never sends anything itself; a new mode is one file here, one line in `OWN` below and one entry in
`catalog/auth_modes.py` (docs/architecture.md names what else a mode of ours touches); a credential is a JSON object
with a `type` (docs/compatibility.md#credentials), sealed in the store and opened in memory only.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from gateway.auth.api_key import ApiKey
from gateway.auth.app_installation import App
from gateway.auth.aws_sigv4 import AwsSigV4
from gateway.auth.basic import Basic
from gateway.auth.bill import Bill
from gateway.auth.client_credentials import ClientCredentialsMode
from gateway.auth.custom import Custom
from gateway.auth.install_plugin import InstallPlugin
from gateway.auth.jwt import JwtMode
from gateway.auth.mcp import McpOAuth2, McpOAuth2Generic
from gateway.auth.mode import AuthMode
from gateway.auth.none import Unauthenticated
from gateway.auth.oauth1 import OAuth1
from gateway.auth.oauth2 import OAuth2
from gateway.auth.signature import SignatureMode
from gateway.auth.tba import TokenBased
from gateway.auth.two_step import TwoStep

GROUP: Final = "gateway.auth_modes"
OWN: Final[Mapping[str, AuthMode]] = {
    mode.name: mode
    for mode in (
        OAuth2(),
        ClientCredentialsMode(),
        OAuth1(),
        App(),
        Custom(),
        InstallPlugin(),
        McpOAuth2(),
        McpOAuth2Generic(),
        ApiKey(),
        Basic(),
        JwtMode(),
        TwoStep(),
        SignatureMode(),
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


def _loaded(point: EntryPoint) -> AuthMode:
    mode = point.load()()
    if not isinstance(mode, AuthMode) or mode.name != point.name:
        raise TypeError(
            f"The entry point '{point.name}' of {GROUP} ({point.value}) must name a class that derives from "
            f"gateway.auth.mode.AuthMode and whose `name` is '{point.name}'."
        )
    return mode
