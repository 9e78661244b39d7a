"""Fake of Slack's Web API: auth.test, conversations.list by cursor, chat.postMessage, and an upload to a separate URL.

An error is a response with status 200 and ``ok: false``.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from aiohttp import web

from tests.fakes.vendors.vendor import Vendor

CHANNELS = ["general", "random", "ops"]


class Slack(Vendor):
    name = "slack"
    base_path = "/api"
    credentials: ClassVar[Mapping[str, Any]] = {"type": "OAUTH2", "access_token": "xoxb-the-providers-own-token"}
    slot = ("authorization", "Bearer xoxb-the-providers-own-token")
    presigned = "/upload/"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.route("*", "/api/auth.test", self._test),
            web.route("*", "/api/conversations.list", self._channels),
            web.post("/api/chat.postMessage", self._post),
            web.route("*", "/api/files.getUploadURLExternal", self._upload_url),
            web.post("/upload/{name}", self._upload),
            web.route("*", "/api/files.completeUploadExternal", self._uploaded),
        ]

    def refusal(self) -> web.Response:
        return web.json_response({"ok": False, "error": "invalid_auth"})

    async def _test(self, _request: web.Request) -> web.Response:
        return web.json_response({"ok": True, "url": "https://acme.slack.com/", "team": "Acme", "user": "bot"})

    async def _channels(self, request: web.Request) -> web.Response:
        parameters = {**request.query, **(await _members(request))}
        start, size = int(parameters.get("cursor") or 0), int(parameters.get("limit", 2))
        page = [{"id": f"C{name}", "name": name} for name in CHANNELS[start : start + size]]
        cursor = str(start + size) if start + size < len(CHANNELS) else ""
        return web.json_response({"ok": True, "channels": page, "response_metadata": {"next_cursor": cursor}})

    async def _post(self, request: web.Request) -> web.Response:
        parameters = await _members(request)
        if parameters.get("channel") != "Cgeneral":
            return web.json_response({"ok": False, "error": "channel_not_found"})
        return web.json_response(
            {"ok": True, "channel": "Cgeneral", "ts": "1.2", "message": {"text": parameters["text"]}}
        )

    async def _upload_url(self, _request: web.Request) -> web.Response:
        return web.json_response({"ok": True, "upload_url": f"{self.origin}/upload/signed-1", "file_id": "F1"})

    async def _upload(self, request: web.Request) -> web.Response:
        return web.Response(text=f"OK - {len(await request.read())}")

    async def _uploaded(self, _request: web.Request) -> web.Response:
        return web.json_response({"ok": True, "files": [{"id": "F1", "title": "a.txt"}]})


async def _members(request: web.Request) -> dict[str, Any]:
    """Return the parameters of a request. Slack accepts a form or JSON."""
    if request.content_type == "application/json":
        body: dict[str, Any] = await request.json()
        return body
    return dict(await request.post())
