"""The Python client of the gateway. It imports nothing else of the gateway.

`AsyncClient` is for asyncio, `Client` for other programs; docs/client.md is their manual. Read in this order:

    calls              builds URL, header fields and body of a request from a call's arguments. No I/O
    client_response    a provider's response: read as a whole, or streamed
    client_errors      the exceptions, by their cause; checks base URL and secret key
    listed_pages       reads a list through ``Gateway-Paginate``, and continues the list after an interruption
    returned_results   verifies the result with which an end user returns from the connect page; PKCE for sessions
    async_client       the client for asyncio
    blocking_client    the same client without asyncio, run in a thread

Always true: the names in `__all__` are public, and the modules can change in any release. The client needs aiohttp, but
no module of the server.
"""

from gateway.client.async_client import AsyncClient
from gateway.client.blocking_client import Client, Pages, Stream
from gateway.client.client_errors import CallFailed, CutShort, GatewayError, PagingBroken, ProviderError, Unreachable
from gateway.client.client_response import AsyncStream, Response
from gateway.client.listed_pages import AsyncPages
from gateway.client.returned_results import (
    ConnectResult,
    InvalidReturn,
    code_challenge,
    new_code_verifier,
    verify_return,
)

Answer = Response
"""The former name of `Response`; the same class."""

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncPages",
    "AsyncStream",
    "CallFailed",
    "Client",
    "ConnectResult",
    "CutShort",
    "GatewayError",
    "InvalidReturn",
    "Pages",
    "PagingBroken",
    "ProviderError",
    "Response",
    "Stream",
    "Unreachable",
    "code_challenge",
    "new_code_verifier",
    "verify_return",
]
