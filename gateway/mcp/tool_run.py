"""Runs ``tools/call``: finds the tool and its connection, calls the provider, and returns the tool's result."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from aiohttp import hdrs

from gateway.access.operation_rules import OperationRule
from gateway.catalog.render import Unresolved, render_url
from gateway.catalog.value import BadValue
from gateway.connections.opened import OpenedConnection
from gateway.egress.page_memory import NoPageMemory
from gateway.errors import GatewayError
from gateway.http.json_select import UnusableExpression, parse_expression
from gateway.http.passed_head import CONNECT_URL_FIELD
from gateway.http.shaped_body import needs_thread
from gateway.mcp import mcp_messages as rpc
from gateway.mcp.key_tools import KeyTools
from gateway.mcp.list_cursor import (
    FoundList,
    NextPage,
    find_list,
    items_at,
    open_cursor,
    seal_cursor,
    without_shown_items,
)
from gateway.mcp.mcp_messages import RpcError
from gateway.mcp.mcp_request import McpRequest
from gateway.mcp.refused_calls import RefusedCalls
from gateway.mcp.rule_tools import SAFE_METHODS, RuleTool, path_below_base
from gateway.mcp.tool_calls import (
    InvalidArguments,
    ToolCall,
    UnknownArgument,
    call_of_api,
    call_of_rule,
    chosen_connection,
)
from gateway.mcp.tool_list import ARGUMENTS_ABOUT_TOOLS, MAX_FOUND, MAX_QUERY_CHARS, matching_tools
from gateway.mcp.tool_provider_call import MAX_CALL_S, MAX_RESPONSE_BYTES, RepeatableCall, ResponseMemory, call_proxy
from gateway.mcp.tool_results import OPEN_LINK, ShapedResult, failed_result, link_block, provider_result, text_block
from gateway.mcp.whole_responses import WholeResponses
from gateway.off_loop import off_loop
from gateway.proxy.collected_response import CollectedResponse
from gateway.records.connection import ConnectionRef
from gateway.text import nearest

RETRY_LATER_STATUSES: Final = (429, 503)
MAYBE_TOOK_EFFECT: Final = "The request was sent and may have taken effect: find out before you call again."
REPEATED_PAGE: Final = "These are the items of the previous page again: this response has no further pages."
UNUSABLE_NEXT_PAGE: Final = (
    "More follows, but the provider's reference to the next page cannot be used. Request that page by 'query'."
)
NOTHING_FOUND: Final = "No tool matches. Use other English words, or an empty query to see the first tools."


class ToolRun:
    """Runs one ``tools/call``.

    `structured_json`: the result's ``structuredContent`` as JSON text; None if that text is not known.
    """

    def __init__(self, request: McpRequest, tools: KeyTools) -> None:
        self._request = request
        self._tools = tools
        self.structured_json: str | None = None

    async def result(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of the call; a failed call has a result too.

        Raises RpcError for invalid `params` or an unknown tool.
        """
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RpcError(rpc.INVALID_PARAMS, "params.name must be text, and params.arguments an object.")
        known_tools, is_large = self._tools.known_tools, self._request.outer.is_large
        tools = known_tools.tools
        by_call_tool = name in ARGUMENTS_ABOUT_TOOLS
        if by_call_tool:
            if (result := self._response_about_tools(name, arguments, tools)) is not None:
                self._request.count()
                return result
            name, arguments = arguments["name"], arguments["arguments"]
        try:
            tool = _tool_named(name, tools, by_call_tool=by_call_tool)
            if self._request.trace is not None and self._request.trace.mcp is not None:
                self._request.trace.mcp.tool = name
            call = await self._build_call_in_thread(tool, arguments) if is_large else self._build_call(tool, arguments)
            select = None if call.select is None else parse_expression(call.select)
            candidates: Mapping[str, str] | None = known_tools.candidates
            if call.connection is None and not candidates:
                candidates = await self._tools.candidates(call.integrations)
            connection = chosen_connection(call, candidates)
            if tool is not None and not self._has_correct_path(tool, call, self._ref(connection)):
                call = await self._correct_path(tool, call, arguments, connection)
            prepared = self._prepare(tool, name, call, connection, select)
            declined = RefusedCalls(self._request).declined_result(prepared.call)
        except (InvalidArguments, UnusableExpression) as fault:
            self._request.count()
            return failed_result(str(fault))
        if declined is not None:
            self._request.count()
            return declined
        return await self.run_call(prepared)

    def prepared_call(self, params: Mapping[str, Any]) -> "PreparedCall | None":
        """Return the call if it can be sent without waiting. The message must not be large.

        Return None, without any effect, if something must be awaited first, or if the call is unusual or has a fault.
        Then use `result`.
        """
        name, arguments, known_tools = params.get("name"), params.get("arguments", {}), self._tools.cached_tools()
        if known_tools is None or "requestState" in params:
            return None
        tool = known_tools.tools.get(name) if isinstance(name, str) else None
        if tool is None or not isinstance(arguments, dict):
            return None
        try:
            call = call_of_rule(tool, arguments)
            select = None if call.select is None else parse_expression(call.select)
            name_and_ref = known_tools.chosen_connections.get(tool.name) if call.connection is None else None
            if name_and_ref is None:
                if call.connection is None and not known_tools.candidates:
                    return None
                connection_name = chosen_connection(call, known_tools.candidates)
                name_and_ref = connection_name, self._ref(connection_name)
                if call.connection is None:
                    known_tools.chosen_connections[tool.name] = name_and_ref
            connection, ref = name_and_ref
            if not self._has_correct_path(tool, call, ref):
                return None
            return self._prepare(tool, tool.name, call, connection, select)
        except (InvalidArguments, UnusableExpression):
            return None

    def _prepare(
        self, tool: RuleTool | None, name: str, call: ToolCall, connection: str, select: Any
    ) -> "PreparedCall":
        """Return the prepared call. If the tool returns a list, the call requests the page that its cursor names.

        Raises InvalidArguments if the cursor is invalid.
        """
        if tool is None or not tool.is_paged:
            return PreparedCall(call, RepeatableCall(call.method, call.target, connection, name), select)
        call_digest = _call_digest(call, name, connection)
        page: NextPage | None = NextPage(call.target)
        if call.cursor is not None:
            page = open_cursor(call.cursor, self._request.seals, self._request.caller.key_id, call_digest)
        if page is None:
            raise InvalidArguments(
                "The cursor is not valid for this call, or has expired. Send it with the arguments of the first page; a "
                "cursor from inside the response belongs in 'query'."
            )
        repeatable = RepeatableCall(call.method, page.target, connection, name)
        return PreparedCall(replace(call, target=page.target), repeatable, select, _ListPosition(page, call_digest))

    def _response_about_tools(
        self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, RuleTool]
    ) -> dict[str, Any] | None:
        """Return the result of `find_tools`, `describe_tool` or an invalid `call_tool`.

        Return None for a valid `call_tool`: then the caller runs the tool that the arguments name.
        """
        if unknown_names := set(arguments) - set(valid_names := ARGUMENTS_ABOUT_TOOLS[name]):
            return failed_result(
                f"Unknown argument '{min(unknown_names)[:64]}'. Valid arguments: {', '.join(valid_names)}."
            )
        if name == "find_tools":
            query = arguments.get("query", "")
            if not isinstance(query, str) or len(query) > MAX_QUERY_CHARS:
                return failed_result(f"'query' must be text of at most {MAX_QUERY_CHARS} characters.")
            matches = matching_tools(list(tools.values()), query)
            lines = [f"{tool.name}: {tool.summary}" for tool in matches[:MAX_FOUND]] or [NOTHING_FOUND]
            if len(matches) > MAX_FOUND:
                lines.append(f"{MAX_FOUND} of {len(matches)} tools are shown. Search with more specific words.")
            return {"content": [text_block("\n".join(lines))], "isError": False}
        tool_name = arguments.get("name")
        if not isinstance(tool_name, str):
            return failed_result("'name' must be the name of a tool.")
        if name == "describe_tool":
            if tool_name not in tools and tool_name != "call_api":
                return failed_result(_unknown_tool(tool_name, tools, "Use find_tools to search this key's tools."))
            description = self._tools.describe(tools.get(tool_name))
            return {
                "content": [text_block(json.dumps(description))],
                "structuredContent": description,
                "isError": False,
            }
        tool_arguments = arguments.get("arguments", {})
        return (
            None
            if isinstance(tool_arguments, dict) and "arguments" in arguments
            else failed_result("'arguments' must be an object.")
        )

    def _ref(self, connection: str) -> ConnectionRef:
        integration, _, connection_id = connection.partition("/")
        return ConnectionRef(self._request.environment, integration, connection_id)

    def _has_correct_path(self, tool: RuleTool, call: ToolCall, ref: ConnectionRef) -> bool:
        """Return whether the call's path is correct for the connection.

        The path is correct if the connection has the base URL for which the tool was made.
        """
        if isinstance(tool.rule, OperationRule):
            return "${" not in call.target
        opened = self._request.runtime.live.peek(ref)
        return (
            opened is not None
            and ref.integration_id in tool.integrations
            and opened.shown_base_path.strip("/") == self._tools.known_tools.base_paths.get(ref.integration_id)
        )

    async def _correct_path(
        self, tool: RuleTool, call: ToolCall, arguments: Mapping[str, Any], connection: str
    ) -> ToolCall:
        """Return `call` with the correct path for the connection's actual base URL.

        The tool's own path can be wrong if the base URL depends on settings of the connection. Raises InvalidArguments.
        """
        ref, policy = self._ref(connection), self._request.policy
        if not policy.reaches(ref.integration_id, ref.connection_id):
            return call  # the middleware chain will refuse the call
        opened = self._request.runtime.live.peek(ref)
        is_operation = isinstance(tool.rule, OperationRule)
        if opened is None and (is_operation or self._tools.known_tools.base_paths.get(ref.integration_id) is None):
            try:
                opened = await self._request.runtime.live.open_connection(*ref)
            except GatewayError:
                return call  # the middleware chain will report the reason
        if opened is not None and not policy.allows_tags(opened.connection.tags):
            return call  # the middleware chain will refuse the call
        if is_operation:
            return (
                call if opened is None else replace(call, target=_with_settings(call.target, str(tool.path[0]), opened))
            )
        path = path_below_base(tool.rule, opened.shown_base_path.strip("/")) if opened is not None else tool.path
        if path is None or path == tool.path:
            return call
        stale_names = {argument.name for argument in tool.arguments}
        stale_names -= {part.name for part in path if not isinstance(part, str)}
        kept_arguments = {name: value for name, value in arguments.items() if name not in stale_names}
        corrected_tool = replace(tool, path=path)
        return (
            await self._build_call_in_thread(corrected_tool, kept_arguments)
            if self._request.outer.is_large
            else self._build_call(corrected_tool, kept_arguments)
        )

    async def _build_call_in_thread(self, tool: RuleTool | None, arguments: Mapping[str, Any]) -> ToolCall:
        """Build the call of a tool in a thread, because the arguments are large. Raises InvalidArguments.

        `tool`: None means `call_api`.
        """
        outer = self._request.outer
        return await off_loop(outer.caller.share, self._build_call, tool, arguments)

    def _build_call(self, tool: RuleTool | None, arguments: Mapping[str, Any]) -> ToolCall:
        try:
            return call_of_api(arguments) if tool is None else call_of_rule(tool, arguments)
        except UnknownArgument as fault:
            valid_names = ", ".join(sorted(self._tools.describe(tool)["inputSchema"]["properties"]))
            raise InvalidArguments(f"{fault} Valid arguments: {valid_names}.") from None

    async def run_call(self, prepared: "PreparedCall") -> dict[str, Any]:
        """Make the call and return its result."""
        call, memory = prepared.call, ResponseMemory(self._request.outer)
        try:
            response = await call_proxy(self._request, prepared.repeatable, call.body, call.content_type, memory)
            return await self._shape_response(prepared, response)
        except TimeoutError:
            return _lost_response(call.method, f"The response was not complete within {MAX_CALL_S:.0f} s.")
        except NoPageMemory:
            problem = "The gateway does not have enough memory for another large response now."
            return _lost_response(call.method, problem, "Call again in a few seconds.")
        finally:
            memory.release()

    def result_now(self, prepared: "PreparedCall", response: CollectedResponse) -> dict[str, Any] | None:
        """Return the result for the response to the call; None if shaping the response takes long."""
        if needs_thread(response.body, prepared.select):
            return None
        if (unusable := self._unusable_result(prepared, response)) is not None:
            return unusable
        return self._add_links(prepared, response, _shape(prepared, response, self._page_facts(prepared, response)))

    async def _shape_response(self, prepared: "PreparedCall", response: CollectedResponse) -> dict[str, Any]:
        if (unusable := self._unusable_result(prepared, response)) is not None:
            return unusable
        facts, share = self._page_facts(prepared, response), self._request.caller.share
        if needs_thread(response.body, prepared.select):
            shaped = await off_loop(share, _shape, prepared, response, facts)
        else:
            shaped = _shape(prepared, response, facts)
        return self._add_links(prepared, response, shaped)

    def _unusable_result(self, prepared: "PreparedCall", response: CollectedResponse) -> dict[str, Any] | None:
        """Return the result for an error of the gateway, or for an incomplete response, else None."""
        if response.by_gateway:
            return RefusedCalls(self._request).refused_result(response, prepared.call)
        if response.too_large:
            problem = f"The response has more than {MAX_RESPONSE_BYTES >> 20} MiB."
            fix = "Request less with 'query', or fetch it by HTTP from /proxy."
            return _lost_response(prepared.call.method, problem, fix)
        if not response.complete:
            problem = "The provider's response broke off, so none of it is shown."
            return _lost_response(prepared.call.method, problem)
        return None

    def _page_facts(self, prepared: "PreparedCall", response: CollectedResponse) -> tuple[Any, ...] | None:
        """Return the arguments of `find_list`; None if the response is no page of a list."""
        if (
            prepared.list_position is None
            or not 200 <= response.status < 300
            or (opened := self._open_connection(prepared.repeatable.connection)) is None
        ):
            return None
        fields = [(name, value) for name, value in response.headers().items()]
        return opened, prepared.repeatable.target, response.body, fields, self._request.gateway_base_url

    def _add_links(
        self,
        prepared: "PreparedCall",
        response: CollectedResponse,
        shape_result: tuple[ShapedResult, FoundList | None],
    ) -> dict[str, Any]:
        """Return the result with links to the whole response, to the next page, and to grant missing scopes."""
        shaped, found_list = shape_result
        self.structured_json = shaped.structured_json
        if response.status < 300 and found_list is None and not shaped.is_partial:  # the usual response
            return shaped.result
        call, media_type = prepared.repeatable, response.media_type
        if found_list is not None and prepared.list_position is not None:
            self._add_cursor(
                shaped, call, found_list, selected=prepared.select is not None, list_position=prepared.list_position
            )
        if response.status == 403 and (link := response.headers().get(CONNECT_URL_FIELD)) is not None:
            shaped.result["content"].append(text_block(f"The token lacks scopes. {OPEN_LINK} {link}"))
        if shaped.is_partial:
            uri = WholeResponses(self._request).keep_response(call, media_type, response.body)
            shaped.result["content"].append(
                link_block(uri, media_type or "application/octet-stream", len(response.body))
            )
        if response.status in RETRY_LATER_STATUSES and (retry_after := response.headers().get(hdrs.RETRY_AFTER)):
            shaped.result["content"].append(text_block(f"Retry-After: {retry_after[:64]}. Wait before you call again."))
        if 300 <= response.status < 400 and (location := response.headers().get(hdrs.LOCATION)):
            shaped.result["content"].append(
                text_block(f"Location: {self._below_base(location)}. Redirects are not followed.")
            )
        return shaped.result

    def _below_base(self, url: str) -> str:
        """Return a URL of the gateway as the path that a tool can send; return any other URL unchanged.

        The model must not see a capability URL, which is a secret.
        """
        path = url.removeprefix(self._request.gateway_base_url)
        return (path or "/") if path != url and path[:1] in ("", "/", "?", "#") else url

    def _open_connection(self, connection: str) -> OpenedConnection | None:
        return self._request.runtime.live.peek(self._ref(connection))

    def _add_cursor(
        self,
        shaped: ShapedResult,
        call: RepeatableCall,
        found_list: FoundList,
        *,
        selected: bool,
        list_position: "_ListPosition",
    ) -> None:
        """Add a cursor to the result: for the items of this page that are not shown yet, or else for the next page.

        `selected`: whether the result was selected by an expression, so that its number of items is unknown.
        """
        if found_list.digest is not None and found_list.digest == list_position.page.previous:
            shaped.result["content"].append(text_block(REPEATED_PAGE))
            return
        next_page = None if found_list.target is None else NextPage(found_list.target, previous=found_list.digest)
        if shaped.is_partial:
            shown_list = shaped.result.get("structuredContent")
            items = None if selected or shaped.only_names else items_at(shown_list, found_list.path)
            shown = list_position.page.skip + len(items or ())
            if items is None or shown < found_list.length:  # otherwise another list was cut, and this one is complete
                next_page = NextPage(call.target, shown, list_position.page.previous) if items else None
        if next_page is not None:
            cursor = seal_cursor(next_page, self._request.seals, self._request.caller.key_id, list_position.call_digest)
            shaped.result["content"].append(
                text_block(f"More follows: call again with the same arguments and cursor: {cursor}")
            )
        elif found_list.is_next_unusable:
            shaped.result["content"].append(text_block(UNUSABLE_NEXT_PAGE))


@dataclass(slots=True)
class _ListPosition:
    """The position in a list, for a tool that returns a list.

    `page`: the page to fetch. `call_digest`: the digest of the call to which the cursors belong.
    """

    page: NextPage
    call_digest: str


@dataclass(slots=True)
class PreparedCall:
    """A call that is ready to be sent.

    `select`: the expression to apply to the response; None applies no expression. `list_position`: the position in a list; None
    if the tool returns no list.
    """

    call: ToolCall
    repeatable: RepeatableCall
    select: Any
    list_position: _ListPosition | None = None


def _shape(
    prepared: PreparedCall, response: CollectedResponse, page_facts: tuple[Any, ...] | None
) -> tuple[ShapedResult, FoundList | None]:
    """Return the provider's response in the form of a result, and the list in it. No I/O.

    `page_facts`: the result of `ToolRun._page_facts`.
    """
    body, list_position, found_list = response.body, prepared.list_position, None
    if page_facts is not None:
        found_list = find_list(*page_facts)
    if found_list is not None and list_position is not None and list_position.page.skip:
        body = without_shown_items(body, found_list.path, list_position.page.skip)
    reason = _reason(response.status) if response.status >= 400 or not response.body else ""  # otherwise unused
    max_bytes = prepared.call.max_bytes
    return provider_result(response.status, reason, response.media_type, body, prepared.select, max_bytes), found_list


def _lost_response(method: str, problem: str, fix: str = "") -> dict[str, Any]:
    """Return the result for a call that was sent, but whose response cannot be shown.

    `fix`: what to do if the method is safe. Otherwise, a second call could take effect twice.
    """
    return failed_result(f"{problem} {fix if method in SAFE_METHODS else MAYBE_TOOK_EFFECT}".rstrip())


def _tool_named(name: str, tools: Mapping[str, RuleTool], *, by_call_tool: bool) -> RuleTool | None:
    """Return the tool with this name; None for `call_api`.

    An unknown name raises InvalidArguments if it is an argument of `call_tool`, else RpcError.
    """
    tool = tools.get(name)
    if tool is None and name != "call_api":
        if by_call_tool:
            raise InvalidArguments(_unknown_tool(name, tools, "Use find_tools to search this key's tools."))
        raise RpcError(rpc.INVALID_PARAMS, _unknown_tool(name, tools, "tools/list returns this key's tools."))
    return tool


def _unknown_tool(name: str, tools: Mapping[str, RuleTool], fallback: str) -> str:
    """Return the message for an unknown tool. `fallback`: what to do if no tool has a similar name."""
    nearest_name = nearest(name[:64], tools)
    fix = fallback if nearest_name is None else f"Did you mean '{nearest_name}'?"
    return f"Unknown tool '{name[:64]}'. {fix}"


def _call_digest(call: ToolCall, tool: str, connection: str) -> str:
    return sha256(json.dumps([tool, call.method, call.target, connection]).encode()).hexdigest()[:32]


def _with_settings(target: str, target_start: str, opened: OpenedConnection) -> str:
    """Return `target` with the connection's settings filled into its beginning.

    `target_start`: the beginning of `target`, with placeholders for settings. Raises InvalidArguments if a setting is
    missing or invalid.
    """
    base = "https://connection"
    try:
        url = render_url(base + target_start, opened.connection.config, opened.provider.connection_config)
    except (Unresolved, BadValue) as fault:
        raise InvalidArguments(f"The connection lacks the setting {fault}. Ask the user to connect again.") from None
    return url.removeprefix(base) + target.removeprefix(target_start)


def _reason(status: int) -> str:
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
