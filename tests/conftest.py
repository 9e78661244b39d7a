"""Fixtures that many tests share: a provider that tests control, and a gateway in front of it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog
from hypothesis import HealthCheck, settings

from tests.fakes.clock import Clock
from tests.fakes.gateways import RunningGateway, in_front_of
from tests.fakes.ports import closed_port
from tests.fakes.postgres import PostgresServer, create_tables
from tests.fakes.shared_start import share
from tests.fakes.tracker import Tracker
from tests.left_behind import (
    pytest_collection,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_runtest_teardown,
)

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")  # an example may take as long as a busy machine needs

# A test run that was started in the background ignores Ctrl-C, and the processes that tests start inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = ["pytest_collection", "pytest_runtest_makereport", "pytest_runtest_protocol", "pytest_runtest_teardown"]


@pytest.fixture(scope="session", autouse=True)
def _shared_start() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        share(monkeypatch)
        yield


@pytest.fixture(autouse=True)
def _reset_logging() -> Iterator[None]:
    """Reset the logging configuration, which a command in this process may have changed, before the next test."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture
def unused_tcp_port() -> Iterator[int]:
    """Yield a port that refuses connections. The fixture of pytest-asyncio does not keep the port for the test."""
    with closed_port() as port:
        yield port


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that replaces the gateway's monotonic clock."""
    clock = Clock()
    monkeypatch.setattr("gateway.clock.monotonic", clock.monotonic)
    return clock


@pytest.fixture
async def tracker() -> AsyncIterator["Tracker"]:
    """A provider that the test controls, at `tracker.url`."""
    fake = Tracker()
    server = await fake.serve()
    fake.url = f"http://127.0.0.1:{server.port}"
    yield fake
    await server.close()


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway with integration `tracker`. Its provider is the fixture `tracker`."""
    async with in_front_of(tracker.url, tmp_path) as gateway:
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_tracker() -> AsyncIterator[Tracker]:
    """A provider like `tracker`, for the gateway of `shared_gateway`."""
    fake = Tracker()
    server = await fake.serve()
    fake.url = f"http://127.0.0.1:{server.port}"
    yield fake
    await server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _shared_gateway(
    shared_tracker: Tracker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningGateway]:
    async with in_front_of(shared_tracker.url, tmp_path_factory.mktemp("shared")) as gateway:
        yield gateway


@pytest.fixture
def shared_gateway(_shared_gateway: RunningGateway) -> RunningGateway:
    """A gateway like `running` that all tests of a module share.

    Only for tests that leave nothing in the gateway that another test of the module would see. Such a test runs on the
    module's loop: ``@pytest.mark.asyncio(loop_scope="module")``.
    """
    _shared_gateway.http.cookie_jar.clear()
    return _shared_gateway


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL server for all tests of this process. A test that stops the server starts it again."""
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def empty_database(postgres_server: PostgresServer) -> str:
    """The URL of an empty database."""
    return asyncio.run(postgres_server.make_database())


@pytest.fixture(scope="session")
def migrated_database(postgres_server: PostgresServer) -> str:
    """The URL of a database with the gateway's tables. Emptying them is ten times as fast as creating a database."""
    url = asyncio.run(postgres_server.make_database())
    asyncio.run(create_tables(url))
    return url


@pytest.fixture
def database(postgres_server: PostgresServer, migrated_database: str) -> str:
    """The URL of a database with the gateway's tables, all empty."""
    return asyncio.run(postgres_server.emptied(migrated_database))
