"""Returns whole responses, to which resource links in tool results point. This worker kept them, or fetches them again."""

import base64
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from weakref import WeakKeyDictionary

from aiohttp import web

from gateway import clock
from gateway.egress.page_memory import NoPageMemory
from gateway.errors import NotFound
from gateway.mcp import mcp_messages as rpc
from gateway.mcp.kept_responses import KEPT_S, KeptResponses
from gateway.mcp.mcp_messages import RpcError
from gateway.mcp.mcp_request import McpRequest
from gateway.mcp.tool_provider_call import RepeatableCall, ResponseMemory, call_proxy
from gateway.records.connection import ConnectionRef
from gateway.vault import VaultError

SCHEME: Final = "gateway://answers/"
NOT_FOUND_2025: Final = -32002

_kept_by_app: Final[WeakKeyDictionary[web.Application, KeptResponses]] = WeakKeyDictionary()


class WholeResponses:
    """Keeps and returns whole responses for one JSON-RPC request."""

    def __init__(self, request: McpRequest) -> None:
        self._request = request

    def keep_response(self, call: RepeatableCall, media_type: str, body: bytes) -> str:
        """Keep the whole response for `KEPT_S` seconds, and return its URI.

        For a GET, the URI also contains the data to send the request again. So another worker can fetch the response
        again.
        """
        response_id = _responses(self._request.outer.app).keep(
            self._request.caller.share, call.connection, media_type, body
        )
        ends_at = (clock.now() + timedelta(seconds=KEPT_S)).timestamp()
        repeat_arguments = [call.target, call.connection] if call.method == "GET" else None
        return SCHEME + self._request.seals.seal(
            json.dumps([response_id, self._request.caller.key_id, ends_at, repeat_arguments])
        )

    async def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of ``resources/read``. Raises RpcError, TooManyRequests.

        Counts a read from memory against the key's rate. If the response is fetched again, ``/proxy`` counts the call.
        """
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(rpc.INVALID_PARAMS, "params.uri must be text.")
        try:
            response_id, key_id, ends_at, repeat_arguments = json.loads(
                self._request.seals.open(uri.removeprefix(SCHEME))
            )
        except (VaultError, ValueError, TypeError):
            raise self._unknown_resource_error(uri) from None
        if not uri.startswith(SCHEME) or key_id != self._request.caller.key_id or ends_at <= clock.now().timestamp():
            raise self._unknown_resource_error(uri)
        response = _responses(self._request.outer.app).get(self._request.caller.share, response_id or "")
        if response is not None:
            if not await self._still_reaches(response.connection):
                raise self._unknown_resource_error(uri)
            self._request.count()
            return {"contents": [contents(uri, response.media_type, response.body)]}
        if repeat_arguments is None:
            raise self._unknown_resource_error(uri)
        return await self._fetch_again(uri, RepeatableCall("GET", *repeat_arguments))

    async def _still_reaches(self, connection: str) -> bool:
        """Return whether the connection still exists and the key may use it: its tags can change after the call."""
        integration, _, connection_id = connection.partition("/")
        try:
            row = await self._request.runtime.live.read_row(
                ConnectionRef(self._request.environment, integration, connection_id)
            )
        except NotFound:
            return False
        return self._request.policy.allows_tags(row.tags)

    async def _fetch_again(self, uri: str, call: RepeatableCall) -> dict[str, Any]:
        memory = ResponseMemory(self._request.outer)
        try:
            response = await call_proxy(self._request, call, None, None, memory)
        except (TimeoutError, NoPageMemory):
            raise RpcError(
                rpc.INTERNAL_ERROR, "The whole response could not be fetched again. Call the tool again."
            ) from None
        finally:
            memory.release()
        if response.by_gateway or not response.complete or response.status >= 300:
            raise RpcError(rpc.INTERNAL_ERROR, "The whole response could not be fetched again. Call the tool again.")
        return {"contents": [contents(uri, response.media_type, response.body)]}

    def _unknown_resource_error(self, uri: str) -> RpcError:
        code = rpc.INVALID_PARAMS if self._request.message.modern else NOT_FOUND_2025
        return RpcError(
            code, "This key has no such resource, or it has expired. Call the tool again.", {"uri": uri[:2048]}
        )


def contents(uri: str, media_type: str, body: bytes) -> dict[str, Any]:
    """Return a resource's content: as text if `body` is valid UTF-8, else in base64."""
    resource = {"uri": uri, "mimeType": media_type or "application/octet-stream"}
    try:
        return {**resource, "text": body.decode()}
    except UnicodeDecodeError:
        return {**resource, "blob": base64.b64encode(body).decode("ascii")}


def _responses(app: web.Application) -> KeptResponses:
    if app not in _kept_by_app:
        _kept_by_app[app] = KeptResponses()
    return _kept_by_app[app]
