"""The preview of an import: what would be imported, before anything is stored."""

import asyncio
import json
from collections.abc import Callable

import yaml
from click.testing import CliRunner

from gateway.cli import main
from tests.fakes.peer import FakePeer
from tests.gateway.moving.conftest import GatewayFolder, oauth

CLIENT = {"type": "OAUTH2", "client_id": "cid", "client_secret": "s3cret"}


def fill(peer: FakePeer) -> None:
    peer.integrations = {
        "tracker": {"provider": "tracker", "credentials": {**CLIENT, "client_id": "client"}},
        "second": {"provider": "tracker", "credentials": CLIENT},
        "keys": {"provider": "openai"},
        "strange": {"provider": "trackerr"},
    }
    for n, key in enumerate(["tracker", "tracker", "second", "keys", "strange", "orphan"]):
        peer.add(f"c{n}", oauth(n), key=key)
    peer.connections[1]["errors"] = [{"type": "auth", "log_id": "x"}]
    peer.connections[2] |= {"errors": [{"type": "auth", "log_id": "x"}], "state": "degraded"}


async def test_preview_has_a_verdict_for_each_integration_and_the_callback_url(
    gateway_folder: GatewayFolder, peer: FakePeer
) -> None:
    fill(peer)
    ran = await gateway_folder.run_import(peer, "--preview", code=1)
    result = {integration["integration"]: integration for integration in ran.report["integrations"]}
    assert {key: item["verdict"] for key, item in result.items()} == {
        "tracker": "register_callback",
        "second": "register_callback",
        "keys": "works",
        "strange": "not_possible",
    }
    assert f"{place_url(gateway_folder)}/oauth/callback" in " ".join(result["tracker"]["todo"])
    assert "did you mean 'tracker'?" in result["strange"]["todo"][0]
    assert (result["tracker"]["connections"], result["tracker"]["broken_there"]) == (2, 1)
    assert result["second"]["broken_there"] == 0, "a degraded connection of this gateway still works"
    assert ran.report["without_integration"] == {"orphan": 1}
    assert ran.report["connections"] == {"not_possible": 2, "reconnect": 1, "register_callback": 2, "works": 1}
    assert not any(path.startswith("/connections/") for path in peer.calls)
    assert await gateway_folder.list_connections() == []
    assert "s3cret" not in ran.output


async def test_webhook_url_of_a_key_with_special_characters_is_quoted(
    gateway_folder: GatewayFolder, peer: FakePeer
) -> None:
    peer.integrations = {"my jira": {"provider": "jira", "credentials": CLIENT}}
    ran = await gateway_folder.run_import(peer, "--preview")
    (only,) = ran.report["integrations"]
    assert f"{place_url(gateway_folder)}/webhook/dev/my%20jira" in " ".join(only["todo"])
    assert ran.report["webhook_url"] == f"{place_url(gateway_folder)}/webhook/dev/<integration>"


async def test_preview_reports_connections_of_another_auth_mode(gateway_folder: GatewayFolder, peer: FakePeer) -> None:
    fill(peer)
    peer.modes = {"openai": "BASIC", "tracker": "OAUTH2"}
    ran = await gateway_folder.run_import(peer, "--preview", code=1)
    result = {integration["integration"]: integration for integration in ran.report["integrations"]}
    assert (result["keys"]["verdict"], result["tracker"]["verdict"]) == ("not_possible", "register_callback")
    (advice,) = result["keys"]["todo"]
    assert advice.startswith(
        "its connections use auth mode BASIC, but 'openai' uses API_KEY at this gateway: write an entry"
    )
    assert "works" not in ran.report["connections"]


def place_url(gateway_folder: GatewayFolder) -> str:
    return f"http://127.0.0.1:{yaml.safe_load(gateway_folder.file.read_text())['server']['port']}"


async def test_preview_reports_another_client_and_an_unreadable_secret(
    gateway_folder: GatewayFolder, peer: FakePeer, make_gateway_folder: Callable[..., GatewayFolder]
) -> None:
    peer.integrations = {"tracker": {"provider": "tracker", "credentials": CLIENT}}
    response = (await gateway_folder.run_import(peer, "--preview", code=1)).report["integrations"][0]
    assert response["verdict"] == "needs_something"
    assert "another client ID" in response["todo"][0]
    peer.integrations = {"new": {"provider": "tracker", "credentials": CLIENT}}
    peer.scopes.discard("integration_credentials")
    response = (await gateway_folder.run_import(peer, "--preview", code=1)).report["integrations"][0]
    assert response["verdict"] == "needs_something"
    assert "read_credentials" in response["todo"][0]


async def test_doctor_reports_the_same_as_the_preview(gateway_folder: GatewayFolder, peer: FakePeer) -> None:
    fill(peer)
    words = ["doctor", "--from-peer", peer.url, "--key-env", "PEER_KEY", "-c", str(gateway_folder.file)]
    done = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--json"])
    assert done.exit_code == 1
    assert (
        json.loads(done.stdout)["integrations"]
        == (await gateway_folder.run_import(peer, "--preview", code=1)).report["integrations"]
    )
    text = (await asyncio.to_thread(CliRunner().invoke, main, words)).stdout
    assert "Steps, in this order:" in text
    assert "Out of scope: syncs, actions" in text


async def test_the_doctor_takes_the_flag_that_it_advises(gateway_folder: GatewayFolder) -> None:
    words = ["doctor", "--from-peer", "http://192.0.2.1:9", "--key-env", "PEER_KEY", "-c", str(gateway_folder.file)]
    refused = await asyncio.to_thread(CliRunner().invoke, main, words)
    assert (refused.exit_code, "--plain-http" in refused.output) == (1, True)
    assert "--plain-http" in (await asyncio.to_thread(CliRunner().invoke, main, ["doctor", "--help"])).output


async def test_the_doctor_names_the_command_that_takes_an_environment(
    gateway_folder: GatewayFolder, peer: FakePeer
) -> None:
    document = yaml.safe_load(await asyncio.to_thread(gateway_folder.file.read_text))
    document["environments"]["other"] = {"secret_keys": ["another-secret-key-0123456789"]}
    await asyncio.to_thread(gateway_folder.file.write_text, yaml.safe_dump(document))
    words = ["doctor", "--from-peer", peer.url, "--key-env", "PEER_KEY", "-c", str(gateway_folder.file)]
    refused = await asyncio.to_thread(CliRunner().invoke, main, words)
    assert (refused.exit_code, "--preview --environment NAME" in " ".join(refused.output.split())) == (2, True)
