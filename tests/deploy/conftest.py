"""Three nodes on one PostgreSQL, behind the shipped nginx or HAProxy configuration, and a `BalancerTestProvider`."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.deploy.cluster import Cluster
from tests.fakes.balancer_provider import BalancerTestProvider
from tests.fakes.fronts import Balancer, program, start_balancer
from tests.fakes.postgres import PostgresServer

BALANCERS: Final = ("nginx", "haproxy")


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def balancer_provider() -> AsyncIterator[BalancerTestProvider]:
    async with BalancerTestProvider().serving() as provider:
        yield provider


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def cluster(
    balancer_provider: BalancerTestProvider, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cluster]:
    """The cluster, with the connection that `tests.fakes.processes.head` uses."""
    folder = tmp_path_factory.mktemp("nodes")
    async with Cluster(folder, balancer_provider.port, await postgres_server.make_database()).serving() as nodes:
        yield nodes


@pytest_asyncio.fixture(loop_scope="session", scope="session", params=BALANCERS)
async def balancer(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Balancer]:
    name: str = request.param
    if program(name) is None:
        pytest.skip(f"{name} is not installed here: apt-get install {name}")
    async with start_balancer(
        name, tmp_path_factory.mktemp(name), [f"127.0.0.1:{port}" for port in cluster.ports]
    ) as running:
        yield running
