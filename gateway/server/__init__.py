"""Bytes in and out: the client protocol, the fast path, the runner, and the worker around them.

    strict_framing.py    Strict framing: a watch on chunked bodies, and the parser's complaints in our words.
    client_protocol.py   One client connection: strict heads in, refusals in our shape out, and an orderly end.
    fast_path.py         The fast path: plain proxied requests without a task, a request object or a middleware
                         call.
    fast_exchange.py     One plain request on the fast path: what was decided, its bytes on their way, its answer's
                         head, its record.
    runner.py            A runner in aiohttp's manner, with exact bytes, strict framing, limits and a drain that
                         lets streams finish.
    serving_worker.py    A worker of `gateway serve`: from the sockets that its parent gave it to its last answer.
    startup_warnings.py  What a gateway that starts says once to its operator: nothing of it forbids to serve, all
                         of it should be changed.

Always true: the fast path answers as the chain does, byte by byte; what a worker loads is decided in `worker`.
"""

from gateway.server.runner import GatewayRunner, runner

__all__ = ["GatewayRunner", "runner"]
