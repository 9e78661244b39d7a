"""``gateway connections`` on the store of a running gateway: list, show, refresh, and delete with a report."""

import csv
import json
import stat
from typing import Any

import pytest
from aiohttp import web

from tests.fakes.commands import command_output
from tests.fakes.gateways import RunningGateway
from tests.journeys.modes.conftest import FakeProvider

OAUTH = {"client_id": "our client", "client_secret": "our secret"}


async def command(gateway: RunningGateway, *arguments: str) -> tuple[int, str, str]:
    """Run ``gateway connections …`` with this gateway's configuration. Return exit code, stdout and stderr."""
    file = gateway.folder / "gateway.yaml"
    file.write_text(json.dumps(gateway.document))
    return await command_output("connections", arguments[0], "-c", str(file), *arguments[1:])


class Provider:
    """Refreshes and revokes tokens. `keeps`: tokens that the provider refuses to revoke."""

    def __init__(self, fake_provider: FakeProvider) -> None:
        self.revoked: list[str] = []
        self.renewed = 0
        self.keeps: set[str] = set()
        fake_provider.on("/token", self.token)
        fake_provider.on("/revoke", self.revoke)

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        if form["refresh_token"] == "dead":
            return web.json_response({"error": "invalid_grant", "error_description": "withdrawn"}, status=400)
        self.renewed += 1
        return web.json_response({"access_token": f"new-{self.renewed}", "expires_in": 3600})

    async def revoke(self, request: web.Request) -> web.Response:
        form = await request.post()
        if form["token"] in self.keeps:
            return web.json_response({"error": "invalid_request", "error_description": "not today"}, status=400)
        self.revoked.append(str(form["token"]))
        return web.Response()


@pytest.fixture
async def gateway(fake_provider: FakeProvider, start: Any) -> RunningGateway:
    """Yield a gateway with connections c1, c2 and c3. Their tokens contain their names."""
    made: RunningGateway = await start(
        OAUTH,
        auth_mode="OAUTH2",
        authorization_url=f"{fake_provider.url}/authorize",
        token_url=f"{fake_provider.url}/token",
        revocation_url=f"{fake_provider.url}/revoke",
    )
    for name in ("c1", "c2", "c3"):
        credentials = {"type": "OAUTH2", "access_token": f"access-{name}", "refresh_token": f"refresh-{name}"}
        body = {"provider_config_key": "tracker", "connection_id": name, "credentials": credentials}
        body["end_user"] = {"id": f"user-{name}"}
        await made.json("POST", "/connections", json=body, expect=201)
    return made


async def test_connections_are_listed_and_shown_without_a_secret(
    fake_provider: FakeProvider, gateway: RunningGateway
) -> None:
    code, out, err = await command(gateway, "list", "--integration", "tracker", "--json")
    assert (code, [connection["connection_id"] for connection in json.loads(out)["connections"]]) == (
        0,
        ["c3", "c2", "c1"],
    ), err
    code, out, _ = await command(gateway, "list", "--limit", "2")
    assert (code, "user-c3" in out, "c1" in out) == (0, True, False)
    code, printed, _ = await command(gateway, "show", "--integration", "tracker", "c1", "--json")
    assert (code, json.loads(printed)["credential_type"], json.loads(printed)["state"]) == (0, "OAUTH2", "active")
    assert "access-c1" not in out + printed
    code, _, err = await command(gateway, "show", "--integration", "tracker", "nobody")
    assert (code, "there is no connection 'nobody'" in err) == (1, True)


async def test_credentials_are_refreshed_and_failures_are_reported(
    fake_provider: FakeProvider, gateway: RunningGateway
) -> None:
    provider = Provider(fake_provider)
    dead = {"type": "OAUTH2", "access_token": "a", "refresh_token": "dead"}
    body = {"provider_config_key": "tracker", "connection_id": "c2", "credentials": dead}
    await gateway.json("POST", "/connections", json=body, expect=201)
    code, out, err = await command(gateway, "refresh", "--integration", "tracker", "--all", "--json")
    response = {connection["connection_id"]: connection["outcome"] for connection in json.loads(out)["connections"]}
    assert (code, response) == (1, {"c1": "renewed", "c2": "failed", "c3": "renewed"}), err
    assert provider.renewed == 2
    stored = await gateway.json("GET", "/connections/c1?provider_config_key=tracker")
    assert stored["credentials"]["access_token"] in {"new-1", "new-2"}  # the running gateway uses the new token too


async def test_all_connections_of_an_integration_are_deleted_with_a_report(
    fake_provider: FakeProvider, gateway: RunningGateway
) -> None:
    provider = Provider(fake_provider)
    provider.keeps = {"refresh-c2"}
    report = gateway.folder / "out.csv"
    arguments = ("delete", "--all", "--integration", "tracker", "--report", str(report))
    code, _, err = await command(gateway, *arguments)
    assert (code, "add --yes" in err, report.exists()) == (2, True, False)
    code, out, err = await command(gateway, *arguments, "--yes")
    assert (code, "1 token may still work" in err) == (1, True), (out, err)
    rows = list(csv.DictReader(report.read_text().splitlines()))
    assert {(row["connection_id"], row["token"]): row["outcome"] for row in rows} == {
        ("c1", "refresh_token"): "revoked",
        ("c1", "access_token"): "revoked",
        ("c2", "refresh_token"): "failed",
        ("c2", "access_token"): "revoked",
        ("c3", "refresh_token"): "revoked",
        ("c3", "access_token"): "revoked",
    }
    (kept,) = [row for row in rows if row["outcome"] == "failed"]
    assert kept["detail"] == "it returned 400: invalid_request: not today"
    assert {row["deleted"] for row in rows} == {"yes"}
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert not any(secret in out + err + report.read_text() for secret in ("refresh-c", "access-c"))
    assert len(provider.revoked) == 5
    assert (await gateway.json("GET", "/connections"))["connections"] == []
    code, _, err = await command(gateway, *arguments, "--yes")
    assert (code, "has no connections" in err) == (0, True)


async def test_single_connections_are_deleted_and_the_missing_are_reported(
    fake_provider: FakeProvider, gateway: RunningGateway
) -> None:
    provider = Provider(fake_provider)
    code, out, err = await command(gateway, "delete", "--integration", "tracker", "-y", "--json", "c1", "nobody")
    body = json.loads(out)
    assert (code, body["deleted"], body["not_found"]) == (1, 1, 1), err
    assert provider.revoked == ["refresh-c1", "access-c1"]
    code, out, _ = await command(gateway, "delete", "--integration", "tracker", "-y", "--keep-tokens", "c2")
    assert (code, provider.revoked) == (0, ["refresh-c1", "access-c1"])
    code, _, err = await command(gateway, "delete", "--integration", "tracker")
    assert (code, "Name connections or give --all" in err) == (2, True)


async def test_an_unknown_integration_is_reported_with_the_closest_name(gateway: RunningGateway) -> None:
    for words in (("list",), ("delete", "--all", "--yes"), ("delete", "c1"), ("refresh", "--all")):
        code, out, err = await command(gateway, words[0], "--integration", "trackr", *words[1:])
        assert (code, out) == (1, ""), words
        assert "Error: environment 'dev' has no integration 'trackr'; did you mean 'tracker'?\n" in err
