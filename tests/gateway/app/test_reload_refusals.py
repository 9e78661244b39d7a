"""A reload rejects a faulty file as a whole, and lists each setting that needs a restart."""

from collections.abc import Iterator
from typing import Any

import pytest
import structlog

import gateway
from gateway import config as configuration
from gateway.app.reload import reload
from gateway.runtime import RUNTIME
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.app.test_reload import reload_gateway, status, write


@pytest.fixture
def log_events() -> Iterator[list[dict[str, Any]]]:
    with structlog.testing.capture_logs() as logs:
        yield logs


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("server", "host"), "127.0.0.2"),
        (("server", "port"), 1),
        (("server", "workers"), 4),
        (("server", "drain_s"), 7),
        (("server", "notice_s"), 7),
        (("server", "admin_port"), 9100),
        (("server", "admin_port"), 0),
        (("server", "admin_host"), "127.0.0.2"),
        (("server", "websocket_path"), "/ws"),
        (("server", "limits"), {"connections": 7}),
        (("console", "port"), 9101),
        (("store", "url"), "sqlite:///other.db"),
        (("store", "pool"), {"readers": 7}),
        (("tracing", "connection_ids"), True),
    ],
)
async def test_setting_that_needs_a_restart_is_reported_and_kept(
    running: RunningGateway, log_events: list[dict[str, Any]], place: tuple[str, str], value: object
) -> None:
    before = running.app[RUNTIME].generation.config
    running.document.setdefault(place[0], {})[place[1]] = value
    assert await reload_gateway(running)
    after = running.app[RUNTIME].generation.config
    assert (after.server, after.store, after.tracing) == (before.server, before.store, before.tracing)
    (warning,) = [event for event in log_events if event["event"] == "needs_a_restart"]
    assert warning["setting"] == ".".join(place)
    line = next(
        n for n, text in enumerate((running.folder / "gateway.yaml").read_text().splitlines(), 1) if place[1] in text
    )
    assert warning["where"].endswith(f"gateway.yaml:{line}")


async def test_address_of_the_console_needs_a_restart(
    running: RunningGateway, log_events: list[dict[str, Any]]
) -> None:
    running.document["console"] = {"port": 9101, "host": "127.0.0.2"}
    assert await reload_gateway(running)
    after = running.app[RUNTIME].generation.config.console
    assert (after.port, after.host) == (None, None)
    ignored = [event["setting"] for event in log_events if event["event"] == "needs_a_restart"]
    assert ignored == ["console.port", "console.host"]


async def test_faulty_file_changes_nothing_and_every_fault_is_reported(
    running: RunningGateway, tracker: Tracker, log_events: list[dict[str, Any]]
) -> None:
    await running.import_connection(tracker.grant())
    environments = running.document["environments"]
    environments["dev"]["secret_keys"] = ["short"]
    environments["dev"]["integrations"]["x"] = {"provider": "tracker", "unheard_of": 1}
    write(running)
    running.configure(path=running.folder / "gateway.yaml")
    before = running.runtime.generation
    assert not await reload(running.app)
    assert running.runtime.generation is before
    faults = [event["detail"] for event in log_events if event["event"] == "fault"]
    assert len(faults) == 3  # the third is not in the file: an OAuth integration without a client
    assert all("gateway.yaml:" in fault for fault in faults)
    assert log_events[-1]["event"] == "reload_refused"
    assert await status(running) == 200


async def test_a_bad_catalog_changes_nothing(running: RunningGateway, log_events: list[dict[str, Any]]) -> None:
    (running.folder / "catalog" / "bad.yaml").write_text("auth_mode: NONSENSE\n")
    assert not await reload_gateway(running)
    assert any("bad.yaml:1" in event["detail"] for event in log_events if event["event"] == "fault")


async def test_an_unknown_provider_changes_nothing(running: RunningGateway, log_events: list[dict[str, Any]]) -> None:
    running.document["environments"]["dev"]["integrations"]["y"] = {"provider": "trackr"}
    assert not await reload_gateway(running)
    assert any("did you mean 'tracker'" in event["detail"] for event in log_events if event["event"] == "fault")


async def test_gateway_configured_in_python_needs_a_new_configuration_to_reload(
    running: RunningGateway, log_events: list[dict[str, Any]]
) -> None:
    assert not await gateway.reload(running.app)
    assert any("gateway.reload" in event["detail"] for event in log_events if event["event"] == "fault")
    config = configuration.parse(running.document, base=running.folder, environ={})
    assert await gateway.reload(running.app, config)
