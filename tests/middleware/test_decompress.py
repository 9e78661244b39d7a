"""Whether an answer's codings are to be undone: the caller's word, else the entry's."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.http.proxy_options import ProxyOptions
from gateway.middleware.facts import ASKED, CONNECTION, DECODER
from gateway.middleware.wanted_answer import decompress
from tests.fakes.proxy_end import opened_at


@pytest.mark.parametrize(
    ("header", "entry", "decoded"),
    [
        (None, None, False),
        (None, False, False),
        (None, True, True),
        (True, None, True),
        (True, False, True),
        (False, True, False),
    ],
)
async def test_the_header_wins_over_the_entry(header: bool | None, entry: bool | None, decoded: bool) -> None:
    request = make_mocked_request("GET", "/proxy/x")
    request[CONNECTION] = opened_at(8000, decompress=entry)
    request[ASKED] = ProxyOptions("tracker", "u1", decompress=header)

    async def end(request: web.Request) -> web.StreamResponse:
        return web.Response(status=201 if DECODER in request else 200)

    assert (await decompress(request, end)).status == (201 if decoded else 200)
