"""What the end of PROXY runs on in its tests: a host's runner, and ours on either loop."""

import asyncio
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop

from tests.fakes import proxy_end

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(autouse=True)
def _a_hosts_runner_again() -> Iterator[None]:
    """Whatever a test of `forward` ran on, the next one elsewhere is not told."""
    yield
    proxy_end.on_our_runner = False


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Each test of `forward` runs three times: the runners differ in how they read, cancel and close."""
    if not item.path.name.startswith("test_forward"):
        return {"asyncio": asyncio.new_event_loop}
    return {
        "host": with_runner(asyncio.new_event_loop, ours=False),
        "ours": with_runner(asyncio.new_event_loop, ours=True),
        "ours-uvloop": with_runner(uvloop.new_event_loop, ours=True),
    }


def with_runner(new_loop: LoopFactory, *, ours: bool) -> LoopFactory:
    """A loop, and with it the runner that `gateway_to` takes from now on."""

    def factory() -> asyncio.AbstractEventLoop:
        proxy_end.on_our_runner = ours
        return new_loop()

    return factory
