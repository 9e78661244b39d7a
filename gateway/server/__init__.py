"""The HTTP server: the client protocol, the fast path, the runner, and the worker process around them.

    client_protocol      handles one client connection: checks heads, sends the gateway's errors, closes cleanly
    early_refusals       makes the responses to errors that the middleware chain does not see
    strict_framing       watches chunked bodies, translates parser errors, finds the end of a fast path body
    fast_path            handles proxied requests without a task, a request object or a middleware call (ADR 44)
    known_heads          remembers the header lines of requests, without the values that differ from call to call
    request_lines        reads the lines of new heads one by one, by name
    fast_plan            holds the decisions about a fast path request, and records the finished request
    fast_response_head   composes the head of the response to the caller
    fast_exchange        sends the request's bytes to the provider, and the response's bytes to the caller
    fast_message         handles a message to the MCP endpoint (/mcp)
    in_process_exchange  makes a fast path request for the MCP endpoint, and collects the response
    response_decoding    decodes a response's body piece by piece
    runner               replaces aiohttp's runner: exact bytes, limits, a drain that lets streams finish
    serving_worker       runs a worker process of `gateway serve`, from start to drain
    startup_warnings     logs warnings once at start-up

Always true: the fast path sends the same responses as the middleware chain, because both call the same functions for
decisions. In one case of malformed traffic, the responses differ (end of ADR 44). tests/wire sends each case through
both.
"""

from gateway.server.runner import GatewayRunner, runner

__all__ = ["GatewayRunner", "runner"]
