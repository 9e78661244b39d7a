"""Fake of OpenAI's API: models, files, and chat completions as one response or as a stream that ends with [DONE]."""

import email
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from aiohttp import web

from tests.fakes.vendors.vendor import Vendor, events

WORDS = ("Hello", " from", " the", " provider")


class OpenAI(Vendor):
    name = "openai"
    credentials: ClassVar[Mapping[str, Any]] = {"type": "API_KEY", "apiKey": "sk-proj-the-providers-own-key"}
    slot = ("authorization", "Bearer sk-proj-the-providers-own-key")

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self._models),
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/files", self._file),
        ]

    async def _models(self, _request: web.Request) -> web.Response:
        model = {"id": "gpt-test", "object": "model", "created": 1, "owned_by": "openai"}
        return web.json_response({"object": "list", "data": [model]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        parameters = await request.json()
        if parameters["model"] != "gpt-test":
            fault = {"message": f"The model {parameters['model']} does not exist", "code": "model_not_found"}
            return web.json_response({"error": {**fault, "type": "invalid_request_error", "param": None}}, status=404)
        common: dict[str, Any] = {"id": "chatcmpl-1", "created": 1, "model": "gpt-test"}
        if parameters.get("stream"):
            chunk = {**common, "object": "chat.completion.chunk"}
            pieces = [
                {**chunk, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
                for word in WORDS
            ]
            return await events(request, [*(f"data: {json.dumps(piece)}" for piece in pieces), "data: [DONE]"])
        message = {"role": "assistant", "content": "".join(WORDS), "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        usage = {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
        return web.json_response({**common, "object": "chat.completion", "choices": [choice], "usage": usage})

    async def _file(self, request: web.Request) -> web.Response:
        head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
        parts = {
            part.get_param("name", header="content-disposition"): part
            for part in email.message_from_bytes(head + self.seen[-1].body).walk()
            if not part.is_multipart()
        }
        file, purpose = parts["file"].get_payload(decode=True), parts["purpose"].get_payload()
        assert isinstance(file, bytes)
        result = {"id": "file-1", "object": "file", "bytes": len(file), "created_at": 1, "purpose": purpose}
        return web.json_response({**result, "filename": parts["file"].get_filename(), "status": "processed"})
