"""``gateway connections`` on the store of a gateway that runs beside it."""

import asyncio
import json
from typing import Any

from aiohttp import web
from click.testing import CliRunner, Result

from gateway.cli import main
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.cli.examined import Examined


async def connections(examined: Examined, word: str, *arguments: str) -> Result:
    examined.write()
    words = ["connections", word, "-c", str(examined.file), *arguments]
    return await asyncio.to_thread(CliRunner().invoke, main, words)


async def test_a_refresh_that_fails_while_the_token_is_valid_is_a_failure(
    running: RunningGateway, tracker: Tracker, examined: Examined
) -> None:
    await running.imported(tracker.grant())
    tracker.answer = web.Response(status=500)
    result = await connections(examined, "refresh", "--integration", "tracker", "c1")
    assert result.exit_code == 1
    assert "failed" in result.stdout
    assert "500" in result.stdout
    assert "The token at hand is valid until" in result.stdout
    assert "1 of 1 could not be renewed" in result.stderr
    assert "connections why --integration tracker c1" in result.stderr
    told: Any = await connections(examined, "refresh", "--integration", "tracker", "c1", "--json")
    assert (told.exit_code, json.loads(told.stdout)["connections"][0]["outcome"]) == (1, "failed")
    tracker.answer = None
    assert (await connections(examined, "refresh", "--integration", "tracker", "c1")).exit_code == 0
