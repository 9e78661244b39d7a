"""Metadata of a hostile MCP server: URLs that must not be called are rejected before they are used."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from multidict import CIMultiDict

from gateway.auth.mcp_discovery import McpServer, discover_server
from gateway.oauth.token_responses import TokenRefused
from gateway.records.provider_call import ProviderCall, Reply

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
SERVER = "https://mcp.example.com"


def discovered_server(issuer: str = SERVER, challenge: Sequence[tuple[str, str]] = (), **result: Any) -> McpServer:
    """Return the server that discovery finds if its metadata and its issuer's metadata contain these values."""
    resource = {"resource": SERVER, "authorization_servers": [issuer]}
    metadata = {
        "issuer": issuer,
        "authorization_endpoint": f"{SERVER}/authorize",
        "token_endpoint": f"{SERVER}/token",
        "code_challenge_methods_supported": ["S256"],
        **result,
    }
    dialogue = discover_server(SERVER)
    call: ProviderCall = next(dialogue)
    while True:
        response = resource if "oauth-protected-resource" in call.url else metadata
        status, body = (401, b"") if call.body is not None else (200, json.dumps(response).encode())
        try:
            call = dialogue.send(Reply(status, CIMultiDict(challenge if status == 401 else ()), body, NOW))
        except StopIteration as end:
            server: McpServer = end.value
            return server


def test_default_endpoints_lie_directly_below_the_issuer() -> None:
    """Servers built with the MCP Python SDK write their issuer with a slash at the end."""
    dialogue = discover_server(SERVER)
    call: ProviderCall = next(dialogue)
    while True:
        is_resource = "oauth-protected-resource" in call.url
        response = {"resource": SERVER, "authorization_servers": [f"{SERVER}/"]} if is_resource else {}
        status = 401 if call.body is not None else 200 if is_resource else 404
        try:
            call = dialogue.send(Reply(status, {}, json.dumps(response).encode(), NOW))
        except StopIteration as end:
            server: McpServer = end.value
            break
    assert (server.authorization_url, server.token_url) == (f"{SERVER}/authorize", f"{SERVER}/token")
    assert server.registration_url == f"{SERVER}/register"


@pytest.mark.parametrize(
    "challenge",
    [
        pytest.param([("WWW-Authenticate", 'Bearer scope="a b", resource_metadata="@"')], id="quoted"),
        pytest.param([("www-authenticate", 'Bearer Resource_Metadata = "@",scope="a b"')], id="blanks and case"),
        pytest.param(
            [("WWW-Authenticate", 'Basic realm="x, scope=c"'), ("WWW-Authenticate", 'Bearer scope="a b"')], id="two"
        ),
        pytest.param(
            [("WWW-Authenticate", 'Bearer error_description="needs \\"scope=c\\"", scope="a b"')], id="in a text"
        ),
    ],
)
def test_scopes_and_metadata_are_read_from_the_challenge(challenge: list[tuple[str, str]]) -> None:
    metadata = f"{SERVER}/.well-known/oauth-protected-resource/here"
    fields = [(name, value.replace("@", metadata)) for name, value in challenge]
    assert discovered_server(challenge=fields).scopes == ("a", "b")


def test_a_scope_without_quotes_is_read() -> None:
    assert discovered_server(challenge=[("WWW-Authenticate", "Bearer scope=read")]).scopes == ("read",)


ODD = ("#part", ":0/token", ":0", "#@other.example.com")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
def test_an_endpoint_that_is_not_a_valid_url_is_refused(name: str, odd: str) -> None:
    with pytest.raises(TokenRefused, match="names no authorization and token endpoint"):
        discovered_server(**{name: SERVER + odd})


@pytest.mark.parametrize("odd", ODD)
def test_an_optional_endpoint_that_is_not_a_valid_url_counts_as_absent(odd: str) -> None:
    server = discovered_server(registration_endpoint=SERVER + odd, revocation_endpoint=SERVER + odd)
    assert (server.registration_url, server.revocation_url) == (None, None)
    assert server.token_url == f"{SERVER}/token"


@pytest.mark.parametrize("odd", ODD)
def test_an_issuer_that_is_not_a_valid_url_is_refused(odd: str) -> None:
    with pytest.raises(TokenRefused, match="an authorization server that is not a valid URL"):
        discovered_server(SERVER + odd)
