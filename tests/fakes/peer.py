"""A fake Nango server with Nango's public API (docs/compatibility.md). A test can add faults."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

KEY = "7f3e1b9a-52c4-4d18-9a77-0d3e5b1c2f60"


@dataclass
class FakePeer:
    """A fake Nango.

    `scopes`: the scopes of its API key. `faults`: for each path, responses that the next requests get instead; each is
    sent once. `dead`: IDs of connections that get 424.

    `max_page_size`: maximum number of rows per page, even if a request asks for more. `hidden_from_get`: IDs of
    connections that appear in the list but get 404. `rows_before_cursor`: number of rows after which a page ends with a
    `next_cursor`, as a page of this gateway does; None: no cursors.
    """

    integrations: dict[str, dict[str, Any]] = field(default_factory=dict)
    connections: list[dict[str, Any]] = field(default_factory=list)
    scopes: set[str] = field(default_factory=lambda: {"read_credentials", "integration_credentials"})
    modes: dict[str, str] = field(default_factory=dict)
    faults: dict[str, list[web.Response]] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    hidden_from_get: set[str] = field(default_factory=set)
    max_page_size: int = 2000
    rows_before_cursor: int | None = None
    calls: Counter[str] = field(default_factory=Counter)
    queries: list[dict[str, str]] = field(default_factory=list)
    at_once: int = 0
    max_at_once: int = 0
    url: str = ""

    async def serve(self) -> TestServer:
        app = web.Application(middlewares=[self._count_and_authenticate])
        app.router.add_get("/providers/{name}", self._provider)
        app.router.add_get("/integrations", self._integrations)
        app.router.add_get("/integrations/{key}", self._integration)
        app.router.add_get("/connections", self._list)
        app.router.add_get("/connections/{id}", self._get)
        server = TestServer(app, skip_url_asserts=True)
        await server.start_server()
        self.url = f"http://127.0.0.1:{server.port}"
        return server

    async def _provider(self, request: web.Request) -> web.Response:
        mode = self.modes.get(request.match_info["name"])
        if mode is None:
            return refused(404, "not_found", "No such provider.")
        return web.json_response({"data": {"name": request.match_info["name"], "auth_mode": mode}})

    def add(self, connection_id: str, credentials: dict[str, Any], key: str = "tracker", **extra: Any) -> None:
        number = len(self.connections) + 1
        self.connections.append(
            {
                "id": number,
                "connection_id": connection_id,
                "provider_config_key": key,
                "provider": "tracker",
                "errors": [],
                "end_user": None,
                "tags": {},
                "metadata": None,
                "connection_config": {},
                "webhook_url_override": None,
                "created_at": f"2026-01-02T03:04:{number % 60:02d}.678+00:00",
                "updated_at": "2026-02-02T03:04:05.678+00:00",
                "last_fetched_at": None,
                "credentials": credentials,
                **extra,
            }
        )

    @web.middleware
    async def _count_and_authenticate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.calls[request.path] += 1
        self.queries.append(dict(request.query))
        if waiting := self.faults.get(request.path):
            return waiting.pop(0)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return refused(401, "unknown_account", "Authentication failed.")
        self.at_once += 1
        self.max_at_once = max(self.max_at_once, self.at_once)
        try:
            response: web.StreamResponse = await handler(request)
            return response
        finally:
            self.at_once -= 1

    async def _integrations(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [self._integration_json(key) for key in self.integrations]})

    async def _integration(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        if key not in self.integrations:
            return refused(404, "not_found", "no such integration")
        result = self._integration_json(key)
        if request.query.get("include") == "credentials" and "integration_credentials" in self.scopes:
            result["credentials"] = self.integrations[key].get("credentials")
        return web.json_response({"data": result})

    def _integration_json(self, key: str) -> dict[str, Any]:
        integration = self.integrations[key]
        times = {"created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z"}
        members = {
            "unique_key": key,
            "provider": integration["provider"],
            "display_name": integration.get("display_name", key),
        }
        return {**members, "logo": "https://x/logo.svg", "forward_webhooks": True, **times}

    async def _list(self, request: web.Request) -> web.Response:
        limit, page = (
            min(int(request.query.get("limit", "10000")), self.max_page_size),
            int(request.query.get("page", "0")),
        )
        wanted = request.query.get("integrationId")
        newest_first = [
            row for row in self.connections[::-1] if not wanted or row["provider_config_key"] in wanted.split(",")
        ]
        hidden = ("credentials", "connection_config", "webhook_url_override", "updated_at", "last_fetched_at")
        begin = int(request.query.get("cursor", page * limit))
        end = begin + (limit if self.rows_before_cursor is None else min(limit, self.rows_before_cursor))
        rows = [
            {name: value for name, value in row.items() if name not in hidden} | {"created": row["created_at"]}
            for row in newest_first[begin:end]
        ]
        has_cursor = self.rows_before_cursor is not None and end < len(newest_first)
        return web.json_response({"connections": rows, **({"next_cursor": str(end)} if has_cursor else {})})

    async def _get(self, request: web.Request) -> web.Response:
        name, key = request.match_info["id"], request.query.get("provider_config_key")
        found = [
            row
            for row in self.connections
            if (row["connection_id"], row["provider_config_key"]) == (name, key) and name not in self.hidden_from_get
        ]
        if not found:
            return refused(404, "not_found", "no such connection")
        if "read_credentials" not in self.scopes:
            if request.query.get("refresh_token") == "true":
                return refused(
                    403, "forbidden", "Insufficient scope. Required: environment:connections:read_credentials"
                )
            return web.json_response({**found[0], "credentials": {}})
        if name in self.dead:
            error = {"code": "invalid_credentials", "message": "The refresh limit has been reached"}
            payload = {"connection": {**found[0], "credentials": {}}}
            return web.json_response({"error": {**error, "payload": payload}}, status=424)
        return web.json_response(found[0])


def refused(status: int, code: str, message: str, **headers: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status, headers=headers)
