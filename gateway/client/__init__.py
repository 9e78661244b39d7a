"""The Python client of the gateway: providers' APIs through it, whole lists, and connections. It imports nothing else of ours.

    async with AsyncClient("http://127.0.0.1:3003", secret_key, provider_config_key="jira", connection_id="u1") as client:
        answer = await client.get("/rest/api/3/search", params={"maxResults": 50})
        async for issue in client.paginate("/rest/api/3/search"):
            ...

`Client` is the same without ``async``. What the gateway refuses is raised as GatewayError; what a provider answers is the
answer, whatever its status.
"""

from gateway.client.aio import AsyncClient
from gateway.client.answer import Answer, AsyncStream
from gateway.client.blocking import Client, Pages, Stream
from gateway.client.errors import (
    CallFailed,
    CutShort,
    GatewayError,
    PagingBroken,
    ProviderError,
    Unreachable,
)
from gateway.client.pages import AsyncPages
from gateway.client.returning import ConnectResult, InvalidReturn, code_challenge, new_code_verifier, verify_return

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
