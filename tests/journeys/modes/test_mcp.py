"""MCP servers: discovery, registration of a client, and OAuth 2.0 with PKCE and a resource (MCP authorization)."""

import base64
import hashlib
import json
from typing import Any

import pytest
from aiohttp import web

from tests.fakes.gateways import RunningGateway
from tests.fakes.mcp_sdk import METHODS, NotAuthenticated, SdkClients
from tests.journeys.modes.conftest import FakeProvider, connect, only_id


class Server:
    """An MCP server at /mcp with an authorization server at /as. A test can make both servers return false metadata."""

    def __init__(self, fake_provider: FakeProvider) -> None:
        self.url = fake_provider.url
        self.resource: dict[str, Any] = {
            "resource": f"{fake_provider.url}/mcp",
            "authorization_servers": [f"{fake_provider.url}/as"],
            "scopes_supported": ["tools", "offline_access"],
        }
        self.metadata: dict[str, Any] | None = {
            "issuer": f"{fake_provider.url}/as",
            "authorization_endpoint": f"{fake_provider.url}/as/authorize",
            "token_endpoint": f"{fake_provider.url}/as/token",
            "registration_endpoint": f"{fake_provider.url}/as/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }
        self.secret: str | None = None
        self.sdk: SdkClients | None = None
        self.clients: dict[str, Any] = {}
        self.codes: dict[str, Any] = {}
        self.tokens: set[str] = set()
        self.asked: list[dict[str, str]] = []
        self.hint = True
        for path, handler in {
            "/mcp": self.mcp,
            "/meta": self.resource_metadata,
            "/.well-known/oauth-protected-resource/mcp": self.resource_metadata,
            "/.well-known/oauth-authorization-server/as": self.server_metadata,
            "/as/authorize": self.authorize,
            "/as/token": self.token,
            "/as/register": self.register,
        }.items():
            fake_provider.on(path, handler)

    async def mcp(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in self.tokens:
            return web.json_response({"jsonrpc": "2.0", "result": {}})
        hint = f'Bearer error="invalid_token", resource_metadata="{self.url}/meta"' if self.hint else "Bearer"
        return web.json_response({}, status=401, headers={"WWW-Authenticate": hint})

    async def resource_metadata(self, _: web.Request) -> web.Response:
        return web.json_response(self.resource)

    async def server_metadata(self, _: web.Request) -> web.Response:
        return web.json_response(self.metadata, status=200 if self.metadata else 404)

    async def register(self, request: web.Request) -> web.Response:
        metadata = await request.json()
        if self.sdk is not None:
            registered = self.sdk.register(metadata)
            self.clients[registered["client_id"]] = metadata
            return web.json_response(registered, status=201)
        client = f"client-{len(self.clients) + 1}"
        self.clients[client] = metadata
        response = {"client_id": client, **metadata}
        if self.secret:
            response |= {"client_secret": self.secret, "token_endpoint_auth_method": "client_secret_basic"}
        return web.json_response(response, status=201)

    async def authorize(self, request: web.Request) -> web.Response:
        query = dict(request.query)
        assert query["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        raise web.HTTPFound(f"{query['redirect_uri']}?code={code}&state={query['state']}")

    async def token(self, request: web.Request) -> web.Response:
        form = {k: str(v) for k, v in (await request.post()).items()}
        authorization = request.headers.get("Authorization", "")
        self.asked.append(form | {"Authorization": authorization})
        if self.sdk is not None:
            try:
                self.sdk.authenticate(form, authorization)
            except NotAuthenticated as fault:
                result = {"error": "invalid_client", "error_description": str(fault)}
                return web.json_response(result, status=401)
        if form["grant_type"] == "authorization_code":
            stored_request = self.codes.pop(form["code"])
            challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
            assert challenge.rstrip(b"=").decode() == stored_request["code_challenge"]
            assert form["resource"] == stored_request["resource"]
        token = f"mcp-{len(self.asked)}"
        self.tokens = {token}
        return web.json_response({"access_token": token, "refresh_token": "r", "expires_in": 60})


def generic_entry(**extra: Any) -> dict[str, Any]:
    return {
        "auth_mode": "MCP_OAUTH2_GENERIC",
        "connection_config": {"mcp_server_url": {"format": "uri"}},
        "proxy": {"base_url": "${connectionConfig.mcp_server_url}"},
        **extra,
    }


def server_url_param(fake_provider: FakeProvider) -> str:
    return f"&params[mcp_server_url]={fake_provider.url}/mcp"


async def call(gateway: RunningGateway, connection_id: str) -> int:
    async with gateway.call_proxy(connection_id, "", "POST", json={"jsonrpc": "2.0"}) as response:
        return int(response.status)


@pytest.mark.parametrize("hint", [True, False])
@pytest.mark.parametrize("secret", [None, "registered secret"])
async def test_a_server_is_discovered_and_registers_the_gateway(
    fake_provider: FakeProvider, start: Any, advance_clock: Any, hint: bool, secret: str | None
) -> None:
    server = Server(fake_provider)
    server.hint, server.secret = hint, secret
    gateway = await start(**generic_entry())
    status, html = await connect(gateway, server_url_param(fake_provider))
    assert status == 200, html
    (client,) = server.clients.values()
    assert client["redirect_uris"] == [f"{gateway.url}/oauth/callback"]
    assert client["token_endpoint_auth_method"] == "none"
    connection_id = await only_id(gateway)
    assert await call(gateway, connection_id) == 200
    advance_clock(61)
    assert await call(gateway, connection_id) == 200
    first, second = server.asked
    assert second["grant_type"] == "refresh_token"
    for sent in (first, second):
        assert sent["resource"] == f"{fake_provider.url}/mcp"
        basic = base64.b64encode(b"client-1:registered%20secret").decode()
        assert sent["Authorization"] == (f"Basic {basic}" if secret else "")
        assert (sent["client_id"], "client_secret" in sent) == ("client-1", False)
    connection = await gateway.json("GET", f"/connections/{connection_id}?provider_config_key=tracker")
    assert connection["credentials"]["type"] == "OAUTH2"
    assert connection["credentials"]["config_override"]["client_id"] == "client-1"


@pytest.mark.parametrize("offered", [METHODS, METHODS[:1], METHODS[1:], None])
@pytest.mark.parametrize("entry", [None, "basic", "body", "none"])
async def test_servers_of_the_python_sdk_accept_the_client_that_they_registered(
    fake_provider: FakeProvider, start: Any, advance_clock: Any, offered: tuple[str, ...] | None, entry: str | None
) -> None:
    server = Server(fake_provider)
    server.sdk = SdkClients()
    assert server.metadata is not None
    server.metadata["token_endpoint_auth_methods_supported"] = offered and list(offered)
    gateway = await start(**generic_entry(**({"token_request_auth_method": entry} if entry else {})))
    status, html = await connect(gateway, server_url_param(fake_provider))
    assert status == 200, html
    (client,) = server.sdk.registered.values()
    # RFC 8414 §2: if the metadata names no methods, Basic is supported.
    chosen = "client_secret_post" if METHODS[0] in (offered or ()) else "client_secret_basic"
    wanted = {"basic": "client_secret_basic", "body": "client_secret_post", "none": "none"}.get(entry or "", chosen)
    assert client["token_endpoint_auth_method"] == wanted
    connection_id = await only_id(gateway)
    assert await call(gateway, connection_id) == 200
    advance_clock(61)
    assert await call(gateway, connection_id) == 200
    assert [sent["grant_type"] for sent in server.asked] == ["authorization_code", "refresh_token"]
    for sent in server.asked:
        assert (bool(sent["Authorization"]), "client_secret" in sent) == (
            wanted == "client_secret_basic",
            wanted == "client_secret_post",
        )


async def test_the_entry_decides_how_the_client_authenticates_whatever_the_registration_returns(
    fake_provider: FakeProvider, start: Any
) -> None:
    server = Server(fake_provider)
    server.secret = "registered secret"
    gateway = await start(**generic_entry(token_request_auth_method="body"))
    status, html = await connect(gateway, server_url_param(fake_provider))
    assert status == 200, html
    (client,) = server.clients.values()
    assert client["token_endpoint_auth_method"] == "client_secret_post"
    assert (server.asked[0]["Authorization"], server.asked[0]["client_secret"]) == ("", "registered secret")


async def test_the_operators_client_authenticates_as_the_server_supports(
    fake_provider: FakeProvider, start: Any
) -> None:
    server = Server(fake_provider)
    assert server.metadata is not None
    server.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    keys = {
        "client_id": "ours",
        "client_secret": "own secret",
        "allowed_hosts": [fake_provider.url.removeprefix("http://")],
    }
    gateway = await start(keys, **generic_entry(client_registration="static"))
    status, html = await connect(gateway, server_url_param(fake_provider))
    assert status == 200, html
    sent = server.asked[0]
    assert sent["Authorization"] == "Basic " + base64.b64encode(b"ours:own%20secret").decode()
    assert (sent["client_id"], "client_secret" in sent) == ("ours", False)


async def test_the_scopes_are_those_that_the_server_names_unless_the_integration_does(
    fake_provider: FakeProvider, start: Any
) -> None:
    server = Server(fake_provider)
    gateway = await start(**generic_entry())
    await connect(gateway, server_url_param(fake_provider))
    assert next(iter(server.clients.values()))["scope"] == "tools offline_access"


LIES: dict[str, Any] = {
    "another resource": ("resource", {"resource": "https://other.example/mcp"}),
    "a part of the host": ("resource", {"resource": "http://127.0.0.1"}),
    "another issuer": ("metadata", {"issuer": "https://other.example"}),
    "a placeholder": ("metadata", {"token_endpoint": "https://evil.example/${clientSecret}"}),
    "no token endpoint": ("metadata", {"token_endpoint": None}),
    "a script": ("metadata", {"authorization_endpoint": "javascript:alert(1)"}),
    "no PKCE": ("metadata", {"code_challenge_methods_supported": ["plain"]}),
    "a private network": ("resource", {"authorization_servers": ["http://10.0.0.1"]}),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_server_with_false_metadata_is_refused_before_the_redirect(
    fake_provider: FakeProvider, start: Any, lie: str
) -> None:
    server = Server(fake_provider)
    where, changes = LIES[lie]
    getattr(server, where).update(changes)
    gateway = await start(**generic_entry())
    token = await gateway.session_token()
    url = f"{gateway.url}/oauth/connect/tracker?connect_session_token={token}{server_url_param(fake_provider)}"
    async with gateway.http.get(url, allow_redirects=False) as response:
        assert response.status in {400, 502}, await response.text()
    assert server.clients == {}


async def test_a_known_server_registers_the_gateway(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    server = Server(fake_provider)
    entry = {
        "auth_mode": "MCP_OAUTH2",
        "authorization_url": f"{fake_provider.url}/as/authorize",
        "token_url": f"{fake_provider.url}/as/token",
        "proxy": {"base_url": f"{fake_provider.url}/mcp"},
        "authorization_params": {"resource": f"{fake_provider.url}/mcp/v2"},
    }
    gateway = await start(**entry, registration_url=f"{fake_provider.url}/as/register", client_registration="dynamic")
    assert (await connect(gateway))[0] == 200
    connection_id = await only_id(gateway)
    assert await call(gateway, connection_id) == 200
    assert server.asked[0]["resource"] == f"{fake_provider.url}/mcp/v2"
    advance_clock(61)
    assert await call(gateway, connection_id) == 200
    assert (len(server.clients), server.asked[1]["client_id"]) == (1, "client-1")


async def test_the_operators_client_is_used_without_registration(fake_provider: FakeProvider, start: Any) -> None:
    server = Server(fake_provider)
    gateway = await start(
        {"client_id": "ours", "client_secret": "own secret"},
        auth_mode="MCP_OAUTH2",
        client_registration="static",
        authorization_url=f"{fake_provider.url}/as/authorize",
        token_url=f"{fake_provider.url}/as/token",
        proxy={"base_url": f"{fake_provider.url}/mcp"},
    )
    assert (await connect(gateway))[0] == 200
    assert server.clients == {}
    assert (server.asked[0]["client_id"], server.asked[0]["client_secret"]) == ("ours", "own secret")


async def test_an_end_users_own_client_needs_no_registration(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    server = Server(fake_provider)
    assert server.metadata is not None
    server.metadata |= {"registration_endpoint": None, "token_endpoint_auth_methods_supported": ["client_secret_post"]}
    gateway = await start(**generic_entry())
    own = "&credentials[oauth_client_id_override]=mine&credentials[oauth_client_secret_override]=s3cret"
    status, html = await connect(gateway, server_url_param(fake_provider) + own)
    assert status == 200, html
    advance_clock(61)
    assert await call(gateway, await only_id(gateway)) == 200
    assert [(form["client_id"], form["client_secret"]) for form in server.asked] == [("mine", "s3cret")] * 2


async def test_without_registration_or_client_the_error_says_what_to_set(
    fake_provider: FakeProvider, start: Any
) -> None:
    server = Server(fake_provider)
    assert server.metadata is not None
    server.metadata["registration_endpoint"] = None
    gateway = await start(**generic_entry())
    status, text = await connect(gateway, server_url_param(fake_provider))
    assert (status, json.loads(text)["error"]["code"]) == (400, "invalid_auth_mode")
    assert f"{gateway.url}/oauth/callback" in text


async def test_the_document_at_the_client_id_has_the_client_metadata(fake_provider: FakeProvider, start: Any) -> None:
    server = Server(fake_provider)
    gateway = await start(**generic_entry(client_registration="metadata_document"))
    url = f"{gateway.url}/oauth/client-metadata/dev/tracker"
    async with gateway.http.get(url) as response:
        document = await response.json()
    assert document["client_id"] == url
    assert document["redirect_uris"] == [f"{gateway.url}/oauth/callback"]
    assert document["token_endpoint_auth_method"] == "none"
    status, html = await connect(gateway, server_url_param(fake_provider))
    assert status == 200, html
    assert server.clients == {}
    assert server.asked[0]["client_id"] == url
    async with gateway.http.get(f"{gateway.url}/oauth/client-metadata/dev/other") as response:
        assert response.status == 404
