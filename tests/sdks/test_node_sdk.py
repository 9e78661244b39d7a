"""The unchanged `@nangohq/node` with a running gateway: every method (docs/compatibility.md#node-sdk)."""

import asyncio
import json
import re
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from gateway.cli.demo.demo_folder import _CONFIGURATION
from tests.fakes.patience import PATIENCE_S
from tests.journeys.test_demo import demo
from tests.sdks.npm import install_package

PACKAGE, VERSION = "@nangohq/node", "0.71.4"
CALLS = Path(__file__).parent / "node_calls.mjs"
VARIABLES = '    secret_keys: ["${file:secret_key}"]\n    variables: {REGION: eu, EMPTY_ISH: "0"}\n'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def report(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Any]]:
    """The result of every call, by its name."""
    sdk = install_package(PACKAGE, VERSION)
    state = tmp_path_factory.mktemp("demo")
    declared = _CONFIGURATION.replace('    secret_keys: ["${file:secret_key}"]\n', VARIABLES)
    assert declared != _CONFIGURATION
    (state / "gateway.yaml").write_text(declared)
    async with demo(state) as (_, ready):
        found = re.search(r"/ex/sandbox/([^/]+)/", ready["curl"])
        assert found is not None
        names = {
            "sdk": str(sdk),
            "host": ready["url"],
            "key": ready["secret_key"],
            "integration": ready["provider_config_key"],
            "connection": ready["connection_id"],
            "cloudId": found[1],
        }
        node = shutil.which("node")
        assert node is not None
        process = await asyncio.create_subprocess_exec(node, str(CALLS), stdin=PIPE, stdout=PIPE, stderr=PIPE)
        out, err = await asyncio.wait_for(process.communicate(json.dumps(names).encode()), PATIENCE_S)
        assert process.returncode == 0, err.decode()
        yield {**json.loads(out), "given": names}


pytestmark = pytest.mark.asyncio(loop_scope="module")


def value(report: dict[str, Any], name: str) -> Any:
    assert "value" in report[name], report[name]
    return report[name]["value"]


def error_of(report: dict[str, Any], name: str) -> tuple[int, str]:
    response = report[name]["failed"]
    assert response["headers"]["gateway-error"] == response["data"]["error"]["code"]
    return response["status"], response["data"]["error"]["code"]


async def test_every_sdk_call_that_should_succeed_succeeds(report: dict[str, Any]) -> None:
    meant = re.compile("Unknown|Again$|Deleted|Declared|WrongKey|^patch$")
    wrong = {name: item["failed"] for name, item in report.items() if "failed" in item and not meant.search(name)}
    assert wrong == {}


async def test_providers_are_listed_and_read_with_the_sdk(report: dict[str, Any]) -> None:
    names = [item["name"] for item in value(report, "listProviders")["data"]]
    assert "sandbox" in names
    assert len(names) < 20
    assert len(value(report, "listAllProviders")["data"]) > 1000
    first_item = value(report, "getProvider")["data"]
    assert (first_item["name"], first_item["auth_mode"]) == ("sandbox", "OAUTH2")
    assert first_item["proxy"]["base_url"]
    assert error_of(report, "getUnknownProvider") == (404, "not_found")


async def test_integrations_are_created_changed_and_deleted_with_the_sdk(report: dict[str, Any]) -> None:
    assert [config["unique_key"] for config in value(report, "listIntegrations")["configs"]] == ["sandbox"]
    made = value(report, "createIntegration")["data"]
    assert (made["unique_key"], made["provider"], made["display_name"]) == ("sdk", "sandbox", "SDK")
    assert made["logo"].startswith(report["given"]["host"])
    assert error_of(report, "createIntegrationAgain") == (400, "invalid_body")
    shown = value(report, "getIntegration")["data"]["credentials"]
    assert shown == {
        "type": "OAUTH2",
        "client_id": "sdk",
        "client_secret": "sdk-secret",
        "scopes": "a,b",
        "webhook_secret": None,
    }
    assert "webhook_url" in value(report, "getIntegrationWebhook")["data"]
    changed = value(report, "updateIntegration")["data"]
    assert (changed["unique_key"], changed["display_name"]) == ("sdk-2", "Renamed")
    assert error_of(report, "updateDeclaredIntegration") == (409, "conflict")
    assert value(report, "deleteIntegration") == {"status": 200, "data": {"success": True}}
    assert error_of(report, "getDeletedIntegration") == (404, "not_found")


async def test_connections_are_listed_and_filtered_with_the_sdk(report: dict[str, Any]) -> None:
    connection = report["given"]["connection"]
    assert value(report, "patchConnection") == {"success": True}
    for name in ("listConnections", "listConnectionsById", "listConnectionsBySearch", "listConnectionsByTags"):
        (first_connection,) = value(report, name)["connections"]
        assert first_connection["connection_id"] == connection
        assert first_connection["end_user"] == {
            "id": "u-sdk",
            "display_name": "Una",
            "email": "sdk@example.com",
            "tags": None,
            "organization": None,
        }
        assert first_connection["tags"]["team"] == "b a"
        assert first_connection["tags"]["end_user_display_name"] == "Una"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first_connection["created"])
        assert "credentials" not in first_connection
    assert value(report, "listConnectionsOfNobody") == {"connections": []}
    assert value(report, "waitForConnection")["connection_id"] == connection


async def test_a_connection_and_its_token_are_read_and_refreshed_with_the_sdk(report: dict[str, Any]) -> None:
    item = value(report, "getConnection")
    assert item["provider_config_key"] == "sandbox"
    assert item["connection_config"]["cloudId"] == report["given"]["cloudId"]
    credential = item["credentials"]
    assert credential["type"] == "OAUTH2"
    assert "refresh_token" not in credential
    assert "refresh_token" not in credential["raw"]
    assert credential["expires_at"].endswith("Z")
    renewed = value(report, "getConnectionRefreshed")["credentials"]
    assert renewed["refresh_token"]
    assert renewed["access_token"] != credential["access_token"]
    assert value(report, "getToken") == renewed["access_token"]
    raw = value(report, "getRawTokenResponse")
    assert raw["access_token"] == renewed["access_token"]
    assert "refresh_token" not in raw
    assert error_of(report, "getUnknownConnection") == (404, "unknown_connection")


async def test_metadata_is_set_merged_and_read_with_the_sdk(report: dict[str, Any]) -> None:
    names = report["given"]
    whose = {"provider_config_key": "sandbox"}
    assert value(report, "setMetadata") == {
        "status": 201,
        "data": {**whose, "connection_id": names["connection"], "metadata": {"plan": "free", "seats": 1}},
    }
    assert value(report, "updateMetadata") == {
        "status": 200,
        "data": {**whose, "connection_id": [names["connection"]], "metadata": {"plan": "pro"}},
    }
    assert value(report, "getMetadata") == {"plan": "pro", "seats": 1}
    assert error_of(report, "setMetadataOfUnknown") == (404, "unknown_connection")
    assert value(report, "getMetadataAgain") == {"plan": "pro", "seats": 1}


async def test_a_connect_session_is_created_with_the_sdk(report: dict[str, Any]) -> None:
    made = value(report, "createConnectSession")["data"]
    assert re.fullmatch(r"nango_connect_session_[0-9a-f]{64}", made["token"])
    assert made["token"] in made["connect_link"]
    async with aiohttp.ClientSession() as session, session.get(made["connect_link"]) as response:
        assert response.status == 200
    status, code = error_of(report, "createConnectSessionForUnknown")
    assert (status, code) == (400, "invalid_body")
    issues = report["createConnectSessionForUnknown"]["failed"]["data"]["error"]["errors"]
    assert issues[0]["path"] == ["allowed_integrations", "0"]


async def test_environment_variables_are_read_with_the_sdk(report: dict[str, Any]) -> None:
    assert value(report, "getEnvironmentVariables") == [
        {"name": "REGION", "value": "eu"},
        {"name": "EMPTY_ISH", "value": "0"},
    ]


async def test_proxied_calls_are_made_with_the_sdk(report: dict[str, Any]) -> None:
    for name, count in (("get", 1), ("getWithQuery", 2), ("post", 1)):
        response = value(report, name)
        assert (response["status"], len(response["data"]["issues"])) == (200, count), name
    for name in ("proxy", "proxyFromConstructor"):
        assert value(report, name)["data"]["emailAddress"] == "demo@example.com"
    put, form = value(report, "put")["data"], value(report, "putForm")["data"]
    assert (put["content_type"], put["bytes"]) == ("application/json", len('{"a":"b"}'))
    assert (form["content_type"], form["bytes"]) == ("application/x-www-form-urlencoded", len("a=1"))
    refused = report["patch"]["failed"]  # the provider has no PATCH: this is its own response, not the gateway's
    assert refused["status"] == 405
    assert "gateway-error" not in refused["headers"]
    assert value(report, "delete")["status"] in {200, 204}
    assert value(report, "stream") == {"status": 200, "bytes": 100_000}
    assert error_of(report, "proxyToUnknownConnection") == (404, "unknown_connection")
    assert error_of(report, "withWrongKey") == (401, "unknown_account")


async def test_a_connection_is_deleted_with_the_sdk(report: dict[str, Any]) -> None:
    deleted = value(report, "deleteConnection")
    assert (deleted["status"], deleted["data"]["success"]) == (200, True)
    assert {item["outcome"] for item in deleted["data"]["revocation"]} == {"revoked"}
    assert error_of(report, "deleteConnectionAgain") == (404, "unknown_connection")
