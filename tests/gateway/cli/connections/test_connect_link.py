"""``gateway connections link``: a link to send to an end user, created on the store of a running gateway."""

import json
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway import clock
from gateway.client import code_challenge, new_code_verifier
from gateway.records.connecting import ConnectSession
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_credential_forms import walk_flow
from tests.gateway.cli.config_file import ConfigFile
from tests.gateway.cli.connections.test_show_connections import connections

FOR_ADA = ("--integration", "tracker", "--end-user", "u1")


def token_in(link: str) -> str:
    return parse_qs(urlsplit(link).query)["session_token"][0]


async def session_of(running: RunningGateway, link: str) -> ConnectSession:
    return await running.runtime.sessions.find(token_in(link))


async def test_link_command_prints_a_working_link(
    running: RunningGateway, tracker: Tracker, config_file: ConfigFile
) -> None:
    done = await connections(config_file, "link", *FOR_ADA, "--display-name", "Ada", "--email", "ada@example.com")
    assert done.exit_code == 0, done.stderr
    (link,) = done.stdout.splitlines()
    assert link.startswith(f"{running.url}/connect?session_token=")
    assert "Valid until " in done.stderr
    assert f"GET {running.url}/connect/sessions/" in done.stderr
    assert token_in(link) not in done.stderr
    session = await session_of(running, link)
    assert session.end_user is not None
    assert (session.end_user.display_name, session.allowed_integrations) == ("Ada", ("tracker",))
    assert (await walk_flow(running, token_in(link)))[0] == 200
    (row,) = (await running.json("GET", "/connections"))["connections"]
    assert (row["end_user"]["email"], row["tags"]["end_user_id"]) == ("ada@example.com", "u1")


async def test_link_command_has_the_options_of_the_api(running: RunningGateway, config_file: ConfigFile) -> None:
    challenge = code_challenge(new_code_verifier())
    options = ("--expires-in", "3d", "--single-use", "--max-connections", "2", "--code-challenge", challenge)
    return_options = ("--return-url", "http://localhost:8000/back", "--state", "s")
    done = await connections(config_file, "link", *FOR_ADA, *options, *return_options, "--json")
    assert done.exit_code == 0, done.stderr
    body: Any = json.loads(done.stdout)
    assert sorted(body) == ["connect_link", "expires_at", "poll_url", "session_id", "token"]
    remaining_s = (datetime.fromisoformat(body["expires_at"]) - clock.now()).total_seconds()
    assert 3 * 86400 - 60 < remaining_s <= 3 * 86400
    session = await session_of(running, body["connect_link"])
    assert (session.single_use, session.max_connections, session.code_challenge) == (True, 2, challenge)
    assert (session.return_url, session.return_state) == ("http://localhost:8000/back", "s")


async def test_a_connection_is_authorized_again_under_its_id(
    running: RunningGateway, tracker: Tracker, config_file: ConfigFile
) -> None:
    await running.import_connection(tracker.grant(), "c1", end_user={"id": "ada"})
    done = await connections(config_file, "link", "--integration", "tracker", "--reconnect", "c1")
    assert done.exit_code == 0, done.stderr
    session = await session_of(running, done.stdout.strip())
    assert (session.reconnects, session.connection_id) == (True, "c1")
    assert session.end_user is not None
    assert session.end_user.id == "ada"


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--integration", "tracker"), 2, "--end-user"),
        (("--integration", "tracker", "--reconnect", "c1", "--email", "a@b.example"), 2, "--end-user"),
        (("--end-user", "u1"), 2, "--integration"),
        (("--integration", "tracker", "--integration", "x", "--reconnect", "c1"), 2, "one --integration"),
        (("--integration", "trakcer", "--end-user", "u1"), 1, "did you mean 'tracker'?"),
        (("--integration", "tracker", "--reconnect", "c1"), 1, "has no connection 'c1'"),
        ((*FOR_ADA, "--email", "ada"), 1, "end_user.email"),
        ((*FOR_ADA, "--expires-in", "8d"), 1, "expires_in"),
        ((*FOR_ADA, "--expires-in", "soon"), 2, "12h or 30d"),
        ((*FOR_ADA, "--return-url", "https://app.example.com/"), 1, "connect_origins"),
        ((*FOR_ADA, "--state", "s"), 1, "return_url"),
        (
            (*FOR_ADA, "--environment", "prod"),
            2,
            "There is no environment 'prod'. Name the environment: --environment dev",
        ),
    ],
)
async def test_error_names_the_wrong_option(
    running: RunningGateway, config_file: ConfigFile, options: tuple[str, ...], code: int, says: str
) -> None:
    done = await connections(config_file, "link", *options)
    assert (done.exit_code, done.stdout) == (code, "")
    assert says in done.stderr


async def test_link_needs_a_code_challenge_if_the_environment_requires_it(
    running: RunningGateway, config_file: ConfigFile
) -> None:
    config_file.document["environments"]["dev"]["connect_binding"] = "required"
    refused = await connections(config_file, "link", *FOR_ADA)
    assert (refused.exit_code, "connect_binding" in refused.stderr) == (1, True)
    bound = await connections(config_file, "link", *FOR_ADA, "--code-challenge", code_challenge(new_code_verifier()))
    assert (bound.exit_code, "pending" in bound.stderr) == (0, True)
