"""The present code opens the files of each released version: nothing is lost, and pending work can be completed.

A store's times are first moved to today, since its sessions, flows and pending events would have expired.
"""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from standardwebhooks.webhooks import Webhook

from gateway.store.preflight_checks import REVISIONS, VERSION_TABLE
from tests.fakes.postgres import PostgresServer
from tests.upgrade import provider
from tests.upgrade.deployment import KEYS, Client, Deployment, copy_version, load_postgres, move_sqlite
from tests.upgrade.provider import Provider
from tests.upgrade.recorded_responses import differences, responses

VERSIONS = sorted(Path(__file__).parent.glob("[0-9]*_[0-9]*_[0-9]*"))
BUNDLE = (
    "connections",
    "import",
    "connections.bundle",
    "--environment",
    "production",
    "--passphrase-env",
    "PASSPHRASE",
)
PLAIN = ("connections", "import", "connections.jsonl", "--environment", "production")

pytestmark = pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)


@pytest.fixture
async def fake_provider(tmp_path: Path) -> AsyncIterator[Provider]:
    async with provider.running(tmp_path) as running:
        yield running


@pytest.fixture
def deployment(version: Path, fake_provider: Provider, tmp_path: Path) -> Deployment:
    copy_version(version, tmp_path / "deployment")
    return Deployment(tmp_path / "deployment", fake_provider)


def test_version_folder_is_complete(version: Path) -> None:
    assert (version / "expected.json").stat().st_size > 10_000


async def test_sqlite_store_of_an_earlier_version_works(version: Path, deployment: Deployment) -> None:
    expected, by = _expected(version, "sqlite")
    move_sqlite(deployment.folder / "gateway.db", by)
    assert json.loads(await deployment.command("check", "--json"))["faults"] == []
    await _assert_deployment_works(deployment, expected, by)


async def test_check_and_doctor_leave_the_store_as_it_is(version: Path, deployment: Deployment) -> None:
    """An operator runs both with the new version while the old one still serves (docs/operations.md#upgrading)."""
    before = _revision(deployment.folder / "gateway.db")
    await deployment.command("check")
    report = await deployment.command("doctor", "--offline")
    assert f"the database has revision {before}; the next start upgrades it to {REVISIONS[-1]}" in report
    assert _revision(deployment.folder / "gateway.db") == before


async def test_postgresql_store_of_an_earlier_version_works(
    version: Path, deployment: Deployment, postgres_server: PostgresServer
) -> None:
    expected, by = _expected(version, "postgresql")
    deployment.store_url = await postgres_server.make_database()
    await load_postgres(deployment.store_url, version / "postgresql.sql", by)
    await _assert_deployment_works(deployment, expected, by)


async def test_a_bundle_and_json_lines_of_an_earlier_version_are_imported(
    version: Path, deployment: Deployment
) -> None:
    exported = _lines(deployment.folder / "connections.jsonl")
    (deployment.folder / "gateway.db").unlink()
    await deployment.command(*BUNDLE, "--create-integrations")
    await deployment.command("connections", "export", "--environment", "production", "-o", "again.jsonl", "--plain")
    again = _lines(deployment.folder / "again.jsonl")
    assert again.keys() == exported.keys()
    assert differences(exported, again, timedelta()) == []
    (deployment.folder / "gateway.db").unlink()
    report = json.loads(await deployment.command(*PLAIN, "--create-integrations", "--json"))
    assert report["imported"] == sum(name.startswith("connection/") for name in exported)


def _revision(database: Path) -> str:
    with closing(sqlite3.connect(database)) as db:
        revision: str = db.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()[0]
        return revision


def _expected(version: Path, backend: str) -> tuple[dict[str, Any], timedelta]:
    """Return the recorded responses and their age."""
    expected = json.loads((version / "expected.json").read_text())[backend]
    age = datetime.now(UTC) - datetime.fromisoformat(expected["written_at"])
    return expected, timedelta(seconds=int(age.total_seconds()))


def _lines(path: Path) -> dict[str, Any]:
    """Return the entries of an export by their identity, without the header, which contains a date."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    names = ("kind", "provider_config_key", "unique_key", "connection_id")
    return {"/".join(str(entry.get(name)) for name in names): entry for entry in entries if entry["kind"] != "bundle"}


async def _assert_deployment_works(deployment: Deployment, expected: dict[str, Any], shift: timedelta) -> None:
    known = expected["known"]
    async with deployment.serving() as client:
        assert differences(expected["answers"], await responses(deployment, client, known), shift) == []
        await _assert_expired_token_is_refreshed_once(client, deployment.provider)
        await _assert_flow_can_be_finished(client, deployment.provider, known["flow"])
        await _assert_pending_connections_can_be_completed(client, known)
        await _assert_pending_event_is_delivered(deployment, expected["answers"]["staging events"])


async def _assert_expired_token_is_refreshed_once(client: Client, fake_provider: Provider) -> None:
    for _ in range(2):
        response = await client.call_proxy("crm", "expired", expect=200)
        assert response.body["credential"] == {"Authorization": "Bearer at-expired-2"}
    assert fake_provider.token_requests["expired"] == 1
    assert not fake_provider.token_requests["valid"]


async def _assert_flow_can_be_finished(client: Client, fake_provider: Provider, flow: dict[str, Any]) -> None:
    query = parse_qs(urlsplit(flow["address"]).query)
    fake_provider.register_code("late", query["code_challenge"][0])
    before = await _ids(client)
    cookies = "; ".join(f"{name}={value}" for name, value in flow["cookies"].items())
    path = f"/oauth/callback?code=code-late&state={query['state'][0]}"
    await client.call("GET", path, key="", headers={"Cookie": cookies}, expect=200)
    (new_id,) = await _ids(client) - before
    response = await client.call_proxy("crm", new_id, expect=200)
    assert response.body["credential"] == {"Authorization": "Bearer at-late-1"}


async def _ids(client: Client) -> set[str]:
    response = await client.call("GET", "/connections", expect=200)
    return {connection["connection_id"] for connection in response.body["connections"]}


async def _assert_pending_connections_can_be_completed(client: Client, recorded: dict[str, Any]) -> None:
    credentials = {
        "bound": {"Authorization": "Bearer at-pending-1"},
        "bound keys": {"X-Api-Key": "key-that-is-pending-0123"},
    }
    for name, credential in credentials.items():
        path = f"/connect/sessions/{recorded['sessions'][name]['session_id']}/complete"
        body = {"code_verifier": recorded["verifier"]}
        response = await client.call("POST", path, key=KEYS["staging"], json=body, expect=200)
        (pending,) = response.body["data"]["connections"]
        sent = await client.call_proxy(
            pending["provider_config_key"], pending["connection_id"], key=KEYS["staging"], expect=200
        )
        assert sent.body["credential"] == credential


async def _assert_pending_event_is_delivered(deployment: Deployment, events: dict[str, Any]) -> None:
    (pending,) = [event for event in events["events"] if event["state"] == "pending"]
    await deployment.command("events", "replay", "--environment", "staging", pending["id"])
    headers, body = await deployment.provider.delivered(pending["id"])
    key = yaml.safe_load((deployment.folder / "gateway.yaml").read_text())["environments"]["staging"][
        "webhook_signing_key"
    ]
    event = Webhook(key).verify(body, headers)
    assert event["connectionId"] == "staging-1"
