"""A token endpoint with scripted responses: aioresponses, with the argument that `ClientResponse` needs since aiohttp
3.14.

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
    """aioresponses 0.7.9 does not pass `stream_writer`, which no longer has a default (aioresponses issue 289)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("stream_writer", Mock(output_size=0))
        super().__init__(*args, **options)


@pytest.fixture
def token_endpoint() -> Iterator[aioresponses]:
    """``token_endpoint.post(url, payload={...})`` scripts a response. Requests to this machine are really sent."""
    with (
        patch("aioresponses.core.ClientResponse", ScriptedResponse),
        aioresponses(passthrough=["http://127.0.0.1", "http://localhost"]) as scripted,
    ):
        yield scripted
