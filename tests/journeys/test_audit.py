"""The audit log of a running gateway. Each test performs an action as users do, and checks its audit record."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from gateway import clock
from gateway.config.model import AuditConfig
from gateway.events import audit_keeper
from gateway.events.audit_keeper import AuditKeeper
from gateway.observe import call_queue
from gateway.records.audit import AuditAction, AuditFilter
from tests.fakes.commands import CommandOutput, command_output
from tests.fakes.console import at_console, csrf_token
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import CONNECTION, Files, ServingProcess, serving
from tests.fakes.receiver import Receiver
from tests.fakes.tracker import Tracker

MARKERS = ("marker-api-key-51", "marker-client-secret-52", "marker-refresh-53")
OF_A_PROCESS = {AuditAction.CONFIGURATION_LOADED, AuditAction.STORE_BACKED_UP, AuditAction.STORE_RESTORED}
"""Other tests cause these actions: `test_a_changed_configuration_is_recorded_once`, and the tests of backup and
restore.
"""


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    fake = Receiver()
    server = await fake.serve()
    yield fake
    await server.close()


@pytest.fixture
async def audited_gateway(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> RunningGateway:
    """Yield a gateway that also has its configuration as a file, for commands.

    Only the tests run its audit keeper: on a busy machine, a keeper that runs by itself would interfere with them.
    """

    async def wait_forever(_: AuditKeeper) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(AuditKeeper, "run", wait_forever)
    running.document["environments"]["dev"]["webhook_url"] = "http://127.0.0.1:9/hook"
    await running.restart()
    (running.folder / "gateway.yaml").write_text(yaml.safe_dump(running.document))
    return running


def configure_audit(running: RunningGateway, **members: Any) -> AuditConfig:
    """Configure the audit log so that it makes only the first checkpoint by itself. `members`: other settings."""
    plain = {
        "refreshes": "changes",
        "keep_days": 0,
        "uses_days": 90,
        "checkpoint_records": 1,
        "checkpoint_minutes": 1000,
        "checkpoint_file": running.folder / "checkpoints.jsonl",
        "checkpoint_url": None,
    }
    made = AuditConfig(**{**plain, **members})  # type: ignore[arg-type]
    running.configure(audit=made)
    return made


async def command(running: RunningGateway, *arguments: str, code: int = 0) -> CommandOutput:
    done = await command_output(*arguments, "-c", str(running.folder / "gateway.yaml"))
    assert done.code == code, done.err
    return done


async def authorize(running: RunningGateway, path: str, **body: Any) -> dict[str, Any]:
    """Connect as an end user's browser does, through the provider's consent and back. Return the session."""
    session = await running.json("POST", f"/connect/sessions{path}", json=body, expect=201)
    token = parse_qs(urlsplit(session["data"]["connect_link"]).query)["session_token"][0]
    async with running.http.get(f"{running.url}/oauth/connect/tracker?connect_session_token={token}") as response:
        assert response.status == 200, await response.text()
    result: dict[str, Any] = session["data"]
    return result


async def cause_all_actions(running: RunningGateway, tracker: Tracker) -> None:
    """Cause every recorded action, by callers, an end user, an operator and the gateway itself."""
    # A minted key is created, used for the first time, and revoked.
    body = {"display_name": "agent", "scopes": ["environment:*"]}
    parent = (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"]
    headers = {"Authorization": f"Bearer {parent['secret']}"}
    async with running.http.post(
        f"{running.url}/environment/api-keys", json={**body, "display_name": "child"}, headers=headers
    ) as response:
        child = (await response.json())["data"]
    # Connections are imported, read, changed and deleted. An end user connects and reconnects.
    grant = {**tracker.grant(), "refresh_token": MARKERS[2], "expires_at": "2020-01-01T00:00:00Z"}
    await running.import_connection({name: text for name, text in grant.items() if name != "expires_in"}, "dead")
    async with running.call_proxy("dead", "/me") as response:
        assert response.status == 424
    await running.import_connection(tracker.grant(), "c1", end_user={"id": "anna@example.com"})
    read = f"{running.url}/connections/c1?provider_config_key=tracker"
    child_headers = {"Authorization": f"Bearer {child['secret']}"}
    async with running.http.get(read, headers=child_headers) as response:
        assert (await response.json())["credentials"]["access_token"]
    await running.json("PATCH", "/connections/c1?provider_config_key=tracker", json={"tags": {"a": "b"}}, expect=200)
    await authorize(running, "", end_user={"id": "ben"}, allowed_integrations=["tracker"])
    listed = await running.json("GET", "/connections?endUserId=ben")
    made = listed["connections"][0]["connection_id"]
    await authorize(running, "/reconnect", connection_id=made, integration_id="tracker")
    # An integration is created through the API, and its client secret is changed.
    shop = {"provider": "tracker", "unique_key": "shop"}
    client = {"type": "OAUTH2", "client_id": "x", "client_secret": MARKERS[1]}
    await running.json("POST", "/integrations", json={**shop, "credentials": client}, expect=200)
    await running.json("GET", "/integrations/shop?include=credentials", expect=200)
    await running.json("PATCH", "/integrations/shop", json={"display_name": "Shop"}, expect=200)
    await running.json("DELETE", "/integrations/shop", expect=200)
    await running.json("POST", "/environment/webhook-signing-key/rotate", json={}, expect=200)
    # An operator acts in the console and on the command line.
    async with at_console(running) as console:
        form = csrf_token(await console.page("/dev/integration?key=tracker"))
        await console.send("/dev/integration/connect", {"form": form, "key": "tracker"})
    await command(running, "console", "--sign-out-all")
    await command(running, "connections", "export", "--plain", "-o", str(running.folder / "all.bundle"))
    await command(running, "events", "replay", "--since", "1h")
    await command(running, "keys", "rotate", "--data-keys", "-y")
    await command(running, "audit", "forget", "ben")
    await running.json("DELETE", f"/environment/api-keys/{parent['id']}", expect=200)
    await running.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    async with asyncio.timeout(PATIENCE_S):
        while not await running.runtime.store.audit.find(AuditFilter(action="key.first_used")):
            await running.runtime.audit_keeper.run_once()


async def test_every_kind_of_action_is_recorded(
    audited_gateway: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_audit(audited_gateway)
    await cause_all_actions(audited_gateway, tracker)
    store, keeper = audited_gateway.runtime.store, audited_gateway.runtime.audit_keeper
    await keeper.run_once()
    now = clock.now()
    configure_audit(audited_gateway, keep_days=1)
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(days=3))
    monkeypatch.setattr(audit_keeper, "PRUNE_EVERY_S", 0)
    pruning = AuditKeeper(store, audited_gateway.runtime.current)
    await store.trail.write()  # has nothing to write
    before = {record.columns.action for record in await store.audit.find(AuditFilter(limit=1000))}
    await pruning.run_once()
    after = {record.columns.action for record in await store.audit.find(AuditFilter(limit=1000))}
    assert before | after | OF_A_PROCESS == {str(action) for action in AuditAction}
    assert (await command(audited_gateway, "audit", "verify")).out.startswith(("1 record", "2 records", "3 records"))


async def test_a_record_contains_the_actor_the_ip_address_and_the_end_user(
    audited_gateway: RunningGateway, tracker: Tracker
) -> None:
    configure_audit(audited_gateway)
    await cause_all_actions(audited_gateway, tracker)
    await audited_gateway.runtime.audit_keeper.run_once()
    response = await audited_gateway.json("GET", "/audit?limit=1000", expect=200)
    by_action: dict[str, list[dict[str, Any]]] = {}
    for record in response["data"]:
        by_action.setdefault(record["action"], []).append(record)
    (read,) = by_action["credential.read"]
    child, parent = (record["key_id"] for record in by_action["key.created"])
    assert read["actor"] == {"kind": "key", "key_id": child, "name": "child", "parents": [parent]}
    assert (read["address"], read["connection_id"], read["provider_config_key"]) == ("127.0.0.1", "c1", "tracker")
    assert read["request_id"]
    assert read["end_user"]
    assert {record["key_id"] for record in by_action["key.revoked"]} == {child, parent}
    assert {record["key_id"] for record in by_action["key.first_used"]} == {child, parent}
    assert all(record["address"] == "127.0.0.1" for record in by_action["key.first_used"])
    (created,) = by_action["connection.created"]
    assert created["actor"]["kind"] == "session"
    assert by_action["connection.reconnected"][0]["actor"]["session"] != created["actor"]["session"]
    (exported,) = [record for record in by_action["connection.exported"] if record["connection_id"] == "c1"]
    assert (exported["actor"]["kind"], exported["actor"]["command"]) == ("operator", "main connections export")
    (failed,) = by_action["connection.refreshed"]
    assert (failed["outcome"], failed["detail"]["now"], failed["actor"]) == (
        "failed",
        "needs_reauth",
        {"kind": "system"},
    )
    assert by_action["connection.changed"][0]["detail"] == {"fields": ["tags"]}
    assert by_action["integration.changed"][0]["detail"] == {"fields": ["display_name"]}
    one_page = await audited_gateway.json("GET", "/audit?limit=2", expect=200)
    next_page = await audited_gateway.json("GET", f"/audit?limit=2&cursor={one_page['next_cursor']}", expect=200)
    assert [record["sequence"] for record in one_page["data"] + next_page["data"]] == [
        record["sequence"] for record in response["data"][:4]
    ]


async def test_no_secret_and_no_end_user_is_in_any_record_or_export(
    audited_gateway: RunningGateway, tracker: Tracker
) -> None:
    configure_audit(audited_gateway)
    await cause_all_actions(audited_gateway, tracker)
    text = (await command(audited_gateway, "audit", "export")).out
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) > 15
    tokens = [token for grant in tracker.grants for token in (grant.refresh_token, *grant.access_tokens, *grant.spent)]
    keys = [part for part in (audited_gateway.folder / "all.bundle").read_text().split('"') if part.startswith("sk_")]
    secrets = [
        *MARKERS,
        *tokens,
        *keys,
        audited_gateway.document["store"]["encryption_keys"][0],
        *("anna@example.com", '"ben"'),
    ]
    assert [secret for secret in secrets if secret in text] == []


async def test_a_checkpoint_is_logged_written_to_the_file_and_sent_as_a_webhook(
    audited_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_lines: list[dict[str, Any]] = []
    monkeypatch.setattr(
        audit_keeper.log, "info", lambda event, **members: log_lines.append({"event": event, **members})
    )
    audited_gateway.document["egress"]["allow"].append(f"127.0.0.1/32:{receiver.port}")
    await audited_gateway.restart()
    configure_audit(audited_gateway, checkpoint_url=receiver.url)
    await audited_gateway.import_connection(tracker.grant())
    await audited_gateway.runtime.audit_keeper.run_once()
    (line,) = (audited_gateway.folder / "checkpoints.jsonl").read_text().splitlines()
    made = json.loads(line)
    assert log_lines[0] == {"event": "audit_checkpoint", **made}
    assert [json.loads(got.body)["data"] for got in receiver.taken] == [made]
    key = (await command(audited_gateway, "audit", "key")).out.strip()
    assert made["public_key"] == key
    verdict = await command(
        audited_gateway,
        "audit",
        "verify",
        "--json",
        "--public-key",
        key,
        "--checkpoint",
        str(audited_gateway.folder / "checkpoints.jsonl"),
    )
    found = json.loads(verdict.out)
    assert (found["ok"], found["proven_to"]) == (True, made["sequence"])


async def test_verify_names_the_first_record_that_was_changed(
    audited_gateway: RunningGateway, tracker: Tracker
) -> None:
    from sqlalchemy import text

    configure_audit(audited_gateway)
    await cause_all_actions(audited_gateway, tracker)
    await audited_gateway.runtime.audit_keeper.run_once()
    store = audited_gateway.runtime.store
    edit = text("UPDATE audit_records SET body = replace(body, '127.0.0.1', '127.0.0.9') WHERE sequence = 3")
    await store.transactions.write(lambda db: db.execute(edit))
    done = await command(audited_gateway, "audit", "verify", code=1)
    assert "record 3 does not have the hash" in done.err
    assert "first at record 3" in done.out
    report = json.loads((await command(audited_gateway, "audit", "verify", "--json", code=1)).out)
    assert report["faults"][0] == {"sequence": 3, "kind": "edited", "message": report["faults"][0]["message"]}


async def test_a_credential_that_cannot_be_recorded_is_not_returned(
    audited_gateway: RunningGateway, tracker: Tracker
) -> None:
    from sqlalchemy import text

    await audited_gateway.import_connection(tracker.grant())
    store = audited_gateway.runtime.store
    await store.transactions.write(lambda db: db.execute(text("ALTER TABLE audit_pending RENAME TO gone")))
    response = await audited_gateway.json("GET", "/connections/c1?provider_config_key=tracker")
    assert "credentials" not in response
    assert response["error"]["code"] in {"store_unavailable", "server_error"}


async def test_only_a_key_with_the_scope_reads_the_audit_and_only_its_environment(
    audited_gateway: RunningGateway, tracker: Tracker
) -> None:
    configure_audit(audited_gateway)
    await audited_gateway.import_connection(tracker.grant())
    for scopes, status in ((["environment:logs:read"], 403), (["environment:audit:read"], 200)):
        request_body = {"display_name": scopes[0], "scopes": scopes}
        minted = (await audited_gateway.json("POST", "/environment/api-keys", json=request_body, expect=200))["data"]
        for path in ("/audit", "/audit/uses"):
            headers = {"Authorization": f"Bearer {minted['secret']}"}
            async with audited_gateway.http.get(audited_gateway.url + path, headers=headers) as response:
                assert response.status == status
    await audited_gateway.runtime.audit_keeper.run_once()
    body = await audited_gateway.json("GET", "/audit?limit=1000", expect=200)
    assert {record["environment"] for record in body["data"]} == {"dev"}


async def test_the_use_of_a_credential_is_counted_by_key_and_connection(
    audited_gateway: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_queue, "USES_EVERY_S", 0.05)
    await audited_gateway.restart()
    await audited_gateway.import_connection(tracker.grant())
    request_body = {"display_name": "agent", "scopes": ["environment:proxy"]}
    minted = (await audited_gateway.json("POST", "/environment/api-keys", json=request_body, expect=200))["data"]
    for secret in (minted["secret"], minted["secret"], minted["secret"], ""):
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        async with audited_gateway.call_proxy("c1", "/me", headers=headers) as response:
            await response.read()
            assert response.status == 200
    # nothing was sent to a provider, so no credential was used
    async with audited_gateway.call_proxy("nobody", "/me") as response:
        assert response.status == 404
    async with asyncio.timeout(PATIENCE_S):
        while (body := await audited_gateway.json("GET", "/audit/uses", expect=200))["calls"] < 4:
            await asyncio.sleep(0.02)
    found = [(record["key_id"], record["connection_id"], record["calls"], record["failed"]) for record in body["data"]]
    assert found == [(minted["id"], "c1", 3, 0), (None, "c1", 1, 0)]
    uses = await command(audited_gateway, "audit", "uses", "--key", str(minted["id"]), "--since", "2h", "--json")
    assert json.loads(uses.out)["calls"] == 3


# ── A real process: its audit file, also after kill -9.


async def records(files: Files) -> list[dict[str, Any]]:
    done = await command_output("audit", "export", "-c", str(files.path))
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


async def test_a_changed_configuration_is_recorded_once(tmp_path: Path) -> None:
    files = Files(tmp_path, 9, workers=2)
    async with serving(files) as gateway:
        files.document["branding"] = {"name": "Other"}
        files.write()
        import signal

        gateway.signal(signal.SIGHUP)
        await gateway.logged("reloaded", times=2)
    async with serving(files):
        pass
    loaded = [record for record in await records(files) if record["action"] == AuditAction.CONFIGURATION_LOADED]
    assert [record["detail"]["how"] for record in loaded] == ["start", "reload"]
    assert len({record["detail"]["sha256"] for record in loaded}) == 2


async def test_a_kill_during_writes_loses_no_record_of_an_acknowledged_write(tmp_path: Path) -> None:
    files = Files(tmp_path, 9)
    acknowledged: list[str] = []
    for round_ in range(3):
        async with serving(files) as gateway:
            writers = [asyncio.create_task(_writing(gateway, f"{round_}-{n}", acknowledged)) for n in range(4)]
            async with asyncio.timeout(PATIENCE_S):
                while len(acknowledged) < 40 * (round_ + 1):
                    await asyncio.sleep(0.01)
            gateway.kill_all()
            await asyncio.gather(*writers, return_exceptions=True)
    found = [
        record["object"]["connection"] for record in await records(files) if record["action"] == "connection.imported"
    ]
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))
    done = await command_output("audit", "verify", "-c", str(files.path))
    assert done.code == 0, done.err


async def _writing(gateway: ServingProcess, name: str, acknowledged: list[str]) -> None:
    import aiohttp

    from tests.fakes.gateways import SECRET_KEY

    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {SECRET_KEY}"}) as http:
        for number in range(10_000):
            made = f"{name}-{number}"
            credentials = {"type": "API_KEY", "apiKey": "k" * 20}
            body = {"provider_config_key": CONNECTION["Provider-Config-Key"], "connection_id": made}
            url = f"http://127.0.0.1:{gateway.port}/connections"
            async with http.post(url, json={**body, "credentials": credentials}) as response:
                assert response.status == 201
            acknowledged.append(made)
