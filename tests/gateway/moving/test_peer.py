"""Import from another gateway (Nango) through its public API."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.fakes.gateways import SECRET_KEY, RunningGateway
from tests.fakes.peer import KEY, FakePeer, refused
from tests.fakes.tracker import Tracker
from tests.gateway.moving.conftest import SITE, GatewayFolder, oauth


def fill_peer(peer: FakePeer) -> None:
    user = {"id": "u1", "email": "ann@example.com", "display_name": "Ann", "tags": None}
    peer.add(
        "ann, at work",
        oauth(1),
        connection_config=SITE,
        metadata={"plan": {"name": "pro"}},
        tags={"team": "blue", "end_user_id": "u1"},
        end_user={**user, "organization": {"id": "o1", "display_name": None}},
        webhook_url_override="https://hooks.example.com/x",
    )


async def test_import_from_a_peer_keeps_every_field(
    gateway_folder: GatewayFolder, peer: FakePeer, running: RunningGateway
) -> None:
    fill_peer(peer)
    ran = await gateway_folder.run_import(peer)
    assert (ran.report["imported"], ran.report["ok"]) == (1, True)
    path = "/connections/ann%2C%20at%20work?provider_config_key=tracker&refresh_token=true"
    connection = await running.json("GET", path, expect=200)
    assert connection["credentials"]["access_token"] == "at-1"
    assert connection["credentials"]["refresh_token"] == "rt-1"
    assert connection["credentials"]["expires_at"] == "2030-01-01T00:00:00.000Z"
    assert connection["credentials"]["raw"]["team"] == {"id": "T1"}
    assert connection["connection_config"] == {**SITE, "subdomain": "acme"}
    assert connection["metadata"] == {"plan": {"name": "pro"}}
    assert connection["end_user"]["organization"]["id"] == "o1"
    assert connection["tags"]["team"] == "blue"
    assert connection["webhook_url_override"] == "https://hooks.example.com/x"
    assert connection["created_at"].startswith("2026-01-02T03:04:01.678")


async def test_imported_connection_is_usable_in_a_running_gateway(
    gateway_folder: GatewayFolder, peer: FakePeer, running: RunningGateway, tracker: Tracker
) -> None:
    grant = tracker.grant()
    peer.add("c1", oauth(1, access_token=grant["access_token"]), connection_config=SITE)
    assert (await running.call_proxy("c1")).status == 404
    await gateway_folder.run_import(peer)
    async with running.call_proxy("c1") as response:
        assert response.status == 200


async def test_a_dry_run_reads_everything_and_changes_nothing(gateway_folder: GatewayFolder, peer: FakePeer) -> None:
    fill_peer(peer)
    peer.add("hidden", {})
    ran = await gateway_folder.run_import(peer, "--dry-run", code=1)
    assert (ran.report["imported"], ran.report["refused"], ran.report["dry_run"]) == (1, 1, True)
    assert ran.report["reasons"][0]["reason"] == "credentials_hidden"
    assert await gateway_folder.list_connections() == []


async def test_many_pages_are_read_and_each_connection_arrives_once_even_where_pages_are_short(
    gateway_folder: GatewayFolder, peer: FakePeer
) -> None:
    peer.max_page_size = 7
    for n in range(40):
        peer.add(f"c{n}", oauth(n), connection_config=SITE)
    ran = await gateway_folder.run_import(peer, "--at-once", "3")
    assert ran.report["imported"] == 40
    assert {connection["connection_id"] for connection in await gateway_folder.list_connections()} == {
        f"c{n}" for n in range(40)
    }
    assert 1 <= peer.max_at_once <= 3


async def test_page_that_ends_early_is_continued_with_its_cursor(gateway_folder: GatewayFolder, peer: FakePeer) -> None:
    """A page of this gateway ends at a number of bytes, for example if the connections have much metadata."""
    peer.rows_before_cursor = 3
    for n in range(8):
        peer.add(f"c{n}", oauth(n), connection_config=SITE)
    ran = await gateway_folder.run_import(peer)
    assert ran.report["imported"] == 8


async def test_an_interrupted_import_continues_without_fetching_existing_connections(
    gateway_folder: GatewayFolder, peer: FakePeer
) -> None:
    for n in range(6):
        peer.add(f"c{n}", oauth(n), connection_config=SITE)
    peer.faults["/connections/c3"] = [refused(401, "unknown_account", "the key was revoked")]
    broken = await gateway_folder.run_import(peer, "--at-once", "1", code=1)
    assert "does not accept this key" in broken.output
    assert {connection["connection_id"] for connection in await gateway_folder.list_connections()} == {"c0", "c1", "c2"}
    before = peer.calls.copy()
    again = await gateway_folder.run_import(peer)
    assert (again.report["imported"], again.report["skipped"]) == (3, 3)
    assert [peer.calls[f"/connections/c{n}"] - before[f"/connections/c{n}"] for n in range(6)] == [0, 0, 0, 1, 1, 1]
    assert len(await gateway_folder.list_connections()) == 6


async def test_import_waits_for_the_rate_limit_of_the_peer(
    make_gateway_folder: Callable[..., GatewayFolder], peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway_folder, now, waits = make_gateway_folder(), [0.0], []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("gateway.clock.sleep", sleep)
    monkeypatch.setattr("gateway.clock.monotonic", lambda: now[0])
    peer.add("c1", oauth(1), connection_config=SITE)
    limit = {"Retry-After": "42"}
    peer.faults["/connections"] = [refused(429, "too_many_request", "", **limit)]
    peer.faults["/connections/c1"] = [refused(503, "x", ""), refused(429, "too_many_request", "", **limit)]
    assert (await gateway_folder.run_import(peer)).report["imported"] == 1
    assert waits[0] == pytest.approx(42)
    assert waits[-1] == pytest.approx(42)
    assert 0.5 <= waits[1] <= 1.0


async def test_unusable_connections_are_reported_and_the_others_imported(
    gateway_folder: GatewayFolder, peer: FakePeer, tmp_path: Path
) -> None:
    for n, name in enumerate(["good", "dead", "gone", "other", "lost"]):
        peer.add(name, oauth(n), connection_config=SITE)
    peer.connections[3]["credentials"] = {"type": "API_KEY", "apiKey": "k"}
    peer.connections[4]["provider_config_key"] = "trakker"
    peer.dead.add("dead")
    peer.hidden_from_get.add("gone")
    report = tmp_path / "report.jsonl"
    ran = await gateway_folder.run_import(peer, "--report", str(report), code=1)
    rows = {row["connection_id"]: row for row in map(json.loads, report.read_text().splitlines())}
    assert {name: row.get("reason") for name, row in rows.items()} == {
        "good": None,
        "dead": "dead_at_peer",
        "gone": "gone",
        "other": "invalid_body",
        "lost": "unknown_integration",
    }
    assert "did you mean 'tracker'?" in rows["lost"]["detail"]
    assert (ran.report["imported"], ran.report["refused"]) == (1, 4)
    assert report.stat().st_mode & 0o777 == 0o600
    assert "rt-" not in report.read_text() + ran.output
    assert KEY not in ran.output


@pytest.mark.parametrize("odd", ["yesterday", "Invalid Date"])
async def test_unreadable_expiry_counts_as_now(
    odd: str, gateway_folder: GatewayFolder, peer: FakePeer, running: RunningGateway, tracker: Tracker
) -> None:
    grant = tracker.grant()
    peer.add("c1", oauth(1, expires_at=odd, refresh_token=grant["refresh_token"]), connection_config=SITE)
    ran = await gateway_folder.run_import(peer)
    assert any("expires_at could not be read" in note for note in ran.report["notes"])
    async with running.call_proxy("c1") as response:
        assert response.status == 200
    assert [request["grant_type"] for request in tracker.token_requests] == ["refresh_token"]


@pytest.mark.parametrize("number", [1893456000, 1893456000000, "1893456000"])
async def test_an_expiry_in_numbers_is_read(
    number: object, gateway_folder: GatewayFolder, peer: FakePeer, running: RunningGateway
) -> None:
    peer.add("c1", oauth(1, expires_at=number), connection_config=SITE)
    await gateway_folder.run_import(peer)
    connection = await running.json("GET", "/connections/c1?provider_config_key=tracker", expect=200)
    assert connection["credentials"]["expires_at"] == "2030-01-01T00:00:00.000Z"


async def test_a_key_that_may_not_see_credentials_is_reported_with_the_scope_it_lacks(
    gateway_folder: GatewayFolder, peer: FakePeer
) -> None:
    peer.add("c1", oauth(1), connection_config=SITE)
    peer.scopes.clear()
    ran = await gateway_folder.run_import(peer, code=1)
    assert "environment:connections:read_credentials" in ran.output
    assert await gateway_folder.list_connections() == []


async def test_integrations_are_created_with_their_client_if_requested_and_mapped_names_are_used(
    make_gateway_folder: Callable[..., GatewayFolder], peer: FakePeer
) -> None:
    client = {"type": "OAUTH2", "client_id": "cid", "client_secret": "s3cret", "scopes": "a,b", "webhook_secret": None}
    peer.integrations = {"old": {"provider": "tracker", "credentials": client}, "odd": {"provider": "trackr"}}
    peer.add("c1", oauth(1), key="old", connection_config=SITE)
    other_gateway = make_gateway_folder()
    wanted = ("--create-integrations", "--integration", "old=new")
    dry = await other_gateway.run_import(peer, *wanted, "--dry-run", code=1)
    assert (dry.report["imported"], dry.report["integrations"]["made"]) == (1, ["new"])
    assert "did you mean 'tracker'?" in dry.report["integrations"]["faults"]["odd"]
    assert await other_gateway.list_connections() == []
    done = await other_gateway.run_import(peer, *wanted, "--only", "old")
    assert (done.report["imported"], done.report["integrations"]["made"]) == (1, ["new"])
    assert [connection["provider_config_key"] for connection in await other_gateway.list_connections()] == ["new"]
    assert "s3cret" not in done.output
    exported = other_gateway.folder / "plain.jsonl"
    await other_gateway.run_command("export", "-o", str(exported), "--plain")
    kept = [json.loads(line) for line in exported.read_text().splitlines()]
    assert next(item for item in kept if item.get("unique_key") == "new")["credentials"]["client_secret"] == "s3cret"


async def test_existing_connection_is_kept_replaced_or_refused_as_requested(
    gateway_folder: GatewayFolder, peer: FakePeer, running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant(), metadata={"from": "here"})
    peer.add("c1", oauth(1), connection_config=SITE, metadata={"from": "there"})
    assert (await gateway_folder.run_import(peer)).report["skipped"] == 1
    refusal = await gateway_folder.run_import(peer, "--on-conflict", "fail", code=1)
    assert refusal.report["reasons"][0]["reason"] == "conflict"
    assert (await gateway_folder.list_connections())[0]["metadata"] == {"from": "here"}
    assert (await gateway_folder.run_import(peer, "--on-conflict", "replace")).report["replaced"] == 1
    assert [connection["metadata"] for connection in await gateway_folder.list_connections()] == [{"from": "there"}]


async def test_a_test_refresh_warns_before_and_reports_the_results_after(
    gateway_folder: GatewayFolder, peer: FakePeer, tracker: Tracker
) -> None:
    for name, grant in (("good", tracker.grant()), ("bad", {"refresh_token": "unknown"})):
        peer.add(name, oauth(1, refresh_token=grant["refresh_token"]), connection_config=SITE)
    ran = await gateway_folder.run_import(peer, "--test-refresh", "--refresh-rate", "500", code=1)
    assert "the old system's tokens stop working" in ran.output
    assert ran.report["renewed"] == {"renewed": 1, "failed": 1}
    assert {
        connection["connection_id"]: connection["state"] for connection in await gateway_folder.list_connections()
    } == {
        "good": "active",
        "bad": "needs_reauth",
    }


async def test_key_is_sent_to_no_other_server_and_never_over_plain_http(
    gateway_folder: GatewayFolder, peer: FakePeer
) -> None:
    peer.faults["/connections"] = [web.Response(status=302, headers={"Location": "https://elsewhere.example/"})]
    ran = await gateway_folder.run_import(peer, code=1)
    assert "redirects to https://elsewhere.example/" in ran.output
    remote = await gateway_folder.run_command(
        "import", "--from-peer", "http://peer.example", "--key-env", "PEER_KEY", code=1
    )
    assert "plain http" in remote.output


async def test_the_url_of_a_dashboard_is_reported(gateway_folder: GatewayFolder, peer: FakePeer) -> None:
    peer.faults["/connections"] = [web.Response(text="<html>", content_type="text/html")]
    assert "not of its dashboard" in (await gateway_folder.run_import(peer, code=1)).output


@pytest.mark.parametrize(
    "arguments", [[], ["x", "--from-peer", "http://127.0.0.1:9"], ["--from-peer", "http://127.0.0.1:9"]]
)
async def test_import_needs_exactly_one_source_and_its_key(arguments: list[str], gateway_folder: GatewayFolder) -> None:
    assert "Usage:" in (await gateway_folder.run_command("import", *arguments, code=2)).output


async def test_peer_may_be_another_gateway_of_this_kind(
    running: RunningGateway,
    tracker: Tracker,
    make_gateway_folder: Callable[..., GatewayFolder],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PEER_KEY", SECRET_KEY)
    await running.import_connection(tracker.grant(), "c 1/x", metadata={"a": 1}, end_user={"id": "u1"})
    other_gateway = make_gateway_folder()
    done = await other_gateway.run_command(
        "import", "--from-peer", running.url, "--key-env", "PEER_KEY", "--test-refresh"
    )
    assert (done.report["imported"], done.report["renewed"]) == (1, {"renewed": 1})
    assert [
        (connection["connection_id"], connection["metadata"]) for connection in await other_gateway.list_connections()
    ] == [("c 1/x", {"a": 1})]
