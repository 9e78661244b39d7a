"""A token endpoint with scripted responses, by aioresponses.

Use the fixture `token_endpoint` (``from tests.fakes.idp import token_endpoint``) to test the exchange but not its
bytes. Where framing matters, run a real server.
"""

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock, patch

import pytest
from aiohttp import ClientResponse
from aioresponses import aioresponses


class ScriptedResponse(ClientResponse):
    """A response with `stream_writer`, which `ClientResponse` requires since aiohttp 3.14.

    aioresponses 0.7.9 does not pass `stream_writer` (aioresponses issue 289).
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("stream_writer", Mock(output_size=0))
        super().__init__(*args, **options)


@pytest.fixture
def token_endpoint() -> Iterator[aioresponses]:
    """Yield aioresponses: ``token_endpoint.post(url, payload={...})`` scripts a response. Requests to this machine are
    really sent.
    """
    with (
        patch("aioresponses.core.ClientResponse", ScriptedResponse),
        aioresponses(passthrough=["http://127.0.0.1", "http://localhost"]) as scripted,
    ):
        yield scripted
