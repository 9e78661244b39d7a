"""Published MCP clients with the MCP endpoint: ``agent_calls.py CLIENT URL KEY [--raised]``, run by an interpreter that
has them.

Prints one JSON object: the names of the tools, the links that the client was given, and the results of three calls; with
``--raised``, the text of an exception that the client raises.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search_issues", {"query": {"q": "x"}}),
    ("call_api", {"method": "DELETE", "path": "/issue/1"}),
    ("get_me", {}),
]
Found = dict[str, Any]


async def call_with_mcp(url: str, key: str, mode: str) -> Found:
    import httpx2
    import mcp_types as types
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async def open_url(_context: Any, params: Any) -> Any:
        requests.append(params.url)
        return types.ElicitResult(action="decline")

    requests: list[str] = []
    async with httpx2.AsyncClient(headers=bearer(key), timeout=30) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=open_url) as client:
            tools = (await client.list_tools()).tools
            results = [result_dict(await call_or_error(client.call_tool, *call)) for call in CALLS]
    return {"tools": [tool.name for tool in tools], "asked": requests, "results": results}


async def call_with_fastmcp(url: str, key: str, _mode: str) -> Found:
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    async with Client(StreamableHttpTransport(url, headers=bearer(key))) as client:
        tools = await client.list_tools()
        results = [result_dict(await client.call_tool(*call, raise_on_error=False)) for call in CALLS]
    return {"tools": [tool.name for tool in tools], "asked": [], "results": results}


async def call_with_openai_agents(url: str, key: str, _mode: str) -> Found:
    from agents.mcp import MCPServerStreamableHttp

    async with MCPServerStreamableHttp(params={"url": url, "headers": bearer(key)}) as server:
        tools = await server.list_tools()
        results = [result_dict(await server.call_tool(*call)) for call in CALLS]
    return {"tools": [tool.name for tool in tools], "asked": [], "results": results}


async def call_with_langchain(url: str, key: str, _mode: str) -> Found:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    server = {"transport": "streamable_http", "url": url, "headers": bearer(key)}
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"gateway": server}).get_tools()}
    results = []
    for name, arguments in CALLS:
        if name not in tools:  # call_api is not listed for a key with rules, and this client calls only listed tools
            results.append({"error": True, "text": "Rule: rules (not listed)", "structured": None})
            continue
        message = await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
        results.append({"error": message.status == "error", "text": as_text(message.content), "structured": None})
    return {"tools": list(tools), "asked": [], "results": results}


async def call_with_pydantic_ai(url: str, key: str, _mode: str) -> Found:
    from pydantic_ai.exceptions import ModelRetry, ToolFailed
    from pydantic_ai.mcp import MCPToolset

    async with MCPToolset(url, headers=bearer(key)) as toolset:
        tools = await toolset.list_tools()
        results = []
        for name, arguments in CALLS:
            try:
                found = await toolset.direct_call_tool(name, arguments)
                results.append({"error": False, "text": json.dumps(found, default=str), "structured": found})
            except (ModelRetry, ToolFailed) as fault:
                results.append({"error": True, "text": str(fault), "structured": None})
    return {"tools": [tool.name for tool in tools], "asked": [], "results": results}


async def call_or_error(call: Callable[..., Awaitable[Any]], name: str, arguments: dict[str, Any]) -> Any:
    """Return the result, or the protocol error."""
    try:
        return await call(name, arguments)
    except Exception as fault:  # noqa: BLE001 - each client has a class of its own
        return fault


def result_dict(result: Any) -> dict[str, Any]:
    if isinstance(result, Exception):
        error = getattr(result, "error", None)
        return {"error": True, "text": f"{result} {getattr(error, 'data', '')}", "structured": None}
    failed = result.is_error if hasattr(result, "is_error") else result.isError
    structured = result.structured_content if hasattr(result, "structured_content") else result.structuredContent
    text = "\n".join(block.text for block in result.content if block.type == "text")
    return {"error": bool(failed), "text": text, "structured": structured}


def as_text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, default=str)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def text_in(fault: BaseException) -> str:
    """Return the exception's text, with those of the exceptions in a group."""
    return " ".join([str(fault), *map(text_in, getattr(fault, "exceptions", ()))])


BY = {
    "fastmcp": call_with_fastmcp,
    "openai-agents": call_with_openai_agents,
    "langchain-mcp-adapters": call_with_langchain,
    "pydantic-ai-slim": call_with_pydantic_ai,
}

if __name__ == "__main__":
    client, url, key, *more = sys.argv[1:]
    try:
        found = asyncio.run(BY.get(client, call_with_mcp)(url, key, client))
    except Exception as fault:
        if "--raised" not in more:
            raise
        found = {"raised": text_in(fault)}
    print(json.dumps(found))
