"""A gateway between agents and a recorded provider."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.agent_gateway import AgentGateway, agent_gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[AgentGateway]:
    async with agent_gateway(tmp_path) as made:
        yield made
