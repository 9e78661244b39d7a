"""The auth modes, one file each: which requests to send to a provider, and what its responses mean. No I/O.

A mode builds requests and reads responses; `refresh/auth_exchange.py` sends the requests (ADR 17). Read `mode` and
`api_key` first, then:

    mode, context                             the interface of a mode; its input: entry, client, settings, templates
    credential_form, provider_responses       reads typed or imported credentials; makes providers' texts safe to show
    pasted_keys, request_templates            reads pasted PEM, JWK and HMAC keys; fills templates that use the request
    token_steps                               builds one of several requests that together produce a token
    revocation                                revokes tokens at the provider (RFC 7009, or as the entry says)
    api_key, basic, none                      the credential needs no refresh
    oauth2, client_credentials                access tokens by consent, and by the end user's own OAuth client
    mcp, mcp_discovery                        OAuth 2.0 for MCP servers; the gateway can register a client itself
    app_installation, custom, install_plugin  an app or plugin that the end user installs
    jwt, two_step, signature, bill            the typed credential is exchanged for a token, or signs a token
    oauth1, tba, aws_sigv4                    every request is signed

Always true: a mode never sends a request itself. A new mode is one file here, one line in `BUILT_IN_MODES` below and
one entry in `catalog/auth_modes.py` (docs/architecture.md lists more files to change). A credential is a JSON object
with a `type` (docs/compatibility.md#credentials), encrypted in the store and decrypted only in memory.
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

ENTRY_POINT_GROUP: Final = "gateway.auth_modes"
BUILT_IN_MODES: Final[Mapping[str, AuthMode]] = {
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
    """Return all modes by name: built-in modes and modes from installed packages. A package cannot replace a built-in
    mode."""
    entry_point_modes = {point.name: _load(point) for point in entry_points(group=ENTRY_POINT_GROUP)}
    return {**entry_point_modes, **BUILT_IN_MODES}


def _load(point: EntryPoint) -> AuthMode:
    mode = point.load()()
    if not isinstance(mode, AuthMode) or mode.name != point.name:
        raise TypeError(
            f"The entry point '{point.name}' of {ENTRY_POINT_GROUP} ({point.value}) must name a class that derives from "
            f"gateway.auth.mode.AuthMode and whose `name` is '{point.name}'."
        )
    return mode
