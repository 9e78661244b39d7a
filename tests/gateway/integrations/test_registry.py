"""Integrations by environment and key: a declared integration hides one created through the API."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from gateway import clock
from gateway.clock import Offset
from gateway.errors import NotFound
from gateway.integrations.registry import Integrations, ManagedIntegrations
from gateway.records.integration import ApiManagedRow, Integration
from gateway.secret import Secret


def integration_with(key: str, provider: str = "jira", environment: str = "dev") -> Integration:
    return Integration(environment=environment, integration_id=key, provider=provider)


def test_declared_integration_hides_an_api_managed_one_with_the_same_key() -> None:
    managed = ManagedIntegrations([integration_with("jira", "made"), integration_with("slack", "slack")])
    both = Integrations([integration_with("jira", "declared")], managed)
    assert both.get("dev", "jira").provider == "declared"
    assert [(each.integration_id, each.provider) for each in both.list_in("dev")] == [
        ("jira", "declared"),
        ("slack", "slack"),
    ]
    assert both.providers() == ["declared", "slack"]
    assert both.list_in("prod") == []


def test_an_integration_created_later_is_found_by_every_generation() -> None:
    managed = ManagedIntegrations()
    both = Integrations([], managed)
    assert managed.put("dev", "jira", integration_with("jira")) is True
    assert managed.put("dev", "jira", integration_with("jira")) is False  # nothing changed
    assert both.has("dev", "jira")
    assert managed.put("dev", "jira", None) is True
    assert managed.put("dev", "jira", None) is False
    assert not both.has("dev", "jira")


def test_loading_replaces_all_integrations_and_each_write_is_counted() -> None:
    managed = ManagedIntegrations([integration_with("jira")])
    managed.replace_all([integration_with("slack")])
    assert [key for key, _ in managed.items()] == [("dev", "slack")]
    managed.put("dev", "slack", None)
    assert managed.changes == 2


def test_an_unknown_key_shows_the_nearest() -> None:
    found = Integrations([integration_with("github")], ManagedIntegrations())
    with pytest.raises(NotFound, match="Did you mean 'github'") as refused:
        found.get("dev", "githb")
    assert (refused.value.code, refused.value.payload) == (
        "unknown_provider_config",
        {"provider_config_key": "githb"},
    )
    with pytest.raises(NotFound, match="GET /integrations lists"):
        found.get("prod", "github")


def test_time_of_the_client_is_the_time_of_its_last_change(advance_clock: Callable[[float], None]) -> None:
    row = ApiManagedRow("u1", 1, clock.now(), clock.now() - timedelta(days=1))
    managed = ManagedIntegrations(
        [replace(integration_with("slack"), managed_row=row), replace(integration_with("jira"), managed_row=row)]
    )
    first = Integrations([integration_with("jira"), integration_with("github")], managed)
    started = first.client_since("dev", "jira")
    assert started is not None
    assert first.client_since("dev", "slack") == row.updated_at
    advance_clock(60)
    second = Integrations(
        [integration_with("jira"), replace(integration_with("github"), client_secret=Secret("new"))], managed, first
    )
    assert second.client_since("dev", "jira") == started, "this reload did not change the client of jira"
    changed = second.client_since("dev", "github")
    assert changed is not None
    assert changed >= started + timedelta(seconds=60)
    assert second.client_since("dev", "asana") is None
    with_display_name = Integrations([replace(integration_with("jira"), display_name="Jira, ours")], managed, second)
    assert with_display_name.client_since("dev", "jira") == started, "a new display name does not change the client"


def test_clock_offset_measured_after_the_start_moves_the_time_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "offset", Offset())  # an earlier test may have left an offset
    first = Integrations([integration_with("jira")], ManagedIntegrations())
    before = first.client_since("dev", "jira")
    offset, now = Offset(), clock.machine()
    offset.add_measurement(now, now, now - timedelta(seconds=42))
    monkeypatch.setattr(clock, "offset", offset)
    after = first.client_since("dev", "jira")
    assert before is not None
    assert after is not None
    assert before - after == timedelta(seconds=42)
