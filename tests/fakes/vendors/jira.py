"""Fake of Jira Cloud at api.atlassian.com: sites, the user, server info, search by token, and an issue that can be
changed.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from aiohttp import web

from tests.fakes.vendors.vendor import Vendor

CLOUD = "5f2a7c10-3b7e-4c57-9d0b-6a1f0c5e8d11"
KEYS = ["ACME-1", "ACME-2", "ACME-3"]


class Jira(Vendor):
    name = "jira"
    credentials: ClassVar[Mapping[str, Any]] = {"type": "OAUTH2", "access_token": "the-providers-own-jira-token"}
    slot = ("authorization", "Bearer the-providers-own-jira-token")

    def __init__(self) -> None:
        super().__init__()
        self.summaries = {key: f"Summary of {key}" for key in KEYS}

    def routes(self) -> list[web.RouteDef]:
        api = f"/ex/jira/{CLOUD}/rest/api/{{version:[23]}}"
        return [
            web.get("/oauth/token/accessible-resources", self._sites),
            web.get(f"{api}/serverInfo", self._server_info),
            web.get(f"{api}/myself", self._myself),
            web.get(f"{api}/field", self._fields),
            web.route("*", f"{api}/search/jql", self._search),
            web.get(f"{api}/issue/{{key}}", self._issue),
            web.put(f"{api}/issue/{{key}}", self._change),
        ]

    def refusal(self) -> web.Response:
        return web.json_response({"code": 401, "message": "Unauthorized; scope does not match"}, status=401)

    async def _sites(self, _request: web.Request) -> web.Response:
        site = {"id": CLOUD, "url": "https://acme.atlassian.net", "name": "acme", "scopes": [], "avatarUrl": ""}
        return web.json_response([site])

    async def _server_info(self, _request: web.Request) -> web.Response:
        result = {"baseUrl": "https://acme.atlassian.net", "version": "1001.0.0", "versionNumbers": [1001, 0, 0]}
        return web.json_response({**result, "deploymentType": "Cloud", "buildNumber": 1})

    async def _myself(self, request: web.Request) -> web.Response:
        result = {"self": self._at(request, "user"), "accountId": "5b10a2844c20165700ede21g", "displayName": "Dana"}
        return web.json_response(result)

    async def _fields(self, _request: web.Request) -> web.Response:
        field = {"id": "summary", "key": "summary", "name": "Summary", "clauseNames": ["summary"], "custom": False}
        return web.json_response([field])

    async def _search(self, request: web.Request) -> web.Response:
        parameters = await request.json() if request.can_read_body else dict(request.query)
        start, size = int(parameters.get("nextPageToken") or 0), int(parameters.get("maxResults") or 2)
        issues = [self._issue_json(request, key) for key in KEYS[start : start + size]]
        result: dict[str, Any] = {"issues": issues, "isLast": start + size >= len(KEYS)}
        return web.json_response(result if result["isLast"] else {**result, "nextPageToken": str(start + size)})

    async def _issue(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        key = key if key in KEYS else KEYS[int(key) - 10001]
        return web.json_response(self._issue_json(request, key))

    async def _change(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        key = key if key in KEYS else KEYS[int(key) - 10001]
        self.summaries[key] = (await request.json())["fields"]["summary"]
        return web.Response(status=204)

    def _issue_json(self, request: web.Request, key: str) -> dict[str, Any]:
        number = str(10001 + KEYS.index(key))
        fields = {"summary": self.summaries[key], "project": {"key": "ACME"}}
        return {"id": number, "key": key, "self": self._at(request, f"issue/{number}"), "fields": fields}

    def _at(self, request: web.Request, rest: str) -> str:
        return f"{self.origin}/ex/jira/{CLOUD}/rest/api/{request.match_info['version']}/{rest}"
