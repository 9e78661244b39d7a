"""A gateway with one imported connection, whose credentials were read once, and ``gateway audit`` on its files."""

import pytest

from tests.fakes.commands import CommandOutput, command_output
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.cli.config_file import ConfigFile


async def audit(config_file: ConfigFile, *arguments: str) -> CommandOutput:
    return await command_output("audit", *arguments, "-c", str(config_file.file))


@pytest.fixture
async def with_records(running: RunningGateway, tracker: Tracker, config_file: ConfigFile) -> ConfigFile:
    """The files of a gateway with one imported connection, whose credentials were read once."""
    config_file.write()
    await running.import_connection(tracker.grant(), end_user={"id": "anna"})
    await running.json("GET", "/connections/c1?provider_config_key=tracker", expect=200)
    return config_file
