"""An incident report: what a key or an integration did, as a page, as JSON and by command; and containment with
evidence."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.console import incident_report
from gateway.records.audit import AuditAction, AuditActor, AuditEntry, AuditFilter, CredentialUseCount, CredentialUseRef
from gateway.records.operation import Operation
from gateway.store.minted_keys import NewMintedKey
from tests.fakes.commands import command_output
from tests.fakes.console import at_console, csrf_token, operation
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


@pytest.fixture
async def stolen_key_id(running: RunningGateway, tracker: Tracker) -> int:
    """The id of a key that used two connections and minted another key, which used a third."""
    for name in ("c1", "c2", "c3"):
        await running.import_connection(tracker.grant(), name)
    body = {"display_name": "agent", "scopes": ["environment:proxy", "environment:api_keys:create"]}
    first = (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"]
    headers = {"Authorization": f"Bearer {first['secret']}"}
    request_body = {"display_name": "child", "scopes": ["environment:proxy"]}
    async with running.http.post(f"{running.url}/environment/api-keys", json=request_body, headers=headers) as response:
        second = (await response.json())["data"]
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    uses = [(first["id"], "c1", 30, 2), (first["id"], "c2", 5, 0), (second["id"], "c3", 7, 0), (0, "c2", 90, 0)]
    await running.runtime.store.uses.add_many(
        [
            CredentialUseCount(hour, CredentialUseRef("dev", "tracker", name, key), calls, bad)
            for key, name, calls, bad in uses
        ]
    )
    calls = [operation(n, key_id=first["id"], connection_id="c1") for n in range(3)]
    await running.runtime.store.call_log.add_many(calls)
    await running.runtime.audit_keeper.run_once()
    return int(first["id"])


async def test_report_on_a_key_includes_the_keys_that_it_minted(running: RunningGateway, stolen_key_id: int) -> None:
    async with at_console(running) as console:
        found = (await console.data(f"/dev/incident.json?key={stolen_key_id}&since=2h"))["report"]
        assert (found["uses"]["calls"], found["uses"]["failed"]) == (42, 2)
        used = [
            (connection["connection_id"], connection["calls"], connection["state"])
            for connection in found["connections"]
        ]
        assert used == [("c1", 30, "active"), ("c3", 7, "active"), ("c2", 5, "active")]
        assert [key["display_name"] for key in found["keys"]] == ["agent", "child"]
        assert len(found["calls"]) == 3
        assert "key.created" in [record["action"] for record in found["records"]]
        page = await console.page(f"/dev/incident?key={stolen_key_id}&since=2h")
        assert "tracker/c3" in page


async def test_report_lists_refused_calls_of_the_key_and_its_descendants(
    running: RunningGateway, stolen_key_id: int
) -> None:
    def call(n: int, **fields: Any) -> Operation:
        return operation(n, connection_id="c1", **fields)

    await running.runtime.store.call_log.add_many(
        [
            call(10, key_id=stolen_key_id, status=403, error_code="forbidden"),
            call(11, key_id=stolen_key_id + 1, status=429, error_code="too_many_request"),
            call(12, key_id=stolen_key_id, status=403),  # the provider's own 403
            call(9, key_id=stolen_key_id, status=404, error_code="unknown_connection"),
            call(13, key_id=stolen_key_id + 2, status=403, error_code="forbidden"),
            *(
                call(20 + n, key_id=stolen_key_id, status=403, error_code="forbidden", path="/items/10")
                for n in range(29)
            ),
        ]
    )
    async with at_console(running) as console:
        found = (await console.data(f"/dev/incident.json?key={stolen_key_id}&since=2h"))["report"]
        refused = {(item["key_id"], item["key_name"], item["error"]): item["times"] for item in found["refused"]}
        assert refused == {
            (stolen_key_id, "agent", "forbidden"): 30,
            (stolen_key_id + 1, "child", "too_many_request"): 1,
            (stolen_key_id, "agent", "unknown_connection"): 1,
        }
        assert found["refused_calls"] == 32
        page = await console.page(f"/dev/incident?key={stolen_key_id}&since=2h")
        assert "32 by scope, rules, rate or budget" in page
        assert "30 times" in page


async def test_an_integration_is_reported_for_all_callers(running: RunningGateway, stolen_key_id: int) -> None:
    async with at_console(running) as console:
        found = (await console.data("/dev/incident.json?integration=tracker"))["report"]
        assert {connection["connection_id"]: connection["calls"] for connection in found["connections"]} == {
            "c1": 30,
            "c2": 95,
            "c3": 7,
        }
        both = (await console.data(f"/dev/incident.json?integration=tracker&key={stolen_key_id}"))["report"]
        assert both["uses"]["calls"] == 42


@pytest.mark.parametrize(
    "query", ["key=x", "integration=a&since=x", "key=1&since=1h&until=2h", "integration=a&since=90d"]
)
@pytest.mark.asyncio(loop_scope="module")
async def test_error_for_a_wrong_incident_query_names_it(shared_gateway: RunningGateway, query: str) -> None:
    async with at_console(shared_gateway) as console:
        await console.page(f"/dev/incident?{query}", expect=400)
        await console.page("/dev/incident?key=99", expect=404)


async def test_incident_is_contained_with_evidence(running: RunningGateway, stolen_key_id: int) -> None:
    async with at_console(running, name="ada") as console:
        page = await console.page(f"/dev/incident?key={stolen_key_id}")
        fields = {"form": csrf_token(page), "key": str(stolen_key_id), "since": "2h", "connections": "1"}
        assert "Nothing was revoked or deleted" in await console.send(
            "/dev/incident/revoke", {**fields, "typed": "x"}, expect=400
        )
        done = await console.send("/dev/incident/revoke", {**fields, "typed": str(stolen_key_id)})
        assert "2 revoked" in done
        assert all(f"tracker/{name}: deleted here" in done for name in ("c1", "c2", "c3"))
        found = (await console.data(f"/dev/incident.json?key={stolen_key_id}"))["report"]
        assert {connection["state"] for connection in found["connections"]} == {"deleted"}
        assert not any(key["alive"] for key in found["keys"])
    assert (await running.json("GET", "/connections"))["connections"] == []
    await running.runtime.audit_keeper.run_once()
    store = running.runtime.store
    for action, many in (("key.revoked", 2), ("connection.deleted", 3)):
        records: list[Any] = [item.as_json() for item in await store.audit.find(AuditFilter(action=action))]
        assert [record["actor"]["name"] for record in records] == ["ada"] * many


async def test_connections_that_the_report_does_not_list_are_named_after_deletion(
    running: RunningGateway, stolen_key_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        incident_report.report, "__kwdefaults__", {**incident_report.report.__kwdefaults__, "max_connections": 2}
    )
    async with at_console(running) as console:
        page = await console.page(f"/dev/incident?key={stolen_key_id}&since=2h")
        assert "Of 3 pairs of key and connection, only the 2 most used are shown" in page
        fields = {
            "form": csrf_token(page),
            "key": str(stolen_key_id),
            "since": "2h",
            "connections": "1",
            "typed": str(stolen_key_id),
        }
        done = await console.send("/dev/incident/revoke", fields)
        assert "does not list 1 less used pair of key and connection" in done
    assert len((await running.json("GET", "/connections"))["connections"]) == 1


async def test_complete_report_has_no_note_on_unlisted_connections(running: RunningGateway, stolen_key_id: int) -> None:
    async with at_console(running) as console:
        page = await console.page("/dev/incident?integration=tracker")  # two keys used connection c2
        assert "most used" not in page


async def test_incident_command_reports_the_same_as_the_page(running: RunningGateway, stolen_key_id: int) -> None:
    file = running.folder / "gateway.yaml"
    await asyncio.to_thread(file.write_text, json.dumps(running.document))
    command = ["incident", "-c", str(file), "--key", str(stolen_key_id)]
    found = json.loads((await command_output(*command, "--json")).out)
    assert [connection["connection_id"] for connection in found["connections"]] == ["c1", "c3", "c2"]
    assert found["ended"] == []
    lines = (await command_output(*command)).out.splitlines()
    assert lines[0].startswith("42 calls, 2 failed;")
    assert lines[1].startswith("2 keys, ")
    assert [line.split()[1] for line in lines[3:]] == ["c1", "c3", "c2"]
    done = await command_output(*command, "--since", "3d", "--until", "2d", "--delete-connections")
    assert "Nothing was left to revoke or delete with these options." in done.err, "the key itself still works"


async def test_report_on_a_key_with_many_descendants_includes_all(
    running: RunningGateway, stolen_key_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer keys of others, and more child keys than are shown, hide nothing."""
    monkeypatch.setattr(
        incident_report.report, "__kwdefaults__", {**incident_report.report.__kwdefaults__, "max_keys": 3}
    )
    for n in range(4):
        await running.json("POST", "/environment/api-keys", json={"display_name": f"other {n}"}, expect=200)
    store = running.runtime.store
    child = (await store.keys.family("dev", stolen_key_id, limit=9))[1]
    for n in range(5):
        below = NewMintedKey(
            digest=f"d{n}",
            environment="dev",
            kind="key",
            name=f"below {n}",
            last_four="abcd",
            scopes=("environment:proxy",),
            created_by="a test",
            parent_id=child.id,
        )
        await store.keys.add(below, now=datetime.now(UTC))
    family = await store.keys.family("dev", stolen_key_id, limit=99)
    assert [item.parent_id for item in family] == [None, stolen_key_id, *[child.id] * 5]
    reader = AuditActor("key", key_id=family[-1].id)
    await store.trail.write(
        AuditEntry(action=AuditAction.CREDENTIAL_READ, at=datetime.now(UTC), actor=reader, environment="dev")
    )
    await running.runtime.audit_keeper.run_once()
    await store.call_log.add_many([operation(1, key_id=family[-1].id, connection_id="c3")])
    async with at_console(running) as console:
        found = (await console.data(f"/dev/incident.json?key={stolen_key_id}&since=2h"))["report"]
        assert (len(found["keys"]), found["keys_in_all"], found["more_keys"]) == (3, 7, False)
        assert family[-1].id in [call["key_id"] for call in found["calls"]]
        assert "credential.read" in [record["action"] for record in found["records"]]
        assert "And 4 more keys that it minted" in await console.page(f"/dev/incident?key={stolen_key_id}&since=2h")


async def test_refusals_are_counted_by_kind_and_apart_from_successful_calls(
    running: RunningGateway, stolen_key_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incident_report, "MAX_REFUSED_SHOWN", 10)
    refused = [
        operation(n, key_id=stolen_key_id, status=403, error_code="forbidden", path=f"/admin/{n}") for n in range(30)
    ]
    await running.runtime.store.call_log.add_many(refused)
    async with at_console(running) as console:
        found = (await console.data(f"/dev/incident.json?key={stolen_key_id}&since=2h"))["report"]
        assert (len(found["refused"]), found["refused_kinds"], found["refused_calls"]) == (10, 30, 30)
        assert [call["status"] for call in found["calls"]] == [200, 200, 200]
        assert "20 other kinds are not shown" in await console.page(f"/dev/incident?key={stolen_key_id}&since=2h")


async def test_report_on_an_unknown_integration_says_so(running: RunningGateway) -> None:
    async with at_console(running) as console:
        assert "No integration has this name now" in await console.page("/dev/incident?integration=typo")
        assert "No integration has this name" not in await console.page("/dev/incident?integration=tracker")
