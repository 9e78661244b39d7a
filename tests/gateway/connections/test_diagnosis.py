"""The diagnosis of a connection: its state in lists, its history, likely causes and how to fix them."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from gateway import clock, config
from gateway.api.connection_json import history_json
from gateway.app import generations
from gateway.connections.diagnosis import ConnectionDiagnosis, diagnose_connection
from gateway.records.connection import ConnectionRef
from gateway.records.states import RESTORED, Change, State
from gateway.store.history import MAX_ENTRIES
from tests.fakes.commands import command_output
from tests.fakes.gateways import RunningGateway, tracker_entry, write_entry
from tests.fakes.tracker import Tracker

URL = "/connections/c1?provider_config_key=tracker&include=history"
FORCED_REFRESH_URL = "/connections/c1?provider_config_key=tracker&force_refresh=true"
CAUSES = {
    "invalid_grant": ("needs_reauth", "access_taken_back", "reconnect"),
    "token_revoked": ("revoked", "access_taken_back", "reconnect"),
    "invalid_client": ("needs_reauth", "client_refused", "fix_integration"),
    "invalid_scope": ("needs_reauth", "request_refused", "fix_integration"),
    "no such error": ("degraded", "refused_without_reason", "wait"),
    "temporarily_unavailable": ("degraded", "provider_outage", "wait"),
}


async def listed_connection(running: RunningGateway) -> Any:
    return (await running.json("GET", "/connections"))["connections"][0]


async def test_a_healthy_connection_is_active_and_its_history_begins_with_its_authorization(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    assert (await listed_connection(running))["state"] == "active"
    body = await running.json("GET", URL, expect=200)
    assert [(change["state"], change["reason"]) for change in body["history"]] == [("active", "authorized")]
    assert body["diagnosis"]["causes"] == []
    assert body["diagnosis"]["action"]["do"] == "none"
    assert "history" not in await running.json("GET", URL.replace("&include=history", ""))


@pytest.mark.parametrize("code", CAUSES)
async def test_each_token_endpoint_error_has_a_state_a_likeliest_cause_and_an_action(
    code: str, running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": code, "error_description": "the words"}, status=400)
    body = (await running.json("GET", URL))["error"]["payload"]["connection"]
    found = body["diagnosis"]
    assert (found["state"], found["causes"][0]["cause"], found["action"]["do"]) == CAUSES[code]
    assert (await listed_connection(running))["state"] == CAUSES[code][0]
    assert body["history"][-1]["previous_state"] == "active"
    assert "refresh-0" not in json.dumps(body)


async def test_flapping_provider_adds_one_history_entry_per_change(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    for _ in range(2):
        tracker.response = web.Response(status=503)
        for _ in range(3):
            advance_clock(3601)
            await running.json("GET", FORCED_REFRESH_URL)
        tracker.response = None
        advance_clock(3601)
        await running.json("GET", FORCED_REFRESH_URL, expect=200)
    body = await running.json("GET", URL, expect=200)
    states = [change["state"] for change in body["history"]]
    assert states == ["active", "degraded", "active", "degraded", "active"]


async def test_history_keeps_its_last_entries_and_is_deleted_with_its_connection(
    running: RunningGateway, tracker: Tracker
) -> None:
    for _ in range(MAX_ENTRIES + 5):
        await running.import_connection(tracker.grant())
    body = await running.json("GET", URL, expect=200)
    assert len(body["history"]) == MAX_ENTRIES
    assert {change["reason"] for change in body["history"]} == {"reconnected"}
    await running.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    assert await running.runtime.store.history.changes_of(body["id"]) == []


async def test_expired_token_without_a_refresh_token_is_reported_as_such(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    grant = tracker.grant()
    del grant["refresh_token"]
    await running.import_connection(grant)
    advance_clock(3601)
    for _ in range(2):
        body = await running.json("GET", URL, expect=424)
        assert body["error"]["payload"]["reason"] == "no_refresh_token"
    found = body["error"]["payload"]["connection"]["diagnosis"]
    assert (found["state"], found["causes"][0]["cause"]) == ("needs_reauth", "no_refresh_token")


async def test_timeline_has_no_refresh_token_expiry_without_a_refresh_token(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    grant = tracker.grant()
    del grant["refresh_token"]
    await running.import_connection(grant)
    advance_clock(3601)
    body = (await running.json("GET", URL, expect=424))["error"]["payload"]["connection"]
    assert body["dies_at"] is not None
    timeline = [moment["what"] for moment in body["diagnosis"]["timeline"]]
    assert "access token expired" in timeline
    assert [what for what in timeline if "refresh token" in what] == []


async def test_command_shows_the_same_history(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    await running.import_connection(tracker.grant())
    tracker.response = web.json_response({"error": "invalid_grant", "error_description": "gone for good"}, status=400)
    await running.json("GET", FORCED_REFRESH_URL, expect=424)
    file = running.folder / "gateway.yaml"
    file.write_text(json.dumps(running.document))

    async def command(*arguments: str) -> tuple[int, str]:
        output = await command_output("connections", "why", "-c", str(file), *arguments)
        return output.code, output.out + output.err

    code, text = await command("c1")
    assert code == 0, text
    assert "c1 (tracker) is needs_reauth since" in text
    assert "1. The end user or an administrator revoked the access" in text
    assert "gone for good" in text
    assert "POST /connect/sessions/reconnect" in text
    code, text = await command("c1", "--json")
    assert json.loads(text)["diagnosis"]["action"]["do"] == "reconnect"
    code, text = await command("nobody")
    assert (code, "no connection 'nobody'" in text) == (1, True)


async def test_after_a_reload_with_another_client_the_action_is_to_wait(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": "invalid_client"}, status=401)
    for _ in range(3):  # longer and longer waits
        await running.json("GET", FORCED_REFRESH_URL, expect=424)
        advance_clock(600)
    await running.json("GET", FORCED_REFRESH_URL, expect=424)
    row = await running.runtime.store.connections.get(ConnectionRef("dev", "tracker", "c1"))
    assert row is not None
    refused = (await history_json(running.runtime, running.runtime.generation, row))["diagnosis"]
    assert refused["action"]["do"] == "fix_integration"
    assert [item["what"] for item in refused["timeline"] if item["ahead"]] == ["next try"]
    running.document["environments"]["dev"]["integrations"]["tracker"]["client_secret"] = "corrected"
    generations.replace_generation(
        running.runtime, generations.check_configuration(config.parse(running.document, base=running.folder))
    )
    loaded = (await history_json(running.runtime, running.runtime.generation, row))["diagnosis"]
    assert (loaded["causes"], loaded["action"]["do"]) == (refused["causes"], "wait")
    assert "the next call tries a refresh" in loaded["action"]["how"]
    assert loaded["timeline"][-1]["what"] == "client loaded again: the next call tries a refresh"
    assert not [item for item in loaded["timeline"] if item["ahead"]]
    elsewhere = await history_json(running.runtime, running.runtime.generation, row, in_serving_process=False)
    assert elsewhere["diagnosis"] == refused


async def test_an_outage_after_a_refusal_does_not_hide_the_refusal(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": "invalid_client", "error_description": "wrong secret"}, status=401)
    await running.json("GET", FORCED_REFRESH_URL, expect=424)
    advance_clock(600)
    tracker.response = web.Response(text="<h1>maintenance</h1>", content_type="text/html", status=503)
    body = (await running.json("GET", URL, expect=503))["error"]["payload"]["connection"]
    found = body["diagnosis"]
    assert found["state"] == "needs_reauth"
    assert [one["cause"] for one in found["causes"]] == ["client_refused", "access_taken_back", "provider_outage"]
    assert "wrong secret" in found["causes"][0]["why"]
    assert found["action"]["do"] == "fix_integration"


@pytest.mark.parametrize(
    ("integrations", "cause", "why", "how"),
    [
        (
            {"renamed": {"provider": "tracker"}},
            "integration_missing",
            "has no integration 'tracker'",
            "Declare integration",
        ),
        ({"tracker": {"provider": "other"}}, "provider_changed", "now uses 'other'", "Set the provider"),
    ],
)
async def test_diagnosis_of_a_connection_names_a_removed_or_changed_integration(
    integrations: dict[str, Any], cause: str, why: str, how: str, running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    write_entry(running.folder, "other", tracker_entry("https://other.example.com"))
    declared = running.document["environments"]["dev"]["integrations"]
    client = declared.pop("tracker")
    declared.update({name: client | changed for name, changed in integrations.items()})
    file = running.folder / "gateway.yaml"
    file.write_text(json.dumps(running.document))
    output = await command_output("connections", "why", "-c", str(file), "c1", "--json")
    found = json.loads(output.out)["diagnosis"]
    assert (found["causes"][0]["cause"], found["action"]["do"]) == (cause, "fix_integration")
    assert why in found["causes"][0]["why"]
    assert found["action"]["how"].startswith(how)


async def test_unknown_include_is_refused(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    body = await running.json("GET", URL.replace("history", "everything"), expect=400)
    assert body["error"]["code"] == "invalid_query_params"


async def diagnosis_with(running: RunningGateway, *extra: Change) -> ConnectionDiagnosis:
    """Return the diagnosis of the connection with `extra` at the end of its history."""
    row = await running.runtime.store.connections.get(ConnectionRef("dev", "tracker", "c1"))
    assert row is not None
    changes = await running.runtime.store.history.changes_of(row.id)
    row = replace(row, state=extra[-1].state if extra[-1].reason != RESTORED else row.state)
    generation = running.runtime.generation
    return diagnose_connection(
        row,
        [*changes, *extra],
        generation.catalog.get("tracker"),
        clock.now(),
        integration=generation.integrations.find("dev", "tracker"),
    )


@pytest.mark.parametrize("ended_before", [False, True])
async def test_restore_is_a_cause_only_if_the_connection_was_active_in_the_backup(
    ended_before: bool, running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": "invalid_grant"}, status=400)
    await running.json("GET", URL)
    at_backup = State.NEEDS_REAUTH if ended_before else State.ACTIVE
    found = await diagnosis_with(running, Change(clock.now(), at_backup, RESTORED, "from a backup", at_backup))
    expected = [] if ended_before else [RESTORED]
    assert [cause.name for cause in found.causes] == [*expected, "access_taken_back"]


async def test_history_is_in_the_order_of_writes_not_of_timestamps(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    earlier = clock.now() - timedelta(minutes=1)
    found = await diagnosis_with(running, Change(earlier, State.NEEDS_REAUTH, "invalid_grant"))
    past = [moment.what for moment in found.moments if not moment.ahead]
    assert past == ["active: authorized", "needs_reauth: invalid_grant"]
