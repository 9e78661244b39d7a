"""Turns errors of the gateway into tool results, and asks the user to connect a missing connection."""

import json
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

from gateway import clock
from gateway.mcp import mcp_messages as rpc
from gateway.mcp.mcp_messages import RpcError
from gateway.mcp.mcp_request import McpRequest
from gateway.mcp.rule_tools import SAFE_METHODS
from gateway.mcp.tool_calls import ToolCall
from gateway.mcp.tool_results import error_result, failed_result, text_block
from gateway.middleware.response_shape import ERROR_HEADER
from gateway.proxy.collected_response import CollectedResponse
from gateway.vault import VaultError

STATE_S: Final = 900.0  # time that a person has to connect
MAYBE_SENT: Final = frozenset({"upstream_protocol", "upstream_timeout", "upstream_unreachable"})
"""Codes of errors that can occur before or after the provider has received the request."""
UNCERTAIN: Final = "If the provider has received the request, it may have taken effect: find out before you call again."


class RefusedCalls:
    """Builds the results of refused calls for one JSON-RPC request."""

    def __init__(self, request: McpRequest) -> None:
        self._request = request

    def refused_result(self, response: CollectedResponse, call: ToolCall) -> dict[str, Any]:
        """Return the tool result for `response`, which is an error of the gateway.

        If the user must connect and the client can open URLs, the result asks the client to open the connect link.
        """
        try:
            error = json.loads(response.body)["error"]
        except (ValueError, KeyError, TypeError):
            error = {"code": response.headers()[ERROR_HEADER], "message": "The gateway refused this call."}
        url = (error.get("payload") or {}).get("connect_url")
        if url and self._client_opens_urls and self._request.message.params.get("requestState") is None:
            elicitation_params = {
                "mode": "url",
                "message": f"Connect {call.connection or 'the account'} to continue.",
                "url": url,
            }
            return {
                "resultType": "input_required",
                "inputRequests": {"connect": {"method": "elicitation/create", "params": elicitation_params}},
                "requestState": self._state(call),
            }
        result = error_result(error, response.status)
        if error.get("code") in MAYBE_SENT and call.method not in SAFE_METHODS:
            result["content"].append(text_block(UNCERTAIN))
        return result

    @property
    def _client_opens_urls(self) -> bool:
        elicitation = self._request.message.capabilities.get("elicitation")
        return isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict)

    def declined_result(self, call: ToolCall) -> dict[str, Any] | None:
        """Return a failed result if the user declined to connect, else None. Raises RpcError for an invalid state."""
        state = self._request.message.params.get("requestState")
        if state is None:
            return None
        if not isinstance(state, str) or not self._is_own_state(state, call):
            raise RpcError(
                rpc.INVALID_PARAMS,
                "requestState is not valid for this call, or has expired. Send the call again without it.",
            )
        responses = self._request.message.params.get("inputResponses")
        reply = responses.get("connect") if isinstance(responses, dict) else None
        action = reply.get("action") if isinstance(reply, dict) else None
        if action in ("decline", "cancel"):
            return failed_result("The user did not connect the account. Ask them before you call again.")
        return None

    def _state(self, call: ToolCall) -> str:
        """Return the state that the client sends back with its retry, sealed for this key and this call.

        The state gives no rights, because a retry is checked like any call.
        """
        ends_at = (clock.now() + timedelta(seconds=STATE_S)).timestamp()
        return self._request.seals.seal(json.dumps([self._request.caller.key_id, _digest(call), ends_at]))

    def _is_own_state(self, state: str, call: ToolCall) -> bool:
        try:
            key_id, digest, ends_at = json.loads(self._request.seals.open(state))
        except (VaultError, ValueError, TypeError):
            return False
        return bool(
            key_id == self._request.caller.key_id and digest == _digest(call) and clock.now().timestamp() < ends_at
        )


def _digest(call: ToolCall) -> str:
    parts: Sequence[object] = (call.method, call.target, (call.body or b"").decode(), call.connection)
    return sha256(json.dumps(parts).encode()).hexdigest()
