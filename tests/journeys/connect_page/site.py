"""A gateway in this process, with its providers and one integration for each kind of form on the connect page."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.sandbox.app import running as sandbox_running
from gateway.sandbox.state import SandboxClient
from tests.fakes.gateways import RunningGateway, document, write_entry

GOOD_KEY = "good-key-0123456789"
CLIENT_ID = "sandbox-client"
CLIENT_SECRET = "sandbox-secret-0123456789"


class Keys:
    """Providers without a redirect: one with an API key, and one with a two-step sign-in."""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/me", self._me)
        app.router.add_post("/session", self._session)
        app.router.add_get("/v2/me", self._me)
        return app

    async def _me(self, request: web.Request) -> web.Response:
        if (
            request.headers.get("x-api-key") == GOOD_KEY
            or request.headers.get("authorization") == "Bearer two-step-token"
        ):
            return web.json_response({"id": 7, "email": "ada@example.com"})
        return web.json_response({"error": {"message": "API key <b>invalid</b> or revoked"}}, status=401)

    async def _session(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("secret") != "open sesame":
            return web.json_response({"message": "Unknown user or wrong secret"}, status=401)
        return web.json_response({"token": "two-step-token", "expires_in": 3600})


def entries(url: str, sandbox: str) -> dict[str, dict[str, Any]]:
    common = {"categories": ["crm"], "docs": "https://docs.example.com", "provenance": "sourced"}
    site = {
        "title": "Subdomain",
        "description": "Which of your sites to use. Left empty, you choose afterwards.",
        "example": "acme",
        "pattern": "[A-Za-z0-9][A-Za-z0-9.-]*",
        "optional": True,
    }
    return {
        "issues": {
            **common,
            "display_name": "Sandbox Issues",
            "categories": ["ticketing"],
            "auth_mode": "OAUTH2",
            "authorization_url": f"{sandbox}/oauth/authorize",
            "token_url": f"{sandbox}/oauth/token",
            "post_connection_script": "jira_post_connection",
            "connection_configuration": ["cloudId", "subdomain"],
            "connection_config": {"subdomain": site},
            "provenance": "reviewed",
            "proxy": {
                "base_url": sandbox,
                "path_form": "/ex/sandbox/${connectionConfig.cloudId}/rest/api/3/<endpoint>",
            },
        },
        "northwind": {
            **common,
            "display_name": "Northwind CRM",
            "auth_mode": "API_KEY",
            "docs_connect": "https://docs.example.com/connect",
            "connection_config": {
                "region": {"title": "Region", "enum": ["eu", "us"], "description": "Where your data is kept."},
                "account": {
                    "title": "Account",
                    "example": "acme",
                    "pattern": "[a-z0-9-]+",
                    "prefix": "https://",
                    "suffix": ".northwind.example",
                    "doc_section": "account",
                },
            },
            "credentials": {
                "apiKey": {
                    "title": "API key",
                    "secret": True,
                    "description": "Under Settings, API, New key.",
                    "pattern": "[A-Za-z0-9-]{10,}",
                    "example": "nw-0000000000",
                }
            },
            "proxy": {
                "base_url": f"{url}/v1",
                "headers": {"x-api-key": "${apiKey}"},
                "verification": {"method": "GET", "endpoints": ["/me"]},
            },
            "account": {"endpoint": "/me", "id": "id", "label": ["email"]},
        },
        "vault": {
            **common,
            "display_name": "Two Step Vault",
            "auth_mode": "TWO_STEP",
            "token_url": f"{url}/session",
            "body_format": "json",
            "token_params": {"user": "${credentials.user}", "secret": "${credentials.secret}"},
            "token_response": {"token_path": "token", "expiry_path": "expires_in"},
            "credentials": {
                "user": {"title": "User name"},
                "secret": {"title": "Secret phrase", "secret": True},
            },
            "proxy": {"base_url": f"{url}/v2"},
        },
    }


class ConnectSite:
    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway

    async def link(self, **body: Any) -> str:
        request_body = {"end_user": {"id": "u1", "display_name": "Ada Lovelace", "email": "ada@example.com"}, **body}
        response = await self.gateway.json("POST", "/connect/sessions", json=request_body, expect=201)
        link: str = response["data"]["connect_link"]
        return link

    async def token(self, **body: Any) -> str:
        return (await self.link(**body)).rpartition("=")[2]

    async def connections(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (await self.gateway.json("GET", "/connections"))["connections"]
        return listed


@asynccontextmanager
async def connect_site(folder: Path, **server: Any) -> AsyncIterator[ConnectSite]:
    keys = TestServer(Keys().app())
    await keys.start_server()
    async with sandbox_running([]) as sandbox:
        url = f"http://127.0.0.1:{keys.port}"
        for name, entry in entries(url, sandbox.issuer).items():
            write_entry(folder, name, entry)
        oauth = {
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "scopes": ["read:sandbox-user", "read:sandbox-work", "write:sandbox-work", "offline_access"],
        }
        whole = document(
            [f"127.0.0.1/32:{keys.port}", f"127.0.0.1/32:{sandbox.issuer.rpartition(':')[2]}"],
            issues={"provider": "issues", "site_selection": "ask", **oauth},
            northwind={"provider": "northwind"},
            vault={"provider": "vault"},
            **{
                f"more-{number}": {"provider": "northwind", "display_name": f"Northwind {number}"}
                for number in range(1, 6)
            },
        )
        del whole["environments"]["dev"]["integrations"]["tracker"]
        whole["server"].update(server)
        whole["branding"] = {"name": "Acme Analytics", "color": "#5b2a9d", "color_dark": "#c9a8ff"}
        gateway = RunningGateway(folder, whole)
        await gateway.start()
        # The callback URL is known only now. This is not too late, because the sandbox reads its clients on each
        # request.
        client = SandboxClient.register(
            CLIENT_ID, CLIENT_SECRET, f"{gateway.url}/oauth/callback", name="Acme Analytics"
        )
        assert isinstance(sandbox.clients, dict)
        sandbox.clients[CLIENT_ID] = client
        try:
            yield ConnectSite(gateway)
        finally:
            await gateway.stop()
            await keys.close()
