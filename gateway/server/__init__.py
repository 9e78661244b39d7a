"""The HTTP server: the client protocol, the fast path, the runner, and the worker process around them.

    client_protocol      one client connection: checks heads strictly, sends errors in our format, closes in order
    strict_framing       watches chunked bodies, turns parser errors into ours, finds the end of a fast path body
    fast_path            ordinary proxied requests without a task, a request object or a middleware call (ADR 44)
    known_heads          remembers their header lines without the values that differ from call to call
    request_lines        reads the lines of new heads one by one, by name
    fast_plan            the decisions about such a request before it is sent, and its call record
    fast_response_head   composes the head of the response to the caller
    fast_exchange        sends the request's bytes to the provider, and the response's bytes to the caller
    fast_message         handles a message to the agent door (/mcp)
    in_process_exchange  a fast path request that the agent door makes; its response is collected
    response_decoding    decodes a response's body piece by piece
    runner               replaces aiohttp's runner: exact bytes, limits, a drain that lets streams finish
    serving_worker       a worker process of `gateway serve`, from start to drain
    startup_warnings     warnings that are logged once at start-up

Always true: the fast path sends the same responses as the chain, because both call the same decision functions. One
case of malformed traffic differs (end of ADR 44). tests/wire sends each case through both.
"""

from gateway.server.runner import GatewayRunner, runner

__all__ = ["GatewayRunner", "runner"]
