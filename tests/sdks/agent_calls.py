"""Published MCP clients against the agent door. Run by an interpreter that has them: ``agent_calls.py CLIENT URL KEY``.

Prints one JSON object: the names of the tools, and what three calls came to.
"""

import asyncio
import json
import sys
from typing import Any

CALLS = [
    ("search_issues", {"query": {"q": "x"}}),
    ("call_api", {"method": "DELETE", "path": "/issue/1"}),
    ("get_me", {}),
]


async def by_mcp(url: str, key: str, mode: str) -> dict[str, Any]:
    import httpx2
    import mcp_types as types
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async def opened(_context: Any, params: Any) -> Any:
        asked.append(params.url)
        return types.ElicitResult(action="decline")

    asked: list[str] = []
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=opened) as client:
            tools = (await client.list_tools()).tools
            results = [await client.call_tool(name, arguments) for name, arguments in CALLS]
    return {"tools": [tool.name for tool in tools], "asked": asked, "results": [shown(one) for one in results]}


async def by_fastmcp(url: str, key: str, _mode: str) -> dict[str, Any]:
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {key}"})
    async with Client(transport) as client:
        tools = await client.list_tools()
        results = [await client.call_tool(name, arguments, raise_on_error=False) for name, arguments in CALLS]
    return {"tools": [tool.name for tool in tools], "asked": [], "results": [shown(one) for one in results]}


def shown(result: Any) -> dict[str, Any]:
    return {
        "error": result.is_error,
        "text": "\n".join(block.text for block in result.content if block.type == "text"),
        "structured": result.structured_content,
    }


if __name__ == "__main__":
    client, url, key = sys.argv[1:]
    call = by_fastmcp if client == "fastmcp" else by_mcp
    print(json.dumps(asyncio.run(call(url, key, client))))
