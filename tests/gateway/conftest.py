"""The runners for proxied calls in tests: a host application's, and the gateway's on both loops."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest
import uvloop

from tests.fakes import proxy_end

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

ON_EACH_RUNNER: Final = frozenset(
    f"test_{name}.py"
    for name in ("handler", "attempts", "passed_response", "caller_body", "upgrade_tunnel", "forward_isolation")
)
"""The test files of `gateway/proxy` that run three times, since runners differ in how they read, cancel and close."""


@pytest.fixture(autouse=True)
def _restore_host_runner() -> Iterator[None]:
    """Reset to a host's runner for the tests that follow."""
    yield
    proxy_end.on_our_runner = False


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Return the runners and loops of a test: three for files in `ON_EACH_RUNNER`."""
    if item.path.parent.name != "proxy" or item.path.name not in ON_EACH_RUNNER:
        return {"asyncio": asyncio.new_event_loop}
    return {
        "host": with_runner(asyncio.new_event_loop, ours=False),
        "ours": with_runner(asyncio.new_event_loop, ours=True),
        "ours-uvloop": with_runner(uvloop.new_event_loop, ours=True),
    }


def with_runner(new_loop: LoopFactory, *, ours: bool) -> LoopFactory:
    """Return a loop factory that also sets the runner that `gateway_to` uses from then on."""

    def factory() -> asyncio.AbstractEventLoop:
        proxy_end.on_our_runner = ours
        return new_loop()

    return factory
