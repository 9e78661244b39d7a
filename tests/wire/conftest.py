"""Starts one gateway and one recorder per module, on the event loop of `gateway serve`.

Every test runs twice: through the middleware chain, and with the fast path for requests that can take it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from zlib import crc32

import pytest
import pytest_asyncio

from gateway.server.serving_worker import loop_factory
from tests.wire.bench import Bench
from tests.wire.gateway_under_test import gateway_with_recorder
from tests.wire.recorder import Recorder, turns


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    made_by = loop_factory()
    return {made_by.__name__.lower(): made_by} if made_by is not None else {"asyncio": asyncio.new_event_loop}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[True, False], ids=["fast path", "chain"])
async def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    recorder = Recorder()
    await recorder.start()
    try:
        async with gateway_with_recorder(recorder, tmp_path_factory.mktemp("wire"), fast_path=request.param) as bench:
            yield bench
    finally:
        await recorder.stop()
        await turns()


@pytest.fixture(autouse=True)
def batched_requests(request: pytest.FixtureRequest) -> Iterator[None]:
    """In every second test of the fast path, pretend that other requests are in flight, so that messages are sent in
    batches.
    """
    write_batch = request.getfixturevalue("bench").write_batch if "bench" in request.fixturenames else None
    others = crc32(request.node.nodeid.encode()) % 2 if write_batch is not None else 0
    if write_batch is not None:
        write_batch.in_flight += others
    yield
    if write_batch is not None:
        write_batch.in_flight -= others
