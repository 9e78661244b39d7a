"""A reload while requests are in flight applies the whole new configuration or nothing."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog
import yaml

import gateway
from gateway import clock
from gateway import config as configuration
from gateway.app.reload import reload
from gateway.egress.limits import ConcurrencySettings
from gateway.observe.metrics import RELOADS
from gateway.observe.metrics_text import total
from gateway.records.connection import ConnectionRef
from gateway.runtime import RUNTIME
from tests.fakes.gateways import ENCRYPTION_KEY, RunningGateway, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

OTHER_KEY = "sk-other-0123456789abcdef"


@pytest.fixture
def log_events() -> Iterator[list[dict[str, Any]]]:
    with structlog.testing.capture_logs() as logs:
        yield logs


def write(running: RunningGateway) -> None:
    """Write the current document to the file that a reload reads."""
    (running.folder / "gateway.yaml").write_text(yaml.safe_dump(running.document))


async def reload_gateway(running: RunningGateway) -> bool:
    write(running)
    return await reload(running.app, running.folder / "gateway.yaml")


async def status(running: RunningGateway, connection_id: str = "c1", **options: Any) -> int:
    async with running.call_proxy(connection_id, **options) as response:
        found: int = response.status
        return found


async def test_keys_and_environments_are_added_and_removed(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    environments = running.document["environments"]
    environments["live"] = {
        "secret_keys": [OTHER_KEY],
        "integrations": {"tracker": environments["dev"]["integrations"]["tracker"]},
    }
    assert await reload_gateway(running)
    assert await status(running) == 200
    running.headers = {"Authorization": f"Bearer {OTHER_KEY}"}
    assert await status(running) == 404  # the other environment has no connections yet
    await running.import_connection(tracker.grant())  # the new environment has its data key
    assert await status(running) == 200
    del environments["live"]
    assert await reload_gateway(running)
    assert await status(running) == 401


async def test_connection_of_a_removed_integration_is_unavailable_until_the_integration_returns(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    integrations = running.document["environments"]["dev"]["integrations"]
    token = await running.session_token()
    kept = integrations.pop("tracker")
    assert await reload_gateway(running)
    async with running.call_proxy("c1") as response:
        assert (response.status, response.headers["Gateway-Error"]) == (404, "unknown_provider_config")
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={token}"
    async with running.http.get(begin, allow_redirects=False) as response:
        assert response.status in {400, 404}
    assert running.app[RUNTIME].live.entry_count == 0
    integrations["tracker"] = kept
    assert await reload_gateway(running)
    assert await status(running) == 200


async def test_log_names_the_integrations_that_a_reload_removes(
    running: RunningGateway, log_events: list[dict[str, Any]]
) -> None:
    integrations = running.document["environments"]["dev"]["integrations"]
    integrations["renamed"] = integrations.pop("tracker")
    assert await reload_gateway(running)
    assert await reload_gateway(running)
    first, second = (line for line in log_events if line["event"] == "reloaded")
    assert (first["integrations_removed"], second["integrations_removed"]) == (["dev/tracker"], None)


async def test_changed_entry_applies_from_the_next_request(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await status(running) == 200
    entry = tracker_entry(tracker.url)
    entry["proxy"] = {"base_url": f"{tracker.url}/v2"}
    write_entry(running.folder, "tracker", entry)
    assert await reload_gateway(running)
    async with running.call_proxy("c1", "/x") as response:
        assert (await response.json())["path"] == "/v2/x"


async def test_unchanged_connections_stay_in_memory(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await status(running) == 200
    runtime = running.app[RUNTIME]
    before = runtime.generation
    running.document["environments"]["empty"] = {}
    assert await reload_gateway(running)
    assert running.app[RUNTIME] is runtime
    assert runtime.generation is not before
    assert runtime.generation.egress is before.egress
    assert runtime.live.peek(ConnectionRef("dev", "tracker", "c1")) is not None


async def test_allowed_networks_are_removed_and_added(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await status(running) == 200
    allowed = running.document["egress"].pop("allow")
    assert await reload_gateway(running)
    assert await status(running) == 400  # address_refused, also on an idle connection
    running.document["egress"]["allow"] = allowed
    assert await reload_gateway(running)
    assert await status(running) == 200


async def test_a_reload_takes_over_a_new_public_url(running: RunningGateway) -> None:
    running.document["server"]["public_url"] = "http://localhost:4000/gw"
    assert await reload_gateway(running)
    session = await running.json("POST", "/connect/sessions", json={"end_user": {"id": "u1"}}, expect=201)
    assert session["data"]["connect_link"].startswith("http://localhost:4000/gw/connect")


async def test_request_ends_with_the_configuration_that_it_started_with(
    running: RunningGateway, tracker: Tracker
) -> None:
    """Remove the integration while the request's token is being refreshed."""
    tracker.ttl_s = 0.001
    await running.import_connection(tracker.grant())
    tracker.ttl_s = 3600
    tracker.hold.clear()
    call = asyncio.create_task(status(running))
    async with asyncio.timeout(PATIENCE_S):
        while not tracker.calls["refresh_token"]:
            await asyncio.sleep(0)
    running.document["server"]["public_url"] = "http://localhost:4000"
    assert await reload_gateway(running)
    tracker.hold.set()
    assert await call == 200


async def test_running_stream_continues_after_its_network_is_removed(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await status(running) == 200
    tracker.hold_api.clear()
    before = tracker.calls["api"]
    call = asyncio.create_task(status(running))
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["api"] == before:
            await asyncio.sleep(0)
    former = running.runtime.generation.egress
    running.document["egress"]["allow"] = ["127.0.0.0/8"]
    assert await reload_gateway(running)
    assert running.runtime.generation.egress is not former
    assert list(running.runtime.retired) == [former]
    tracker.hold_api.set()
    assert await call == 200
    async with asyncio.timeout(PATIENCE_S):
        while list(running.runtime.retired):  # until the former egress has closed its last connection
            await asyncio.sleep(0)
    assert list(former.load()) == []


async def test_idle_connections_are_closed_after_their_network_is_removed(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    assert await status(running) == 200
    former = running.runtime.generation.egress
    assert [load.idle for _, load in former.load()] == [1]
    running.document["egress"]["timeouts"] = {"connect_s": 3}
    assert await reload_gateway(running)
    async with asyncio.timeout(PATIENCE_S):
        while list(running.runtime.retired):
            await asyncio.sleep(0)
    assert await status(running) == 200
    assert running.runtime.generation.egress.timeouts.connect_s == 3


async def test_new_limits_apply_to_providers_that_were_called_before(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await status(running) == 200
    running.document["egress"]["limits"] = {"outstanding": 1, "waiting": 1, "wait_s": 9}
    assert await reload_gateway(running)
    assert [gate.concurrency.limits for gate in running.runtime.egress_limits] == [ConcurrencySettings(1, 1, 9)]


async def test_refresh_releases_its_lease_if_its_integration_is_removed(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker.ttl_s = 0.001
    await running.import_connection(tracker.grant())
    tracker.ttl_s = 3600
    store = running.runtime.store.refreshes
    lease = store.lease_refresh
    integrations = running.document["environments"]["dev"]["integrations"]

    async def lease_and_reload(*args: Any, **options: Any) -> bool:
        taken = await lease(*args, **{**options, "ttl": timedelta(days=1)})
        kept.append(integrations.pop("tracker"))
        assert await reload_gateway(running)
        return taken

    kept: list[dict[str, Any]] = []
    monkeypatch.setattr(store, "lease_refresh", lease_and_reload)
    assert await status(running) == 404
    assert not tracker.calls["refresh_token"]
    monkeypatch.undo()
    integrations["tracker"] = kept[0]
    assert await reload_gateway(running)
    async with asyncio.timeout(PATIENCE_S):  # a lease that was not released would block it for a day
        assert await status(running) == 200


async def test_metrics_use_the_current_integrations(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await status(running) == 200
    integrations = running.document["environments"]["dev"]["integrations"]
    integrations["other"] = integrations.pop("tracker")
    assert await reload_gateway(running)
    assert await status(running) == 404
    assert await status(running, integration="other") == 404
    metrics = running.runtime.metrics
    calls = {
        (key[2], key[5]): reported[0]
        for key, reported in total([metrics.page]).items()
        if key[0] == "gateway_proxy_requests_total"
    }
    assert calls == {("tracker", ""): 1, ("", "unknown_provider_config"): 1, ("other", "unknown_connection"): 1}
    running.document["environments"]["dev"]["secret_keys"] = ["short"]
    assert not await reload_gateway(running)
    reloads = {key[1]: reported[0] for key, reported in total([metrics.page]).items() if key[0] == RELOADS}
    assert reloads == {"taken": 1, "refused": 1}, "reloads of the catalog are counted separately"


async def test_reloads_follow_one_another(running: RunningGateway, log_events: list[dict[str, Any]]) -> None:
    configs = []
    for n in (1, 2, 3):
        running.document["live"] = {"ttl_s": n}
        configs.append(configuration.parse(running.document, base=running.folder, environ={}))
    assert all(await asyncio.gather(*(gateway.reload(running.app, config) for config in configs)))
    assert running.runtime.generation.config.live.ttl_s == 3


async def test_encryption_key_is_added_and_removed_without_a_restart(
    running: RunningGateway, tracker: Tracker, log_events: list[dict[str, Any]]
) -> None:
    await running.import_connection(tracker.grant())
    newer = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="
    running.document["store"]["encryption_keys"] = [newer, ENCRYPTION_KEY]
    assert await reload_gateway(running)
    done = await running.runtime.store.rotation.rotate(lambda _done, _total: None)
    assert (done.sealed, done.left, done.removed_keys) == (1, 0, 1)
    running.document["store"]["encryption_keys"] = [newer]
    assert await reload_gateway(running)
    assert await status(running) == 200
    await running.import_connection(tracker.grant(), "c2")
    assert not [event for event in log_events if event["event"] in ("needs_a_restart", "reload_refused")]


async def test_encryption_key_in_use_is_not_removed(
    running: RunningGateway, tracker: Tracker, log_events: list[dict[str, Any]]
) -> None:
    await running.import_connection(tracker.grant())
    running.document["store"]["encryption_keys"] = ["dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="]
    assert not await reload_gateway(running)
    assert "gateway keys rotate" in next(event["detail"] for event in log_events if event["event"] == "fault")
    assert await status(running) == 200
    await running.import_connection(tracker.grant(), "c2")


async def test_a_new_client_counts_as_used_only_since_the_end_of_the_reload(running: RunningGateway) -> None:
    """Until the configuration is replaced, providers refuse the former client: that says nothing about the new one."""
    accepted: list[datetime] = []
    running.document["environments"]["dev"]["integrations"]["tracker"]["client_secret"] = "another-secret"
    write(running)
    assert await reload(
        running.app, running.folder / "gateway.yaml", accept=lambda _ready: accepted.append(clock.now())
    )
    since = running.runtime.generation.integrations.client_since("dev", "tracker")
    assert since is not None
    assert since >= accepted[0]
