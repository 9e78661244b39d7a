"""The WebSocket that reports the outcome to the browser that opened a connect window.

The gateway sends an id to the browser, and the browser adds this id to the URL of the connect window. When an attempt
to connect ends, the gateway sends one message with the outcome. Messages from the browser are ignored.
"""

import asyncio
import contextlib
from typing import Any, Final

from aiohttp import WSMsgType, hdrs, web

from gateway.access.client_window import client_network
from gateway.authorization.outcomes import Outcomes, client_digest
from gateway.errors import Unavailable
from gateway.records.connecting import Outcome
from gateway.runtime import RUNTIME, generation_of

# ── A route that matches only WebSocket requests. Other handlers can serve all other requests to the same path, for
# example with a page of the host application.


class WebsocketResource(web.PlainResource):
    """A resource that matches only requests with ``Upgrade: websocket`` (RFC 6455 §4.1)."""

    async def resolve(self, request: web.Request) -> "tuple[web.UrlMappingMatchInfo | None, set[str]]":
        if request.headers.get(hdrs.UPGRADE, "").strip().lower() != "websocket":
            return None, set()
        return await super().resolve(request)

    def raw_match(self, _path: str) -> bool:
        """Never match, so that a route added later for the same path gets its own resource."""
        return False


HEARTBEAT_S: Final = 25.0
MAX_OPEN_S: Final = 3600.0  # no authorization takes this long: the end user has abandoned the window
CLOSE_TIMEOUT_S: Final = 2.0
MAX_MESSAGE_BYTES: Final = 4096


async def serve_connect_socket(request: web.Request) -> web.StreamResponse:
    """Send ``connection_ack`` with `ws_client_id`, then ``success`` or ``error``. Then the client closes the WebSocket.
    Raises Unavailable or TooManyRequests if too many WebSockets are open."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    outcomes, limits = runtime.outcomes, generation.config.connect
    if outcomes.is_full(limits.result_sockets):
        raise Unavailable("busy", "Too many windows wait for a result here. Try again in 5 s.", retry_after_s=5)
    with outcomes.count_socket(client_network(request.remote), limits.result_sockets_per_address):
        return await _send_outcomes(request, outcomes)


async def _send_outcomes(request: web.Request, outcomes: Outcomes) -> web.StreamResponse:
    response = web.WebSocketResponse(
        timeout=CLOSE_TIMEOUT_S, heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES, compress=False
    )
    client = outcomes.new_client()
    with outcomes.waiter(client_digest(client) or "") as waiting_window:
        await response.prepare(request)
        await response.send_json({"message_type": "connection_ack", "ws_client_id": client})
        close_task = asyncio.create_task(_wait_until_closed(response))
        awaited_futures: set[asyncio.Future[Any]] = {waiting_window.outcome, close_task}
        try:
            await asyncio.wait(awaited_futures, timeout=MAX_OPEN_S, return_when=asyncio.FIRST_COMPLETED)
            outcome = waiting_window.outcome.result() if waiting_window.outcome.done() else None
            if outcome is not None and not response.closed:
                with contextlib.suppress(ConnectionError):
                    await response.send_json(outcome_message(outcome))
                await asyncio.wait({close_task}, timeout=HEARTBEAT_S)
        finally:
            close_task.cancel()
            await asyncio.gather(close_task, return_exceptions=True)
    await response.close()
    return response


def outcome_message(outcome: Outcome) -> dict[str, Any]:
    """Return the message that reports `outcome`, in the format that Nango's published clients read."""
    if outcome.succeeded:
        return {
            "message_type": "success",
            "provider_config_key": outcome.integration_id,
            "connection_id": outcome.connection_id,
            "is_pending": outcome.is_pending,
        }
    body = {
        "message_type": "error",
        "provider_config_key": outcome.integration_id,
        "error_type": outcome.error_type,
        "error_desc": outcome.error_desc,
    }
    return body if outcome.connection_id is None else {**body, "connection_id": outcome.connection_id}


async def _wait_until_closed(response: web.WebSocketResponse) -> None:
    async for message in response:
        if message.type is WSMsgType.ERROR:
            return
