"""The auth modes, one file each: what is asked of a provider, and what its answer means. No I/O.

    mode.py                What an auth mode can do. No I/O: a mode says what is to be asked and reads what came of
                           it.
    context.py             What an auth mode works for: a provider's entry, the integration's client, the settings
                           of one connection, filled templates.
    credential_form.py     Reads a credential that somebody typed or imported, and names every fault in it at once.
    provider_answers.py    What a provider says: its words made fit to be shown, and what a sign-in's answer means.
    pasted_keys.py         Keys and certificates that people paste: PEM in all the shapes it arrives in, JWK, HMAC
                           secrets.
    request_templates.py   Templates that name parts of the request itself: filled in for each attempt, when all
                           else stands.
    revocation.py          Asks a provider to end tokens: RFC 7009, or the call that its entry describes.
    oauth2.py              OAUTH2: an access token granted by the end user, renewed with a refresh token (RFC 6749,
                           RFC 6750).
    client_credentials.py  OAUTH2_CC: the end user's own client is exchanged for tokens, without a redirect (RFC
                           6749 §4.4).
    oauth1.py              OAUTH1: the end user consents at the provider, and every request is signed with the
                           token's secret (RFC 5849).
    app_installation.py    APP: the end user installs the operator's app; a JWT signed by the app is exchanged for
                           the installation's tokens.
    custom.py              CUSTOM: an app's installation and the end user's own OAuth grant, side by side.
    install_plugin.py      INSTALL_PLUGIN: the end user installs the operator's plugin, whose own key then serves
                           every installation.
    mcp.py                 MCP_OAUTH2 and MCP_OAUTH2_GENERIC: OAuth 2.0 for MCP servers, whose client may register
                           itself.
    mcp_discovery.py       What an MCP server tells about itself: who protects it (RFC 9728), and where that one
                           authorizes (RFC 8414).
    api_key.py             API_KEY: one long-lived key that the end user typed in. Nothing to refresh.
    basic.py               BASIC: a user name and a password, sent as RFC 7617 has it. Nothing to refresh.
    jwt.py                 JWT: a token that we sign with the end user's key is the access token (RFC 7523); the
                           signing of all JWTs.
    two_step.py            TWO_STEP: what the end user typed in is exchanged for a token, in one request or in
                           several.
    signature.py           SIGNATURE: a token made from user name and password, used once (WS-Security UsernameToken
                           Profile 1.1 §3.1, "WSSE").
    bill.py                BILL: a login with user name, password, organization and developer key opens a session,
                           whose id stands for a token.
    tba.py                 TBA: NetSuite's token-based authentication. Every request is signed with a token that an
                           administrator made.
    aws_sigv4.py           AWS_SIGV4: every request is signed with an access key of the end user's, or with one of a
                           role.
    none.py                NONE: no credential at all. An open API, or a provider that only sends webhooks.

Always true: a mode says what to ask and reads what came; others send. A new mode is one file and one line in
`__init__`.
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
