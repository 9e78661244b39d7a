"""Fake of GitHub's REST API: the user, repositories with Link pages, and issues. As at GitHub, bodies contain absolute
URLs.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from aiohttp import web

from tests.fakes.vendors.vendor import Vendor

REPOSITORIES = [f"repo-{number}" for number in range(5)]


class GitHub(Vendor):
    name = "github"
    credentials: ClassVar[Mapping[str, Any]] = {"type": "OAUTH2", "access_token": "gho_the_providers_own_token"}
    slot = ("authorization", "Bearer gho_the_providers_own_token")

    def __init__(self) -> None:
        super().__init__()
        self.issues: list[dict[str, Any]] = []

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/user", self._user),
            web.get("/user/repos", self._repositories),
            web.get("/repos/octo/{name}", self._repository),
            web.get("/repos/octo/{name}/issues", self._issues),
            web.post("/repos/octo/{name}/issues", self._open),
            web.patch("/repos/octo/{name}/issues/{number}", self._change),
        ]

    def refusal(self) -> web.Response:
        return web.json_response({"message": "Bad credentials", "status": "401"}, status=401)

    async def _user(self, request: web.Request) -> web.Response:
        assert request.headers["User-Agent"]
        return web.json_response({"login": "octo", "id": 1, "url": f"{self.origin}/users/octo", "type": "User"})

    async def _repositories(self, request: web.Request) -> web.Response:
        size, page = int(request.query.get("per_page", "2")), int(request.query.get("page", "1"))
        names = REPOSITORIES[(page - 1) * size : page * size]
        last = -(-len(REPOSITORIES) // size)
        links = {"next": page + 1, "last": last} if page < last else {"prev": page - 1}
        at = f"{self.origin}/user/repos?per_page={size}&page="
        link = ", ".join(f'<{at}{number}>; rel="{rel}"' for rel, number in links.items())
        return web.json_response([self._repository_json(name) for name in names], headers={"Link": link})

    async def _repository(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in REPOSITORIES:
            return web.json_response({"message": "Not Found", "status": "404"}, status=404)
        return web.json_response(self._repository_json(name))

    async def _issues(self, _request: web.Request) -> web.Response:
        return web.json_response(self.issues)

    async def _open(self, request: web.Request) -> web.Response:
        parameters = await request.json()
        number = len(self.issues) + 1
        at = f"{self.origin}/repos/octo/{request.match_info['name']}/issues/{number}"
        self.issues.append({"number": number, "id": number, "url": at, "state": "open", "title": parameters["title"]})
        return web.json_response(self.issues[-1], status=201)

    async def _change(self, request: web.Request) -> web.Response:
        issue = self.issues[int(request.match_info["number"]) - 1]
        issue.update(await request.json())
        return web.json_response(issue)

    def _repository_json(self, name: str) -> dict[str, Any]:
        at = f"{self.origin}/repos/octo/{name}"
        return {"id": 1, "name": name, "full_name": f"octo/{name}", "url": at, "issues_url": f"{at}/issues{{/number}}"}
