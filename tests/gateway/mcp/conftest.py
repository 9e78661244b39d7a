"""A gateway between agents and a recorded provider."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.agents import Agents, agents


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Agents]:
    async with agents(tmp_path) as made:
        yield made
