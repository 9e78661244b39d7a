"""A gateway with one imported connection, whose credentials were read once, and ``gateway audit`` on its files."""

import pytest

from tests.fakes.commands import CommandOutput, command_output
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.cli.examined import Examined


async def audit(examined: Examined, *words: str) -> CommandOutput:
    return await command_output("audit", *words, "-c", str(examined.file))


@pytest.fixture
async def with_records(running: RunningGateway, tracker: Tracker, examined: Examined) -> Examined:
    """The files of a gateway with one imported connection, whose credentials were read once."""
    examined.write()
    await running.import_connection(tracker.grant(), end_user={"id": "anna"})
    await running.json("GET", "/connections/c1?provider_config_key=tracker", expect=200)
    return examined
