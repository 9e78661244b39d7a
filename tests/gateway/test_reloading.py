"""Another configuration while requests go on: all of it, or none of it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog
import yaml
from aiohttp import web

import gateway
from gateway import config as configuration
from gateway.reloading import reload
from gateway.services import SERVICES
from tests.fakes.gateways import ENCRYPTION_KEY, RunningGateway, tracker_entry, write_entry
from tests.fakes.tracker import Tracker

OTHER_KEY = "sk-other-0123456789abcdef"


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    with structlog.testing.capture_logs() as logs:
        yield logs


def write(running: RunningGateway) -> None:
    """The document as it stands now, into the file that a reload reads."""
    (running.folder / "gateway.yaml").write_text(yaml.safe_dump(running.document))


async def reloaded(running: RunningGateway) -> bool:
    write(running)
    return await reload(running.app, configuration.load(running.folder / "gateway.yaml", environ={}))


async def status(running: RunningGateway, connection_id: str = "c1", **options: Any) -> int:
    async with running.proxied(connection_id, **options) as answer:
        found: int = answer.status
        return found


async def test_keys_and_environments_come_and_go(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    environments = running.document["environments"]
    environments["live"] = {
        "secret_keys": [OTHER_KEY],
        "integrations": {"tracker": environments["dev"]["integrations"]["tracker"]},
    }
    assert await reloaded(running)
    assert await status(running) == 200
    running.headers = {"Authorization": f"Bearer {OTHER_KEY}"}
    assert await status(running) == 404  # its own connections: none yet
    await running.imported(tracker.grant())  # the new environment has its data key
    assert await status(running) == 200
    del environments["live"]
    assert await reloaded(running)
    assert await status(running) == 401


async def test_a_connection_of_a_removed_integration_is_gone_until_it_returns(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.imported(tracker.grant())
    integrations = running.document["environments"]["dev"]["integrations"]
    token = await running.session_token()
    kept = integrations.pop("tracker")
    assert await reloaded(running)
    async with running.proxied("c1") as answer:
        assert (answer.status, answer.headers["Gateway-Error"]) == (404, "unknown_provider_config")
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={token}"
    async with running.http.get(begin, allow_redirects=False) as answer:
        assert answer.status in {400, 404}
    assert running.app[SERVICES].live.kept == 0
    integrations["tracker"] = kept
    assert await reloaded(running)
    assert await status(running) == 200


async def test_a_changed_entry_counts_from_the_next_request_on(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    assert await status(running) == 200
    entry = tracker_entry(tracker.url)
    entry["proxy"] = {"base_url": f"{tracker.url}/v2"}
    write_entry(running.folder, "tracker", entry)
    assert await reloaded(running)
    async with running.proxied("c1", "/x") as answer:
        assert (await answer.json())["path"] == "/v2/x"


async def test_what_has_not_changed_stays_in_memory(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    assert await status(running) == 200
    before = running.app[SERVICES]
    running.document["environments"]["empty"] = {}
    assert await reloaded(running)
    after = running.app[SERVICES]
    assert after is not before
    assert (after.live, after.store, after.egress, after.renewer) == (
        before.live,
        before.store,
        before.egress,
        before.renewer,
    )
    (kept,) = after.live._kept.values()
    assert kept.opened is not None


async def test_networks_are_closed_and_opened(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    assert await status(running) == 200
    allowed = running.document["egress"].pop("allow")
    assert await reloaded(running)
    assert await status(running) == 400  # address_refused, also over a connection that was kept
    running.document["egress"]["allow"] = allowed
    assert await reloaded(running)
    assert await status(running) == 200


async def test_a_public_url_moves(running: RunningGateway) -> None:
    running.document["server"]["public_url"] = "http://localhost:4000/gw"
    assert await reloaded(running)
    assert running.app[SERVICES].flows.redirect_uri == "http://localhost:4000/gw/oauth/callback"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("server", "host"), "127.0.0.2"),
        (("server", "port"), 1),
        (("server", "workers"), 4),
        (("server", "drain_s"), 7),
        (("server", "admin_port"), 9100),
        (("server", "websocket_path"), "/ws"),
        (("store", "url"), "sqlite:///other.db"),
        (("store", "encryption_keys"), ["QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=", ENCRYPTION_KEY]),
    ],
)
async def test_what_needs_a_restart_is_told_and_stays(
    running: RunningGateway, told: list[dict[str, Any]], place: tuple[str, str], value: object
) -> None:
    before = running.app[SERVICES].config
    running.document[place[0]][place[1]] = value
    assert await reloaded(running)
    after = running.app[SERVICES].config
    assert (after.server, after.store) == (before.server, before.store)
    (warning,) = [event for event in told if event["event"] == "needs_a_restart"]
    assert warning["key"] == ".".join(place)
    line = next(
        n for n, text in enumerate((running.folder / "gateway.yaml").read_text().splitlines(), 1) if place[1] in text
    )
    assert warning["where"].endswith(f"gateway.yaml:{line}")


async def test_a_bad_file_changes_nothing_and_every_fault_is_told(
    running: RunningGateway, tracker: Tracker, told: list[dict[str, Any]]
) -> None:
    await running.imported(tracker.grant())
    environments = running.document["environments"]
    environments["dev"]["secret_keys"] = ["short"]
    environments["dev"]["integrations"]["x"] = {"provider": "tracker", "unheard_of": 1}
    write(running)
    before = running.app[SERVICES]
    before.config = replace(before.config, path=running.folder / "gateway.yaml")
    assert not await reload(running.app)
    assert running.app[SERVICES] is before
    faults = [event["detail"] for event in told if event["event"] == "fault"]
    assert len(faults) == 2
    assert all("gateway.yaml:" in fault for fault in faults)
    assert told[-1]["event"] == "reload_refused"
    assert await status(running) == 200


async def test_a_bad_catalog_changes_nothing(running: RunningGateway, told: list[dict[str, Any]]) -> None:
    (running.folder / "catalog" / "bad.yaml").write_text("auth_mode: NONSENSE\n")
    assert not await reloaded(running)
    assert any("bad.yaml:1" in event["detail"] for event in told if event["event"] == "fault")


async def test_an_unknown_provider_changes_nothing(running: RunningGateway, told: list[dict[str, Any]]) -> None:
    running.document["environments"]["dev"]["integrations"]["y"] = {"provider": "trackr"}
    assert not await reloaded(running)
    assert any("did you mean 'tracker'" in event["detail"] for event in told if event["event"] == "fault")


async def test_a_gateway_configured_in_python_is_reloaded_with_what_it_is_given(
    running: RunningGateway, told: list[dict[str, Any]]
) -> None:
    assert not await gateway.reload(running.app)
    assert any("gateway.reload" in event["detail"] for event in told if event["event"] == "fault")
    config = configuration.parse(running.document, base=running.folder, environ={})
    assert await gateway.reload(running.app, config)


async def test_a_request_begun_before_ends_under_the_configuration_it_began_with(
    running: RunningGateway, tracker: Tracker
) -> None:
    """Its token is being renewed while the integration it needs is taken away."""
    tracker.ttl_s = 0.001
    await running.imported(tracker.grant())
    tracker.ttl_s = 3600
    tracker.hold.clear()
    begun = asyncio.create_task(status(running))
    async with asyncio.timeout(10):
        while not tracker.calls["refresh_token"]:
            await asyncio.sleep(0)
    running.document["server"]["public_url"] = "http://localhost:4000"
    assert await reloaded(running)
    tracker.hold.set()
    assert await begun == 200


async def test_refreshes_are_counted_by_outcome(running: RunningGateway, tracker: Tracker) -> None:
    tracker.ttl_s = 0.001
    await running.imported(tracker.grant())
    tracker.ttl_s = 3600
    assert await status(running) == 200
    tracker.ttl_s = 0.001
    await running.imported(tracker.grant(), "c2")
    tracker.answer = web.json_response({"error": "invalid_grant"}, status=400)
    assert await status(running, "c2") == 424
    counters = running.app[SERVICES].metrics.snapshot().counters
    name = "gateway_token_refreshes_total"
    assert counters[name, "dev", "tracker", "renewed"] == 1
    assert counters[name, "dev", "tracker", "refused"] == 1


async def test_the_answer_tells_where_the_time_went(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    parts = []
    for _ in range(2):
        async with running.proxied("c1") as answer:
            told = answer.headers["Server-Timing"].split(", ")
            parts.append({name: float(dur) for name, _, dur in (part.partition(";dur=") for part in told)})
    cold, warm = parts
    assert list(warm) == ["gateway", "token", "upstream"]
    assert cold["token"] > 0 == warm["token"]
    assert warm["upstream"] > 0 < warm["gateway"]


async def test_a_failure_of_ours_tells_it_too(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    running.document["egress"].pop("allow")
    assert await reloaded(running)
    async with running.proxied("c1") as answer:
        assert (answer.status, answer.headers["Gateway-Error"]) == (400, "address_refused")
        assert answer.headers["Server-Timing"].startswith("gateway;dur=")
    async with running.http.get(running.url + "/providers", headers=running.headers) as answer:
        assert "Server-Timing" not in answer.headers
    (numbers,) = [told for whose, told in running.app[SERVICES].metrics.snapshot().exchanges.items() if whose[1]]
    assert numbers[12 + 4] == 1  # by the gateway, read, 4xx
