"""``gateway connections`` on the store of a running gateway."""

import asyncio
import json
from datetime import UTC, datetime
from shlex import quote
from typing import Any

from aiohttp import web
from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.records.connection import RefusedScopes
from gateway.store import ListFilter
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.cli.config_file import ConfigFile


async def connections(config_file: ConfigFile, word: str, *arguments: str) -> Result:
    config_file.write()
    words = ["connections", word, "-c", str(config_file.file), *arguments]
    return await asyncio.to_thread(CliRunner().invoke, main, words)


async def test_integration_may_be_left_out_if_the_id_is_unique(
    running: RunningGateway, tracker: Tracker, config_file: ConfigFile
) -> None:
    await running.import_connection(tracker.grant())
    for word in ("show", "why", "refresh"):
        assert (await connections(config_file, word, "c1")).exit_code == 0
        assert (await connections(config_file, word, "--integration", "tracker", "c1")).exit_code == 0
    missing = await connections(config_file, "show", "c2")
    assert missing.exit_code == 1
    assert missing.stderr == (
        "gateway: there is no connection 'c2' in any integration of environment 'dev'; `gateway connections list` shows "
        "the connections\n"
    )
    await running.import_connection(tracker.grant(), "user-17")
    assert "did you mean 'user-17'?" in (await connections(config_file, "why", "user17")).stderr
    slip = await connections(config_file, "show", "--integration", "trakcer", "c1")
    assert (slip.exit_code, "did you mean 'tracker'?" in slip.stderr) == (1, True)
    assert (await connections(config_file, "refresh", "--all")).exit_code == 2
    assert "--integration" in (await connections(config_file, "delete", "c1", "--yes")).stderr


async def test_if_several_connections_have_the_id_they_are_listed(
    running: RunningGateway, tracker: Tracker, config_file: ConfigFile
) -> None:
    config_file.document["environments"]["dev"]["integrations"]["second"] = dict(config_file.integration)
    await running.restart()
    await running.import_connection(tracker.grant())
    await running.import_connection(tracker.grant(), provider_config_key="second")
    requests_before = tracker.calls["refresh_token"]
    for word in ("show", "why", "refresh"):
        result = await connections(config_file, word, "c1")
        assert result.exit_code == 1
        assert result.stderr.endswith("name one:\n  --integration second\n  --integration tracker\n")
    assert tracker.calls["refresh_token"] == requests_before
    assert (await connections(config_file, "show", "--integration", "second", "c1")).exit_code == 0


async def test_a_refresh_that_fails_while_the_token_is_valid_is_a_failure(
    running: RunningGateway, tracker: Tracker, config_file: ConfigFile
) -> None:
    await running.import_connection(tracker.grant())
    tracker.response = web.Response(status=500)
    result = await connections(config_file, "refresh", "--integration", "tracker", "c1")
    assert result.exit_code == 1
    assert "failed" in result.stdout
    assert "500" in result.stdout
    assert "The present token is valid until" in result.stdout
    assert "1 of 1 connection could not be refreshed" in result.stderr
    file = quote(str(config_file.file))
    assert f"connections why -c {file} --integration tracker c1" in result.stderr
    assert f"doctor -c {file} tracker" in result.stderr
    body: Any = await connections(config_file, "refresh", "--integration", "tracker", "c1", "--json")
    assert (body.exit_code, json.loads(body.stdout)["connections"][0]["outcome"]) == (1, "failed")
    tracker.response = None
    assert (await connections(config_file, "refresh", "--integration", "tracker", "c1")).exit_code == 0


async def test_control_characters_in_names_are_removed(
    running: RunningGateway, tracker: Tracker, config_file: ConfigFile
) -> None:
    name = "Eve\x1b]52;c;ZXZpbA==\x07\u202e\x9b2J\nc2  tracker  Bob  active"
    await running.import_connection(tracker.grant(), end_user={"id": "u1", "display_name": name}, tags={"team": name})
    for words in (("list",), ("show", "c1"), ("why", "c1")):
        printed = (await connections(config_file, *words)).stdout
        assert printed.replace("\n", "").isprintable(), words
        assert not any(line.startswith("c2") for line in printed.splitlines())
    assert "Eve" in (await connections(config_file, "list")).stdout


async def test_connections_that_lack_scopes_are_listed(
    running: RunningGateway, tracker: Tracker, config_file: ConfigFile
) -> None:
    for name in ("c1", "c2", "c3", "well"):
        await running.import_connection(tracker.grant(), name)
    store = running.runtime.store
    for row in await store.connections.list("dev", ListFilter()):
        if row.ref.connection_id != "well":
            await store.rejections.record_scopes(row, RefusedScopes(("admin",), datetime.now(UTC), "/x"))
    found = json.loads((await connections(config_file, "list", "--missing-scopes", "--json")).stdout)
    assert [connection["connection_id"] for connection in found["connections"]] == ["c3", "c2", "c1"]
    some = await connections(config_file, "list", "--missing-scopes", "--limit", "2")
    assert ("c1" in some.stdout, "--cursor" in some.stderr) == (False, True)
    cursor = some.stderr.split()[-1]
    last = await connections(config_file, "list", "--missing-scopes", "--cursor", cursor)
    assert ("c1" in last.stdout, "c2" in last.stdout, last.stderr) == (True, False, "")
