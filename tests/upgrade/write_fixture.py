"""Write the folder of this version: `python -m tests.upgrade.write_fixture`. Fails if the folder exists.

`given/` contains what an operator wrote. The stores, the bundle and expected.json come from real processes.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import shutil
import sqlite3
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PostgresServer
from tests.upgrade import provider
from tests.upgrade.deployment import KEYS, Client, Deployment, copy_version, load_postgres
from tests.upgrade.provider import Provider
from tests.upgrade.recorded_responses import mask_differences, responses

HERE = Path(__file__).parent
VERIFIER = "a-code-verifier-for-tests-0123456789-0123456789-x"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
WEEK_S = 604800
ADA = {"id": "ada", "email": "ada@example.com", "display_name": "Ada", "tags": {"plan": "gold"}}
IMPORTS: tuple[dict[str, Any], ...] = (
    {
        "provider_config_key": "mail",
        "connection_id": "mail",
        "credentials": {
            "type": "API_KEY",
            "apiKey": "key-of-mail-0123456789",
            "signingSecret": "signing-secret-of-mail",
        },
        "tags": {"team": "red"},
        "end_user": {"id": "bob"},
        "webhook_url_override": "https://127.0.0.1/hooks/override",
    },
    {
        "provider_config_key": "ledger",
        "connection_id": "ledger",
        "credentials": {"type": "BASIC", "username": "user", "password": "pass: wörd"},
    },
    {
        "provider_config_key": "machine",
        "connection_id": "machine",
        "credentials": {"type": "OAUTH2_CC", "client_id": "machine-client", "client_secret": "machine-client-secret"},
    },
    {
        "provider_config_key": "signed",
        "connection_id": "signed",
        "credentials": {"type": "OAUTH1", "oauth_token": "oauth1-token", "oauth_token_secret": "oauth1-token-secret"},
    },
    {
        "provider_config_key": "steps",
        "connection_id": "steps",
        "credentials": {"type": "TWO_STEP", "clientId": "steps-client", "clientSecret": "steps-client-secret"},
    },
    {
        "provider_config_key": "cloud",
        "connection_id": "cloud",
        "connection_config": {"region": "eu-central-1"},
        "credentials": {
            "type": "AWS_SIGV4",
            "access_key_id": "AKIAIOSFODNN7EXAMPLE",
            "secret_access_key": "secret-access-key-of-cloud-0123456789",
        },
    },
    {"provider_config_key": "open", "connection_id": "open", "credentials": {"type": "NONE"}},
)


async def main() -> int:
    target = HERE / version("integration-gateway").replace(".", "_")
    if target.exists():
        sys.stderr.write(f"{target} exists already. A folder of a released version is never written again.\n")
        return 1
    postgres = PostgresServer()
    try:
        await asyncio.to_thread(postgres.launch)
        await postgres.responses()
        with tempfile.TemporaryDirectory(prefix="gateway-fixture-") as scratch:
            async with provider.running(Path(scratch)) as fake_provider:
                written = Path(scratch) / "written"
                await _write(written, Path(scratch), fake_provider, postgres)
            shutil.copytree(written, target)
    finally:
        postgres.remove()
    return 0


async def _write(target: Path, scratch: Path, fake_provider: Provider, postgres: PostgresServer) -> None:
    copy_version(HERE / "given", target)
    expected = dict[str, Any]()
    sqlite = _deployment(scratch / "sqlite", fake_provider)
    known, written_at = await _fill_store(sqlite), _now()
    _checkpoint(sqlite.folder / "gateway.db")
    shutil.copy(sqlite.folder / "gateway.db", target)
    await sqlite.command("connections", "export", "--environment", "production", "-o", "connections.bundle",
                         "--passphrase-env", "PASSPHRASE")  # fmt: skip
    await sqlite.command("connections", "export", "--environment", "production", "-o", "connections.jsonl", "--plain")
    shutil.copy(sqlite.folder / "connections.bundle", target)
    shutil.copy(sqlite.folder / "connections.jsonl", target)
    runs = []
    for n in range(2):
        copy = _deployment(scratch / f"sqlite-{n}", fake_provider)
        shutil.copy(target / "gateway.db", copy.folder)
        runs.append(await _record_responses(copy, known))
    expected["sqlite"] = {"written_at": written_at, "known": known, "answers": mask_differences(*runs)}

    url = await postgres.make_database()
    known, written_at = await _fill_store(_deployment(scratch / "postgresql", fake_provider, url)), _now()
    (target / "postgresql.sql").write_text(await asyncio.to_thread(postgres.dump, url))
    runs = []
    for n in range(2):
        url = await postgres.make_database()
        await load_postgres(url, target / "postgresql.sql", by=timedelta())
        runs.append(await _record_responses(_deployment(scratch / f"postgresql-{n}", fake_provider, url), known))
    expected["postgresql"] = {"written_at": written_at, "known": known, "answers": mask_differences(*runs)}
    (target / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _now() -> str:
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def _deployment(folder: Path, fake_provider: Provider, store_url: str = "sqlite:///gateway.db") -> Deployment:
    copy_version(HERE / "given", folder)
    return Deployment(folder, fake_provider, store_url)


async def _record_responses(deployment: Deployment, recorded: dict[str, Any]) -> dict[str, Any]:
    deployment.provider.reset()
    deployment.provider.refuses_hooks_of.clear()  # pending deliveries are not due yet
    async with deployment.serving() as client:
        return await responses(deployment, client, recorded)


async def _fill_store(deployment: Deployment) -> dict[str, Any]:
    """Fill an empty store with data of every kind. Return what cannot be read from it: keys, tokens, cookies."""
    fake_provider = deployment.provider
    fake_provider.refuses_hooks_of.clear()
    fake_provider.reset()
    async with deployment.serving() as client:
        await _connections(client)
        keys, capability = await _keys(deployment, client)
        sessions = await _sessions(client)
        flow = await _flow(client, sessions["open"]["token"])
        await _pending(client, fake_provider, sessions)
        await _provider_webhooks(client)
        await _wait_for_deliveries(deployment, "production")
        fake_provider.refuses_hooks_of.add("staging")
        await _import_connection(client, "crm", "staging-1", "staging1", key=KEYS["staging"])
        await client.call("POST", "/environment/webhook-signing-key/rotate", json={}, expect=200)
        # last, so that nothing refreshes it
        await _import_connection(client, "crm", "expired", "expired", expires_at=datetime.now(UTC).timestamp() - 60)
    return {"keys": keys, "capability": capability, "sessions": sessions, "flow": flow, "verifier": VERIFIER}


async def _import_connection(client: Client, integration: str, connection: str, person: str, **extra: Any) -> None:
    ends = {"expires_at": extra.pop("expires_at")} if "expires_at" in extra else {"expires_in": 30 * 86400}
    tokens = {"access_token": f"at-{person}-1", "refresh_token": f"rt-{person}-1", **ends}
    key = extra.pop("key", KEYS["production"])
    body = {"provider_config_key": integration, "connection_id": connection, **extra}
    body["credentials"] = {"type": "OAUTH2", **tokens}
    await client.call("POST", "/connections", json=body, key=key, expect=201)


async def _connections(client: Client) -> None:
    await _import_connection(client, "crm", "valid", "valid", end_user=ADA, metadata={"first": 1}, tags={"team": "red"})
    await _import_connection(client, "crm", "valid", "valid", connection_config={"region": "eu"})  # again: reconnected
    body = {"provider_config_key": "crm", "connection_id": "valid", "metadata": {"list": [1, 2.5, "ü"], "null": None}}
    await client.call("PATCH", "/connections/metadata", json=body, expect=200)
    await _import_connection(client, "git", "git", "git", connection_config={"host": "127.0.0.1"})
    for body in IMPORTS:
        await client.call("POST", "/connections", json=body, expect=201)
    made = {
        "provider": "acme-oauth",
        "unique_key": "crm-api",
        "display_name": "CRM by API",
        "credentials": {
            "type": "OAUTH2",
            "client_id": "api-client",
            "client_secret": "api-client-secret",
            "scopes": "contacts.read,offline_access",
            "webhook_secret": "api-webhook-secret",
        },
        "custom": {"contact": "ops@example.com"},
    }
    await client.call("POST", "/integrations", json=made, expect=200)
    await _import_connection(client, "crm-api", "made", "made")
    await client.call("PATCH", "/integrations/crm-api", json={"forward_webhooks": False}, expect=200)
    await _import_connection(client, "crm", "refreshed", "refreshed")
    await client.call("GET", "/connections/refreshed?provider_config_key=crm&force_refresh=true", expect=200)
    await _import_connection(
        client, "crm", "dead", "dead", end_user={"id": "dee"}, expires_at=datetime.now(UTC).timestamp() - 60
    )
    await client.call("GET", "/connections/dead?provider_config_key=crm", expect=424)
    await _import_connection(client, "crm", "slow", "slow")
    await client.call("GET", "/connections/slow?provider_config_key=crm&force_refresh=true", expect=200)
    await _import_connection(client, "crm", "deleted", "deleted")
    await client.call("DELETE", "/connections/deleted?provider_config_key=crm", expect=200)
    for integration, connection in (("crm", "valid"), ("mail", "mail"), ("crm", "nobody")):
        await client.call_proxy(integration, connection)


async def _keys(deployment: Deployment, client: Client) -> tuple[dict[str, str], str]:
    words = ("keys", "create", "--environment", "production", "--json")
    agent = json.loads(
        await deployment.command(
            *(*words, "agent", "--connection", "crm/valid", "--allow", "GET /api/things/*", "--host", "127.0.0.1"),
            *("--rate", "600", "--budget", "500", "--scope", "environment:proxy"),
            *("--scope", "environment:connect_sessions:write", "--expires", "3000d"),
        )
    )
    ended = json.loads(await deployment.command(*words, "ended"))
    await deployment.command("keys", "revoke", "--environment", "production", str(ended["id"]))
    capability = json.loads(await deployment.command(*words, "capability", "--capability", "--connection", "crm/valid"))

    async def mint_key(key: str, **body: Any) -> str:
        response = await client.call("POST", "/environment/api-keys", key=key, json=body, expect=200)
        return str(response.body["data"]["secret"])

    scopes = ["environment:api_keys:*", "environment:proxy", "environment:connections:list"]
    parent = await mint_key(KEYS["production"], display_name="parent", scopes=scopes, limits={"tags": {"team": "red"}})
    child = await mint_key(parent, display_name="child", scopes=scopes[1:], limits={"integrations": ["crm"]})
    staging = await mint_key(KEYS["staging"], display_name="all of staging")
    for key in (agent["secret"], child):
        await client.call_proxy("crm", "valid", key=key, expect=200)
    keys = {"agent": agent["secret"], "ended": ended["secret"], "parent": parent, "child": child, "staging": staging}
    return keys, "/c/" + capability["base_url"].partition("/c/")[2]


async def _sessions(client: Client) -> dict[str, dict[str, str]]:
    """Return the sessions by name: id, token, environment."""
    common = {"end_user": {"id": "eve", "email": "eve@example.com", "display_name": "Eve"}, "expires_in": WEEK_S}
    return_fields = {"return_url": "https://app.example.com/back?tab=2", "state": "state of the application"}
    wanted = {
        "open": ("production", {"allowed_integrations": ["crm", "mail"], "max_connections": 5, **return_fields}),
        "settings": (
            "production",
            {
                "tags": {"team": "blue"},
                "organization": {"id": "acme", "display_name": "Acme"},
                "integrations_config_defaults": {"crm": {"connection_config": {"region": "eu"}}},
                "webhook_url_override": "https://127.0.0.1/hooks/override",
            },
        ),
        "single": ("production", {"allowed_integrations": ["crm"], "single_use": True}),
        "bound": ("staging", {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}),
        "bound keys": ("staging", {"code_challenge": CHALLENGE, "allowed_integrations": ["mail"]}),
    }
    made = {}
    for name, (environment, body) in wanted.items():
        response = await client.call(
            "POST", "/connect/sessions", key=KEYS[environment], json={**common, **body}, expect=201
        )
        made[name] = {**response.body["data"], "environment": environment}
    again = {"connection_id": "valid", "integration_id": "crm", "expires_in": WEEK_S}
    response = await client.call("POST", "/connect/sessions/reconnect", json=again, expect=201)
    made["reconnect"] = {**response.body["data"], "environment": "production"}
    path = f"/oauth/connect/crm?connect_session_token={made['single']['token']}"
    await client.call("GET", path, key="", expect=302)  # opened in the browser that claims the session
    return made


async def _flow(client: Client, token: str) -> dict[str, Any]:
    """Start an authorization whose end user is still at the provider."""
    response = await client.call("GET", f"/oauth/connect/crm?connect_session_token={token}", key="", expect=302)
    return {"address": response.headers["Location"], "cookies": dict(response.cookies)}


async def _pending(client: Client, fake_provider: Provider, sessions: dict[str, dict[str, str]]) -> None:
    """Create a grant and a key that the application has not completed yet."""
    flow = await _flow(client, sessions["bound"]["token"])
    query = fake_provider.authorized(flow["address"], "pending")
    cookies = "; ".join(f"{name}={value}" for name, value in flow["cookies"].items())
    await client.call("GET", f"/oauth/callback?{query}", key="", headers={"Cookie": cookies}, expect=200)
    token = sessions["bound keys"]["token"]
    path = f"/api-auth/api-key/mail?connect_session_token={token}"
    await client.call("POST", path, key="", json={"apiKey": "key-that-is-pending-0123"}, expect=200)


async def _provider_webhooks(client: Client) -> None:
    body = b'{"event":"contact.changed","id":7}'
    signature = hmac.new(b"crm-webhook-secret", body, hashlib.sha256).hexdigest()
    headers = {"X-Acme-Signature": signature, "Content-Type": "application/json"}
    await client.call("POST", "/webhook/production/crm", key="", data=body, headers=headers, expect=200)


async def _wait_for_deliveries(deployment: Deployment, environment: str) -> None:
    """Wait until no delivery is pending."""
    words = ("events", "list", "--environment", environment, "--state", "pending", "--json")
    async with asyncio.timeout(PATIENCE_S):
        while json.loads(await deployment.command(*words))["events"]:
            await asyncio.sleep(0.2)


def _checkpoint(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
