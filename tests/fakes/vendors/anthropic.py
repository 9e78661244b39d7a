"""Fake of Anthropic's API: paged models, and messages as one response or as a stream of named events."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from aiohttp import web

from tests.fakes.vendors.openai import WORDS
from tests.fakes.vendors.vendor import Vendor, events

MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "stop_sequence": None}


class Anthropic(Vendor):
    name = "anthropic"
    credentials: ClassVar[Mapping[str, Any]] = {"type": "API_KEY", "apiKey": "sk-ant-api03-the-providers-own-key"}
    slot = ("x-api-key", "sk-ant-api03-the-providers-own-key")

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/v1/models", self._models), web.post("/v1/messages", self._messages)]

    async def _models(self, request: web.Request) -> web.Response:
        names = ["claude-a", "claude-b", "claude-c"]
        start = names.index(request.query["after_id"]) + 1 if "after_id" in request.query else 0
        page = names[start : start + int(request.query.get("limit", "20"))]
        data = [
            {"id": name, "type": "model", "display_name": name, "created_at": "2026-01-01T00:00:00Z"} for name in page
        ]
        more = bool(page) and page[-1] != names[-1]
        first, last = (page[0], page[-1]) if page else (None, None)
        return web.json_response({"data": data, "has_more": more, "first_id": first, "last_id": last})

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["anthropic-version"]
        parameters = await request.json()
        usage = {"input_tokens": 1, "output_tokens": 4}
        if not parameters.get("stream"):
            content = [{"type": "text", "text": "".join(WORDS)}]
            return web.json_response({**MESSAGE, "content": content, "stop_reason": "end_turn", "usage": usage})
        result: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": w}} for w in WORDS),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        return await events(request, [f"event: {event['type']}\ndata: {json.dumps(event)}" for event in result])
