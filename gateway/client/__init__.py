"""The Python client of the gateway. It imports nothing else of ours.

    calls.py             From what a program says to the address, the header fields and the body that are sent. No
                         I/O.
    client_answer.py     A provider's answer: whole, or on its way.
    returned_results.py  An application when its end user comes back from the connect page: it verifies the result
                         and completes what is pending.
    client_errors.py     What can go wrong in a call, by who is to blame; the way to the gateway.
    listed_pages.py      A list through ``Gateway-Paginate``, gone on with by itself where it breaks off.
    async_client.py      The client for programs that run on asyncio, and all that the blocking one is made of.
    blocking_client.py   The client for programs without asyncio: the same one, run by a thread of its own.

Always true: `gateway.client` itself is the public name; the files behind it may change.
"""

from gateway.client.async_client import AsyncClient
from gateway.client.blocking_client import Client, Pages, Stream
from gateway.client.client_answer import Answer, AsyncStream
from gateway.client.client_errors import CallFailed, CutShort, GatewayError, PagingBroken, ProviderError, Unreachable
from gateway.client.listed_pages import AsyncPages
from gateway.client.returned_results import (
    ConnectResult,
    InvalidReturn,
    code_challenge,
    new_code_verifier,
    verify_return,
)

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
    "Stream",
    "Unreachable",
    "code_challenge",
    "new_code_verifier",
    "verify_return",
]
