"""No more connections of clients than `server.limits.connections`: one more is told so and closed."""

import asyncio
from contextlib import AsyncExitStack

from gateway.server.protocol import SPEAKING_TO
from tests.fakes.raw import dial
from tests.gateway.server.conftest import Shown, served

MOST = 3
ASKED = b"GET /x HTTP/1.1\r\nHost: gw\r\n\r\n"


async def test_one_connection_too_many_is_refused_and_the_others_serve_on(shown: Shown) -> None:
    server = await served(shown, connections=MOST)
    async with AsyncExitStack() as around:
        around.push_async_callback(server.runner.cleanup)
        clients = [await around.enter_async_context(dial(server.port)) for _ in range(MOST)]
        for client in clients:
            client.send(ASKED)
            assert (await client.answer()).status == 200
        for asked in (b"", ASKED, b"POST /x HTTP/1.1\r\nHost: gw\r\nContent-Length: 9\r\n\r\nab"):
            async with dial(server.port) as late:
                late.send(asked)
                answer = await late.answer()
                assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (503, "busy", "1")
                assert (answer.headers["gateway-error"], answer.headers["connection"]) == ("busy", "close")
                assert await late.until_closed() == b""
        for client in clients:
            client.send(ASKED)
            assert (await client.answer()).status == 200
        clients[0].writer.close()
        while server.runner.client_connections > MOST - 1:
            await asyncio.sleep(0.01)
        async with dial(server.port) as next_one:
            next_one.send(ASKED)
            assert (await next_one.answer()).status == 200


async def test_a_crowd_of_them_takes_no_more_than_a_bound(shown: Shown) -> None:
    """Those beyond are closed without a word, so that refusals take no descriptors either."""
    server = await served(shown, connections=MOST)
    async with AsyncExitStack() as around:
        around.push_async_callback(server.runner.cleanup)
        for _ in range(MOST):
            client = await around.enter_async_context(dial(server.port))
            client.send(ASKED)
            assert (await client.answer()).status == 200
        late = [await around.enter_async_context(dial(server.port)) for _ in range(100)]
        first = []
        for one in late:
            try:
                first.append(await one.reader.read(1))  # it has been accepted, and answered or closed
            except ConnectionError:
                first.append(b"")
        assert server.runner.client_connections <= MOST + SPEAKING_TO
        assert first.count(b"H") >= SPEAKING_TO
