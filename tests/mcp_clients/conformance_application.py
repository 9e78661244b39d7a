"""An application on the gateway's MCP layer, with the tools, prompts and resources that MCP's conformance suite
requires.

The layer (`gateway.mcp.mcp_messages`) handles reading, versions, headers, errors and results. The application itself
implements what the gateway's MCP endpoint never sends, since it has no session: log messages, progress, requests to a
client of 2025.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import hdrs, web
from yarl import URL

from gateway.mcp import mcp_messages as rpc
from gateway.vault import SealedTokens

SERVER: Final = {"name": "conformance", "version": "1"}
PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV: Final = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
TTL_MS: Final = 60_000
LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
OF_LEVELS: Final = {"logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
CAPABILITIES: Final[dict[str, Any]] = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
OF_2025: Final[dict[str, Any]] = {**CAPABILITIES, "logging": {}, "resources": {"subscribe": True}}
Send = Callable[[str, dict[str, Any]], Awaitable[None]]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": []}


def elicitation_request(member: str, message: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {member: {"type": "string"}}, "required": [member]}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def asks_model(prompt: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


ROOTS: Final[dict[str, Any]] = {"method": "roots/list", "params": {}}
IMAGE: Final = {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, media_type: str, content: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "text": content}}


SIMPLE: Final[dict[str, list[dict[str, Any]]]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "json_schema_2020_12_tool": [text("called")],
}
SCHEMA_2020_12: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
# What a client of 2026-07-28 is asked before a tool returns its result, by tool; `state`: whether the question has a
# state.
INPUT: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "test_input_required_result_elicitation": {"user_name": elicitation_request("name", "What is your name?")},
    "test_input_required_result_sampling": {"capital_question": asks_model("What is the capital of France?")},
    "test_input_required_result_list_roots": {"client_roots": ROOTS},
    "test_input_required_result_request_state": {"confirm": elicitation_request("ok", "Please confirm")},
    "test_input_required_result_tampered_state": {"confirm": elicitation_request("ok", "Please confirm")},
    "test_input_required_result_multiple_inputs": {
        "user_name": elicitation_request("name", "What is your name?"),
        "greeting": asks_model("Generate a greeting"),
        "client_roots": ROOTS,
    },
    "test_input_required_result_capabilities": {
        "question": asks_model("What is the capital of France?"),
        "user_name": elicitation_request("name", "What is your name?"),
    },
    "test_input_required_result_prompt": {"user_context": elicitation_request("context", "What context?")},
    "test_streaming_elicitation": {"user_name": elicitation_request("name", "What is your name?")},
}
WITH_STATE: Final = frozenset(
    {
        "test_input_required_result_request_state",
        "test_input_required_result_tampered_state",
        "test_input_required_result_multiple_inputs",
    }
)
ROUNDS: Final = "test_input_required_result_multi_round"
CAPABILITY_OF: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
# What a client of 2025 is asked on the stream of its call.
ONE_OF: Final = ["option1", "option2", "option3"]
VALUES: Final = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
FORMS: Final[dict[str, dict[str, Any]]] = {
    "test_elicitation_sep1034_defaults": form(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    ),
    "test_elicitation_sep1330_enums": form(
        untitledSingle={"type": "string", "enum": ONE_OF},
        titledSingle={"type": "string", "oneOf": VALUES},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        untitledMulti={"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "enum": ONE_OF}},
        titledMulti={"type": "array", "minItems": 1, "maxItems": 3, "items": {"anyOf": VALUES}},
    ),
    "test_elicitation": form(response={"type": "string"}),
}
STREAMED: Final = frozenset(
    {"test_tool_with_logging", "test_tool_with_progress", "test_sampling", "test_logging_tool", *FORMS}
)
FAILING: Final = frozenset({"test_error_handling", "test_missing_capability"})
PROMPTS: Final[dict[str, list[str]]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}
RESOURCES: Final[dict[str, dict[str, Any]]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}


class ConformanceApplication:
    """An application with one URL, whose handler is `response`."""

    def __init__(self) -> None:
        self._seals = SealedTokens([secrets.token_bytes(32)], "conformance")
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def response(self, request: web.Request) -> web.StreamResponse:
        for origin in (f"http://{request.host}", request.headers.get(hdrs.ORIGIN)):
            if origin is not None and URL(origin).host not in LOCAL:
                return web.Response(status=403)
        if request.method != "POST":
            return web.Response(status=405, headers={hdrs.ALLOW: "POST"})
        body = await request.read()
        message: rpc.RpcRequest | rpc.RpcNotification | None = None
        try:
            message = rpc.read_message(body, request.headers.items())
            if isinstance(message, rpc.RpcNotification):
                self._responded(json.loads(body))
                return web.Response(status=202)
            if message.method == "tools/call" and message.params.get("name") in STREAMED:
                return await self._stream(request, message)
            result, ttl_ms = self._result(message)
            reply = rpc.result_reply(message, result, SERVER, ttl_ms)
        except rpc.RpcError as fault:
            asked = message if isinstance(message, rpc.RpcRequest) else None
            reply = rpc.error_reply(fault, asked, asked.id if asked is not None else rpc.id_in(body))
        headers = {"Mcp-Session-Id": "one"} if asks_first(message) else {}
        return web.json_response(reply.body, status=reply.status, headers=headers)

    def _result(self, message: rpc.RpcRequest) -> tuple[dict[str, Any], int | None]:
        method, params = message.method, message.params
        if method in LISTS:
            return LISTS[method], TTL_MS
        if method == "resources/read":
            return {"contents": [resource(params.get("uri"), message.modern)]}, 0
        if method == "prompts/get":
            return self._prompt(message), None
        if method == "completion/complete":
            return {"completion": {"values": [], "total": 0, "hasMore": False}}, None
        if method == "tools/call":
            return self._called(message), None
        if not message.modern:
            if method == "initialize":
                version = rpc.negotiate_revision(params)
                return {"protocolVersion": version, "capabilities": OF_2025, "serverInfo": SERVER}, None
            if method == "ping" or method in OF_LEVELS:
                return {}, None
        raise rpc.RpcError(rpc.METHOD_NOT_FOUND, f"Unknown method '{method}'.")

    # ── Tools that return a result directly, or first ask a client of 2026-07-28.

    def _called(self, message: rpc.RpcRequest) -> dict[str, Any]:
        name = message.params.get("name")
        if name in SIMPLE:
            return {"content": SIMPLE[name]}
        if name == "test_error_handling":
            return {"content": [text("This tool intentionally returns an error for testing")], "isError": True}
        if name == "test_missing_capability":
            if "sampling" not in message.capabilities:
                needed = {"requiredCapabilities": {"sampling": {}}}
                raise rpc.RpcError(rpc.MISSING_CAPABILITY, "This tool needs sampling.", needed)
            return {"content": [text("sampling is there")]}
        if name == ROUNDS:
            return self._ask_in_rounds(message) or {"content": [text("Both rounds are over.")]}
        if name not in INPUT:
            raise rpc.RpcError(rpc.INVALID_PARAMS, f"Unknown tool: {name}")
        return self._asked(message, name) or {
            "content": [text(f"state-ok {json.dumps(message.params['inputResponses'])}")]
        }

    def _asked(self, message: rpc.RpcRequest, name: str) -> dict[str, Any] | None:
        """Return the question to the client, or None if it has answered."""
        wanted = INPUT[name]
        if name == "test_input_required_result_capabilities":
            wanted = {
                key: item for key, item in wanted.items() if CAPABILITY_OF[item["method"]] in message.capabilities
            }
        responses = message.params.get("inputResponses")
        if name in WITH_STATE and responses is not None:
            self._opened(message.params.get("requestState"), name)
        if isinstance(responses, dict) and all(fits(item, responses.get(key)) for key, item in wanted.items()):
            return None
        asked: dict[str, Any] = {"resultType": "input_required", "inputRequests": wanted}
        return {**asked, "requestState": self._seals.seal(name)} if name in WITH_STATE else asked

    def _ask_in_rounds(self, message: rpc.RpcRequest) -> dict[str, Any] | None:
        state = message.params.get("requestState")
        step = 1 if state is None else int(self._opened(state, None)) + 1
        if step > 2:
            return None
        wanted = {f"step{step}": elicitation_request("name" if step == 1 else "color", f"Step {step}")}
        return {"resultType": "input_required", "inputRequests": wanted, "requestState": self._seals.seal(str(step))}

    def _opened(self, state: Any, expected: str | None) -> str:
        try:
            found = self._seals.open(state)
        except Exception as fault:
            raise rpc.RpcError(rpc.INVALID_PARAMS, "requestState was changed.") from fault
        if expected is not None and found != expected:
            raise rpc.RpcError(rpc.INVALID_PARAMS, "requestState is of another tool.")
        return found

    def _prompt(self, message: rpc.RpcRequest) -> dict[str, Any]:
        name, arguments = message.params.get("name"), message.params.get("arguments", {})
        if name == "test_input_required_result_prompt":
            return self._asked(message, name) or {"messages": [user_message(text("Prompt with context."))]}
        if name == "test_simple_prompt":
            return {"messages": [user_message(text("This is a simple prompt for testing."))]}
        if name == "test_prompt_with_arguments":
            shown = f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"
            return {"messages": [user_message(text(shown))]}
        if name == "test_prompt_with_embedded_resource":
            block = embedded(arguments["resourceUri"], "text/plain", "Embedded resource content for testing.")
            return {
                "messages": [user_message(block), user_message(text("Please process the embedded resource above."))]
            }
        if name == "test_prompt_with_image":
            return {"messages": [user_message(IMAGE), user_message(text("Please analyze the image above."))]}
        raise rpc.RpcError(rpc.INVALID_PARAMS, f"Unknown prompt: {name}")

    # ── Streams: messages before the result, and the responses of a client of 2025 to questions on a stream.

    async def _stream(self, request: web.Request, message: rpc.RpcRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream"})
        await response.prepare(request)

        async def event(body: Mapping[str, Any]) -> None:
            await response.write(f"event: message\ndata: {json.dumps(body)}\n\n".encode())

        async def send(method: str, params: dict[str, Any]) -> None:
            await event({"jsonrpc": "2.0", "method": method, "params": params})

        async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            request_id = f"ask-{id(response)}"
            reply = self._waiting[request_id] = asyncio.get_running_loop().create_future()
            await event({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            return await reply

        result = await self._call_with_messages(message, send, ask)
        reply = rpc.result_reply(message, result, SERVER, None)
        assert reply.body is not None
        await event(reply.body)
        await response.write_eof()
        return response

    async def _call_with_messages(self, message: rpc.RpcRequest, send: Send, ask: Any) -> dict[str, Any]:
        name, arguments = message.params["name"], message.params.get("arguments", {})
        if name in ("test_tool_with_logging", "test_logging_tool"):
            for data in ("Tool execution started", "Tool processing data", "Tool execution completed"):
                if not message.modern:
                    await send("notifications/message", {"level": "info", "data": data})
            return {"content": [text("Tool with logging executed successfully")]}
        if name == "test_tool_with_progress":
            token = message.params.get("_meta", {}).get("progressToken")
            for done in (0, 50, 100) if token is not None else ():
                await send("notifications/progress", {"progressToken": token, "progress": done, "total": 100})
            return {"content": [text(str(token))]}
        if name == "test_sampling":
            wanted = asks_model(arguments.get("prompt", ""))
            response = await ask(wanted["method"], wanted["params"])
            return {"content": [text(f"LLM response: {response['content']['text']}")]}
        wanted = {"message": arguments.get("message", "Please fill in the form"), "requestedSchema": FORMS[name]}
        response = await ask("elicitation/create", wanted)
        outcome = f"action={response['action']}, content={json.dumps(response.get('content', {}))}"
        return {"content": [text(f"Elicitation completed: {outcome}; User response: {outcome}")]}

    def _responded(self, body: Any) -> None:
        waiting = self._waiting.pop(body.get("id"), None) if isinstance(body, dict) else None
        if waiting is not None:
            waiting.set_result(body.get("result", {}))


def asks_first(message: Any) -> bool:
    return isinstance(message, rpc.RpcRequest) and message.method == "initialize"


def user_message(content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": content}


def fits(wanted: Mapping[str, Any], response: Any) -> bool:
    """Return whether a response fits the elicitation request. A form needs all required fields as strings."""
    if not isinstance(response, dict):
        return False
    if wanted["method"] != "elicitation/create":
        return True
    content, required = response.get("content"), wanted["params"]["requestedSchema"]["required"]
    return (
        response.get("action") == "accept" and isinstance(content, dict) and all(name in content for name in required)
    )


def arguments(names: list[str]) -> list[dict[str, Any]]:
    return [{"name": name, "description": name, "required": True} for name in names]


def listed() -> list[dict[str, Any]]:
    names = [*SIMPLE, *FAILING, *sorted(STREAMED), *(name for name in INPUT if "prompt" not in name), ROUNDS]
    schemas = {"json_schema_2020_12_tool": SCHEMA_2020_12}
    return [
        {"name": name, "description": f"{name}.", "inputSchema": schemas.get(name, {"type": "object"})}
        for name in names
    ]


def resource(uri: Any, modern: bool) -> dict[str, Any]:
    if uri in RESOURCES:
        return {"uri": uri, **RESOURCES[uri]}
    if isinstance(uri, str) and uri.startswith("test://template/"):
        number = uri.removeprefix("test://template/").partition("/")[0]
        shown = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(shown)}
    raise rpc.RpcError(rpc.INVALID_PARAMS if modern else -32002, "Resource not found", {"uri": uri})


LISTS: Final[dict[str, dict[str, Any]]] = {
    "server/discover": {"supportedVersions": list(rpc.REVISIONS), "capabilities": CAPABILITIES},
    "tools/list": {"tools": listed()},
    "resources/list": {"resources": [{"uri": uri, "name": uri} for uri in RESOURCES]},
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "test://template/{id}/data", "name": "template"}]
    },
    "prompts/list": {
        "prompts": [
            {"name": name, "description": name, "arguments": arguments(names)} for name, names in PROMPTS.items()
        ]
    },
}


@asynccontextmanager
async def conformance_application() -> AsyncIterator[str]:
    """Run the application and yield its URL."""
    application = web.Application()
    application.router.add_route("*", "/mcp", ConformanceApplication().response)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()
