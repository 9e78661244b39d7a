"""``POST /mcp``, and ``POST …/mcp`` below a capability's address: a message in, calls through ``/proxy``, a result out."""

import asyncio
import base64
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, cached_property
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Final
from weakref import WeakKeyDictionary

from aiohttp import hdrs, web

from gateway import clock
from gateway.access.caller import Caller
from gateway.access.freeze_operations import host_and_path, known_details
from gateway.access.key_policy import Policy
from gateway.access.operation_rules import OperationRule, OperationSet
from gateway.access.refusals import CREATE, rule_and_fix
from gateway.access.scopes import PROXY
from gateway.api.request_body import query_of
from gateway.catalog.render import Unresolved, render_url
from gateway.catalog.value import BadValue
from gateway.catalog.yaml_file import UnreadableFile
from gateway.connections.opened import Opened
from gateway.egress.page_memory import NoPageMemory, Reservation
from gateway.errors import Forbidden, GatewayError, InvalidRequest
from gateway.generation import Generation
from gateway.http.json_select import UnfitExpression, parsed
from gateway.http.shaped_body import is_dear
from gateway.mcp import mcp_messages as rpc
from gateway.mcp.agent_message import AgentMessage, check_origin, mount_beside
from gateway.mcp.in_process_call import call_in_process
from gateway.mcp.kept_answers import KEPT_S, KeptAnswers
from gateway.mcp.mcp_messages import Reply, RpcError, RpcNotification, RpcRequest
from gateway.mcp.tool_calls import ToolCall, UnfitArguments, chosen, of_api, of_rule
from gateway.mcp.tool_list import OperationPlace, RuleTool, below_base, found, listed, shown, tools_of
from gateway.mcp.tool_results import failure, link_block, provider_result, refusal, text_block
from gateway.middleware.error_shape import MARK
from gateway.middleware.facts import CALLER, CAPABILITY, REQUEST_ID, TRACE
from gateway.middleware.scope import needs
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.proxy.collected_answer import CollectedAnswer
from gateway.records.access import ANY_INTEGRATION
from gateway.records.connection import ConnectionRef
from gateway.runtime import RUNTIME, generation_of
from gateway.store import ListFilter
from gateway.vault import Tokens, VaultError

MOST_ANSWER: Final = 8 << 20  # of a provider, that is held to be looked at
FORMS: Final = 3  # an answer is held as it came, as values, and as the text that leaves
LONGEST_S: Final = 120.0  # an agent waits no longer; a stream without end must end somewhere
TOOLS_HOLD_MS: Final = 60_000
STATE_S: Final = 900.0  # how long a person may take to connect
MOST_CANDIDATES: Final = 50
LIST_SCOPE: Final = "environment:connections:list"
SCHEME: Final = "gateway://answers/"
NOT_FOUND_2025: Final = -32002
INSTRUCTIONS: Final = (
    "Each tool is a request that this key may send to a provider's API. Answers are cut to max_bytes; 'select' (JMESPath) takes "
    "the fields you need. A refusal says which rule refused and what to do next."
)
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_PASSED_ON: Final = (hdrs.AUTHORIZATION, hdrs.USER_AGENT, "traceparent", "tracestate")

_kept: Final[WeakKeyDictionary[web.Application, KeptAnswers]] = WeakKeyDictionary()


@needs(PROXY, limits=True)
async def answer_mcp(request: web.Request) -> web.StreamResponse:
    """One message of the Model Context Protocol, through the chain. Raises what `answered` raises."""
    query_of(request, ())
    called_by = request.get(CAPABILITY)
    resource = request.match_info.route.resource
    door = "/mcp" if resource is None else resource.canonical
    return await answered(
        AgentMessage(
            request.app,
            generation_of(request),
            request[CALLER],
            request[REQUEST_ID],
            request.headers,
            await request.read(),  # the chain has it already
            mount_beside(door) if called_by is None else called_by.mount.reveal(),
            called_by is not None,
            request.protocol,
            request.remote,
            request.get(TRACE),
        )
    )


async def answered(message: AgentMessage) -> web.Response:
    """The answer to a message that has been admitted. Raises Forbidden for a key of gateway.yaml, and for a foreign Origin."""
    check_origin(message.headers.get(hdrs.ORIGIN), message.generation)
    caller, body = message.caller, message.body
    if caller.access is None:
        raise Forbidden(
            "forbidden",
            "A key of gateway.yaml may do everything, so it is not for agents. Give the agent a minted key with rules.",
            payload=rule_and_fix("key", f"Make a key for the agent: {CREATE}."),
        )
    if not rpc.accepts_json(message.headers.get(hdrs.ACCEPT)):
        raise InvalidRequest("invalid_headers", "Accept must have application/json: answers of /mcp are JSON.")
    asked: RpcRequest | RpcNotification | None = None
    try:
        asked = rpc.read_message(body, message.headers.items())
        if isinstance(asked, RpcNotification):
            count(caller)
            reply = rpc.ACCEPTED
        else:
            result, ttl_ms = await Door(message, asked).result()
            reply = rpc.result_reply(asked, result, _server(), ttl_ms)
    except RpcError as fault:
        count(caller)
        request = asked if isinstance(asked, RpcRequest) else None
        reply = rpc.error_reply(fault, request, request.id if request is not None else rpc.id_in(body))
    return _response(reply)


def _response(reply: Reply) -> web.Response:
    if reply.body is None:
        return web.Response(status=reply.status)
    text = json.dumps(reply.body, ensure_ascii=False, separators=(",", ":"))
    return web.json_response(text=text, status=reply.status, headers={hdrs.CACHE_CONTROL: "no-store"})


def count(caller: Caller) -> None:
    """One call of the key's rate; a call that goes on through the chain is counted there. Raises TooManyRequests."""
    if caller.access is not None and caller.access.meter is not None:
        caller.access.meter.pace()


@cache
def _server() -> Mapping[str, str]:
    return {"name": "integration-gateway", "version": version("integration-gateway")}


CAPABILITIES: Final[dict[str, Any]] = {"tools": {}, "resources": {}}


@dataclass(frozen=True, slots=True)
class Sent:
    """A call as it left, by which it can be made again."""

    method: str
    target: str
    connection: str


@dataclass(frozen=True, slots=True)
class Known:
    """The tools of a key, by name. `integrations`: all of its environment with their entries; `bases`: of those it reaches."""

    generation: Generation
    integrations: tuple[tuple[str, str], ...]
    bases: Mapping[str, str | None]
    tools: Mapping[str, RuleTool]


_made: Final[WeakKeyDictionary[Policy, Known]] = WeakKeyDictionary()


class Door:
    """One request of the protocol, of one caller. `outer`: the HTTP message that it came in."""

    def __init__(self, outer: AgentMessage, message: RpcRequest) -> None:
        self._outer = outer
        self._message = message
        self._caller = outer.caller
        self._policy = self._caller.policy
        self._generation = outer.generation
        self._runtime = outer.app[RUNTIME]
        self._environment = outer.environment

    async def result(self) -> tuple[dict[str, Any], int | None]:
        """The result, and how many milliseconds it may be cached where it is a list. Raises RpcError."""
        method, params = self._message.method, self._message.params
        if method == "tools/call":
            return await self._tool(params), None
        count(self._caller)
        if method == "server/discover":
            about = {
                "supportedVersions": list(rpc.REVISIONS),
                "capabilities": CAPABILITIES,
                "instructions": INSTRUCTIONS,
            }
            return about, TOOLS_HOLD_MS
        if method == "tools/list":
            self._check_cursor(params)
            return {"tools": self._listed()}, TOOLS_HOLD_MS
        if method == "resources/read":
            return await self._read(params), 0
        if method in ("resources/list", "resources/templates/list"):
            self._check_cursor(params)
            return {"resources" if method == "resources/list" else "resourceTemplates": []}, TOOLS_HOLD_MS
        if not self._message.modern:
            if method == "initialize":
                return {
                    "protocolVersion": rpc.negotiated(params),
                    "capabilities": CAPABILITIES,
                    "serverInfo": _server(),
                    "instructions": INSTRUCTIONS,
                }, None
            if method == "ping":
                return {}, None
        raise RpcError(rpc.METHOD_NOT_FOUND, f"There is no method '{method}' here.")

    def _check_cursor(self, params: Mapping[str, Any]) -> None:
        if params.get("cursor") is not None:
            raise RpcError(rpc.INVALID_PARAMS, "This cursor was not given here: every list fits one page.")

    # ── Which tools, on which connections.

    @cached_property
    def _known(self) -> "Known":
        """Made once for a key, while its rules, the integrations that it reaches and their entries are the same."""
        there = tuple((one.integration_id, one.provider) for one in self._generation.integrations.of(self._environment))
        known = _made.get(self._policy)
        if known is None or known.generation is not self._generation or known.integrations != there:
            bases = self._bases(there)
            places = {text: self._place(found, bases) for text, found in self._policy.operation_sets.items()}
            tools = {tool.name: tool for tool in tools_of(self._policy.rules, bases, places)}
            known = _made[self._policy] = Known(self._generation, there, bases, tools)
        return known

    def _bases(self, there: Iterable[tuple[str, str]]) -> dict[str, str | None]:
        """Of each integration that the key reaches, the path of its base address, placeholders included."""
        bases: dict[str, str | None] = {}
        bound = self._named()
        for name, entry in there:
            if not self._policy.reaches_integration(name) or (
                bound and not any(c.startswith(f"{name}/") for c in bound)
            ):
                continue
            provider = self._generation.catalog.get(entry)
            if provider is not None:
                _, found, rest = provider.proxy.base_url.partition("://")
                bases[name] = rest.partition("/")[2].rstrip("/") if found else None
        return bases

    def _place(self, found: OperationSet, reached: Collection[str]) -> OperationPlace:
        """Which of the integrations that the key reaches have these operations, and what the catalog says of them now."""
        catalog = self._generation.catalog
        fitting = [
            one.integration_id
            for one in self._generation.integrations.of(self._environment)
            if one.integration_id in reached
            and (provider := catalog.get(one.provider)) is not None
            and host_and_path(provider) == (found.host, found.base)
        ]
        try:
            known = catalog.operations(found.provider)
        except UnreadableFile:
            known = None
        details = {} if known is None else known_details(found.rules, known)
        return OperationPlace(tuple(fitting), found.base, details)

    def _listed(self) -> list[dict[str, Any]]:
        named = self._named()
        choose = named is None or len(named) != 1
        return listed(list(self._known.tools.values()), self._policy.rules, named or (), choose=choose)

    def _named(self) -> list[str] | None:
        """The connections that the key's limits name, each of an integration that there is; None where they name none."""
        names = next((one.connections for one in self._policy.limits if one.connections), None)
        if names is None:
            return None
        found: dict[str, None] = {}
        for name in names:
            integration, _, connection = name.partition("/")
            every = [one.integration_id for one in self._generation.integrations.of(self._environment)]
            for one in every if integration == ANY_INTEGRATION else [integration]:
                if self._policy.reaches(one, connection):
                    found[f"{one}/{connection}"] = None
        return list(found)

    async def _candidates(self) -> list[str] | None:
        """Those that a call may go to; None where the key names none and may not list them."""
        named = self._named()
        if named is not None and (not self._policy.of_tags or len(named) == 1):
            return named
        if not self._policy.allows(LIST_SCOPE):
            return named
        wanted = ListFilter(within=self._policy.limits, limit=MOST_CANDIDATES)
        rows = await self._runtime.store.connections.list(self._environment, wanted)
        return [f"{row.ref.integration_id}/{row.ref.connection_id}" for row in rows]

    # ── tools/call.

    async def _tool(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RpcError(rpc.INVALID_PARAMS, "params.name must be a text, and params.arguments an object.")
        tools = self._known.tools
        many = name in ("find_tools", "describe_tool", "call_tool")
        if many:
            if (result := self._of_list(name, arguments, tools)) is not None:
                count(self._caller)
                return result
            name, arguments = arguments["name"], arguments["arguments"]
        tool = tools.get(name)
        if tool is None and name != "call_api":
            if many:
                count(self._caller)
                return failure(f"There is no tool '{name[:64]}'. find_tools searches those that there are.")
            raise RpcError(rpc.INVALID_PARAMS, f"Unknown tool: {name[:64]}")
        try:
            call = of_api(arguments) if tool is None else of_rule(tool, arguments)
            select = None if call.select is None else parsed(call.select)
            connection = chosen(call, await self._candidates())
            if tool is not None:
                call = await self._placed(tool, call, arguments, connection)
        except (UnfitArguments, UnfitExpression) as fault:
            count(self._caller)
            return failure(str(fault))
        return await self._called(call, connection, select)

    def _of_list(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, RuleTool]) -> dict[str, Any] | None:
        """The result of a tool that is about tools; None: another tool is called by it."""
        named = self._named()
        choose = named is None or len(named) != 1
        if name == "find_tools":
            query = arguments.get("query", "")
            if not isinstance(query, str):
                return failure("'query' must be a text.")
            lines = [f"{one.name}: {one.summary}" for one in found(list(tools.values()), query)]
            return {"content": [text_block("\n".join(lines) or "No tool fits.")], "isError": False}
        one = arguments.get("name")
        if not isinstance(one, str):
            return failure("'name' must be the name of a tool.")
        if name == "describe_tool":
            if one not in tools:
                return failure(f"There is no tool '{one[:64]}'. find_tools searches those that there are.")
            about = shown(tools[one], named or (), choose=choose)
            return {"content": [text_block(json.dumps(about))], "structuredContent": about, "isError": False}
        inner = arguments.get("arguments", {})
        return (
            None if isinstance(inner, dict) and "arguments" in arguments else failure("'arguments' must be an object.")
        )

    async def _placed(self, tool: RuleTool, call: ToolCall, arguments: Mapping[str, Any], connection: str) -> ToolCall:
        """`call` below the base address that this connection has, where the entry does not say it as it is. Raises
        UnfitArguments."""
        integration, _, connection_id = connection.partition("/")
        ref = ConnectionRef(self._environment, integration, connection_id)
        opened = self._runtime.live.peek(ref)
        of_operation = isinstance(tool.rule, OperationRule)
        if of_operation and "${" not in call.target:
            return call
        if (
            opened is None
            and (of_operation or self._known.bases.get(integration) is None)
            and self._policy.reaches(integration, connection_id)
        ):
            try:
                opened = await self._runtime.live.opened(*ref)
            except GatewayError:
                return call  # the chain says why
        if of_operation:
            return (
                call if opened is None else replace(call, target=_with_settings(call.target, str(tool.path[0]), opened))
            )
        path = below_base(tool.rule, opened.base.path.strip("/")) if opened is not None else tool.path
        if path is None or path == tool.path:
            return call
        named = {one.name for one in tool.arguments} - {one.name for one in path if not isinstance(one, str)}
        rest = {name: value for name, value in arguments.items() if name not in named}
        return of_rule(replace(tool, path=path), rest)

    async def _called(self, call: ToolCall, connection: str, select: Any) -> dict[str, Any]:
        sent = Sent(call.method, call.target, connection)
        declined = self._declined(call)
        if declined is not None:
            count(self._caller)
            return declined
        held = Held(self._outer)
        try:
            async with asyncio.timeout(LONGEST_S):
                answer = await self._proxied(sent, call.body, call.content_type, held)
            return await self._shaped(sent, answer, select, call)
        except TimeoutError:
            return failure(f"The answer was not complete within {LONGEST_S:.0f} s.")
        except NoPageMemory:
            return failure("The gateway has no memory for another large answer now. Call again in some seconds.")
        finally:
            held.release()

    async def _proxied(self, sent: Sent, body: bytes | None, content_type: str | None, held: "Held") -> CollectedAnswer:
        """The call itself: through the chain of ``/proxy``, or of the capability's address, with the caller's own key."""
        outer = self._outer
        fields = {name: outer.headers[name] for name in _PASSED_ON if name in outer.headers}
        if outer.trace is not None:
            fields["traceparent"] = outer.trace.traceparent()  # the call is a part of the message's trace
        meta = self._message.params.get("_meta")
        trace = meta.get("traceparent") if isinstance(meta, dict) else None
        if isinstance(trace, str) and _TRACEPARENT.fullmatch(trace):
            fields["traceparent"] = trace
        integration, _, connection_id = sent.connection.partition("/")
        if outer.by_address:
            fields.pop(hdrs.AUTHORIZATION, None)
        fields |= {"Provider-Config-Key": integration, "Connection-Id": connection_id, "Decompress": "true"}
        if content_type is not None:
            fields[hdrs.CONTENT_TYPE] = content_type
        return await call_in_process(
            outer, outer.mount + sent.target, sent.method, fields, body, limit_bytes=MOST_ANSWER, room=held.room
        )

    async def _shaped(self, sent: Sent, answer: CollectedAnswer, select: Any, call: ToolCall) -> dict[str, Any]:
        if MARK in answer.headers:
            return self._refused(answer, call)
        if answer.too_large:
            return failure(
                f"The answer has more than {MOST_ANSWER >> 20} MiB. Ask for less by the query, or fetch it by HTTP from /proxy."
            )
        if not answer.whole:
            return failure("The provider's answer broke off. Nothing of it is shown.")
        media_type = answer.headers.get(hdrs.CONTENT_TYPE, "")
        reason = _reason(answer.status)
        arguments = answer.status, reason, media_type, answer.body, select, call.max_bytes
        if is_dear(answer.body, select):
            shaped = await off_loop(self._caller.share, provider_result, *arguments)
        else:
            shaped = provider_result(*arguments)
        if shaped.keep:
            uri = self._kept_at(sent, media_type, answer.body)
            shaped.result["content"].append(link_block(uri, media_type or "application/octet-stream", len(answer.body)))
        if 300 <= answer.status < 400 and (place := answer.headers.get(hdrs.LOCATION)):
            shaped.result["content"].append(text_block(f"Location: {place}. Redirects are not followed."))
        return shaped.result

    # ── Refusals; a missing connection, and the person who may connect it.

    def _refused(self, answer: CollectedAnswer, call: ToolCall) -> dict[str, Any]:
        try:
            error = json.loads(answer.body)["error"]
        except (ValueError, KeyError, TypeError):
            error = {"code": answer.headers[MARK], "message": "The gateway refused this call."}
        url = (error.get("payload") or {}).get("connect_url")
        if url and self._takes_urls and self._message.params.get("requestState") is None:
            shown_to = {"mode": "url", "message": f"Connect {call.connection or 'the account'} to go on.", "url": url}
            return {
                "resultType": "input_required",
                "inputRequests": {"connect": {"method": "elicitation/create", "params": shown_to}},
                "requestState": self._state(call),
            }
        return refusal(error, answer.status)

    @property
    def _takes_urls(self) -> bool:
        elicitation = self._message.capabilities.get("elicitation")
        return isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict)

    def _declined(self, call: ToolCall) -> dict[str, Any] | None:
        """The result for a retry whose person did not want to connect; None: the call is made. Raises RpcError."""
        state = self._message.params.get("requestState")
        if state is None:
            return None
        if not isinstance(state, str) or not self._is_own_state(state, call):
            raise RpcError(
                rpc.INVALID_PARAMS, "requestState is not of this call, or has ended. Send the call again without it."
            )
        answers = self._message.params.get("inputResponses")
        said = answers.get("connect") if isinstance(answers, dict) else None
        action = said.get("action") if isinstance(said, dict) else None
        if action in ("decline", "cancel"):
            return failure("The user did not connect the account. Ask them before you call again.")
        return None

    def _state(self, call: ToolCall) -> str:
        """Sealed, for this key and this call alone. It opens nothing: the retry is decided as any call is."""
        ends_at = (clock.now() + timedelta(seconds=STATE_S)).timestamp()
        return self._seals.seal(json.dumps([self._caller.key_id, _digest(call), ends_at]))

    def _is_own_state(self, state: str, call: ToolCall) -> bool:
        try:
            key_id, digest, ends_at = json.loads(self._seals.open(state))
        except (VaultError, ValueError, TypeError):
            return False
        return bool(key_id == self._caller.key_id and digest == _digest(call) and clock.now().timestamp() < ends_at)

    @property
    def _seals(self) -> Tokens:
        return Tokens(self._generation.config.store.encryption_keys, "agent door")

    # ── Whole answers.

    def _kept_at(self, sent: Sent, media_type: str, body: bytes) -> str:
        """The address of the whole: kept here for minutes, and for a GET with what another worker needs to fetch it again."""
        answer_id = _answers(self._outer.app).keep(self._caller.share, media_type, body)
        ends_at = (clock.now() + timedelta(seconds=KEPT_S)).timestamp()
        again = [sent.target, sent.connection] if sent.method == "GET" else None
        return SCHEME + self._seals.seal(json.dumps([answer_id, self._caller.key_id, ends_at, again]))

    async def _read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(rpc.INVALID_PARAMS, "params.uri must be a text.")
        try:
            answer_id, key_id, ends_at, again = json.loads(self._seals.open(uri.removeprefix(SCHEME)))
        except (VaultError, ValueError, TypeError):
            raise self._no_resource(uri) from None
        if not uri.startswith(SCHEME) or key_id != self._caller.key_id or ends_at <= clock.now().timestamp():
            raise self._no_resource(uri)
        kept = _answers(self._outer.app).get(self._caller.share, answer_id or "")
        if kept is not None:
            return {"contents": [contents(uri, kept.media_type, kept.body)]}
        if again is None:
            raise self._no_resource(uri)
        return await self._again(uri, Sent("GET", *again))

    async def _again(self, uri: str, sent: Sent) -> dict[str, Any]:
        held = Held(self._outer)
        try:
            async with asyncio.timeout(LONGEST_S):
                answer = await self._proxied(sent, None, None, held)
        except (TimeoutError, NoPageMemory):
            raise RpcError(
                rpc.INTERNAL_ERROR, "The whole answer could not be fetched again. Call the tool again."
            ) from None
        finally:
            held.release()
        if MARK in answer.headers or not answer.whole or answer.status >= 300:
            raise RpcError(rpc.INTERNAL_ERROR, "The whole answer could not be fetched again. Call the tool again.")
        return {"contents": [contents(uri, answer.headers.get(hdrs.CONTENT_TYPE, ""), answer.body)]}

    def _no_resource(self, uri: str) -> RpcError:
        code = rpc.INVALID_PARAMS if self._message.modern else NOT_FOUND_2025
        return RpcError(
            code, "No such resource for this key, or it has ended. Call the tool again.", {"uri": uri[:2048]}
        )


def _with_settings(target: str, begins: str, opened: Opened) -> str:
    """`target` with the settings of its connection in `begins`, by which it begins. Raises UnfitArguments."""
    at = "https://connection"
    try:
        filled = render_url(at + begins, opened.connection.config, opened.provider.connection_config)
    except (Unresolved, BadValue) as fault:
        raise UnfitArguments(f"The connection lacks the setting {fault}: have the user connect again.") from None
    return filled.removeprefix(at) + target.removeprefix(begins)


class Held:
    """The memory that one answer takes of what all have in common."""

    def __init__(self, outer: AgentMessage) -> None:
        self._outer = outer
        self._reserved: Reservation | None = None

    async def room(self, size: int) -> None:
        """Raises NoPageMemory."""
        if size > INLINE_BYTES and self._reserved is None:
            outer = self._outer
            wait_s = outer.generation.config.egress.limits.wait_s
            memory = outer.app[RUNTIME].page_memory
            self._reserved = await memory.reserve(outer.caller.share, FORMS * MOST_ANSWER, wait_s)

    def release(self) -> None:
        if self._reserved is not None:
            self._reserved.release()


def contents(uri: str, media_type: str, body: bytes) -> dict[str, Any]:
    """A resource's content: as text where it is one."""
    shown = {"uri": uri, "mimeType": media_type or "application/octet-stream"}
    try:
        return {**shown, "text": body.decode()}
    except UnicodeDecodeError:
        return {**shown, "blob": base64.b64encode(body).decode("ascii")}


def _answers(app: web.Application) -> KeptAnswers:
    if app not in _kept:
        _kept[app] = KeptAnswers()
    return _kept[app]


def _digest(call: ToolCall) -> str:
    parts: Sequence[object] = (call.method, call.target, (call.body or b"").decode(), call.connection)
    return sha256(json.dumps(parts).encode()).hexdigest()


def _reason(status: int) -> str:
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
