"""Fixtures in which Bob gets Alice's link."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.journeys.wrong_person.world import Person, World, start_world


@pytest.fixture(params=[True, False], ids=["bound", "unbound"])
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Yield a world. One run has sessions with a code challenge, the other run without."""
    async with start_world(tmp_path, bound=request.param) as made:
        yield made


@pytest.fixture
async def bound_world(tmp_path: Path) -> AsyncIterator[World]:
    """Yield a world with sessions that have a code challenge."""
    async with start_world(tmp_path) as made:
        yield made


@pytest.fixture
async def alice(request: pytest.FixtureRequest) -> Person:
    """Alice, signed in at the application and the provider."""
    return await _person(request, "alice")


@pytest.fixture
async def bob(request: pytest.FixtureRequest) -> Person:
    """Bob, signed in at the application and the provider."""
    return await _person(request, "bob")


async def _person(request: pytest.FixtureRequest, name: str) -> Person:
    fixture = "bound_world" if "bound_world" in request.fixturenames else "world"
    world: World = request.getfixturevalue(fixture)
    person = world.person(name)
    await person.sign_in(world, name)
    return person
