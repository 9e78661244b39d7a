"""Bytes in and out: the client protocol, the fast path, the runner, and the worker around them.

Read in this order:

    client_protocol      one client connection: strict heads in, refusals in our shape out, an orderly end
    strict_framing       watches chunked bodies, and words the parser's complaints; where a fast request's body ends
    fast_path            ordinary proxied requests without a task, a request object or a middleware call (ADR 44)
    request_lines        what the lines of their heads say, each by its name
    fast_plan            what was decided about such a request before it left, and its record
    fast_answer_head     the head of its answer
    fast_exchange        its bytes on their way, and those of its answer
    fast_message         a message to the agent door
    in_process_exchange  such a request of the agent door's, whose answer is collected
    answer_decoding      an answer decoded as it comes
    runner               a runner in aiohttp's manner: exact bytes, limits, a drain that lets streams finish
    serving_worker       a worker of `gateway serve`, from its parent's sockets to its last answer
    startup_warnings     what a start logs once for its operator

Always true: the fast path answers as the chain does, since both call the same decisions, but for two cases of malformed
traffic (ADR 44, at its end); tests/wire sends each case through both.
"""

from gateway.server.runner import GatewayRunner, runner

__all__ = ["GatewayRunner", "runner"]
