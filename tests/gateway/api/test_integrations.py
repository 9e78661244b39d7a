"""Integrations created through the API (docs/compatibility.md#integrations)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from gateway import config as configuration
from gateway.app import reload
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

CLIENT = {"type": "OAUTH2", "client_id": "client-2", "client_secret": "s3cret-value", "scopes": "read:x,offline_access"}
NEW = {"provider": "tracker", "unique_key": "made", "credentials": CLIENT}


@pytest.fixture
async def second_node(running: RunningGateway, tracker: Tracker) -> AsyncIterator[RunningGateway]:
    """Another node on the same store."""
    other = RunningGateway(running.folder, {**running.document, "server": {"port": 0, "host": "127.0.0.1"}})
    await other.start()
    yield other
    await other.stop()


async def create_integration(running: RunningGateway, **changes: Any) -> Any:
    body = await running.json("POST", "/integrations", json={**NEW, **changes}, expect=200)
    return body["data"]


async def import_connection(
    running: RunningGateway, tracker: Tracker, connection_id: str = "c1", key: str = "made"
) -> Any:
    grant = {name: value for name, value in tracker.grant().items() if name != "token_type"}
    body = {"provider_config_key": key, "connection_id": connection_id, "credentials": {"type": "OAUTH2", **grant}}
    return await running.json("POST", "/connections", json=body, expect=201)


async def test_created_integration_works_immediately_and_after_a_restart(
    running: RunningGateway, tracker: Tracker
) -> None:
    reply = await create_integration(running, display_name="Mine", forward_webhooks=False)
    assert {name: reply[name] for name in ("unique_key", "provider", "display_name", "forward_webhooks")} == {
        "unique_key": "made",
        "provider": "tracker",
        "display_name": "Mine",
        "forward_webhooks": False,
    }
    assert "s3cret-value" not in str(reply)
    assert "credentials" not in reply
    await import_connection(running, tracker)
    for _ in range(2):
        async with running.call_proxy("c1", integration="made") as response:
            assert response.status == 200
        listed = (await running.json("GET", "/integrations", expect=200))["data"]
        assert [row["unique_key"] for row in listed] == ["tracker", "made"]
        assert listed[1]["created_at"] == reply["created_at"]
        await running.restart()


async def test_the_secret_is_sealed_on_the_disk(running: RunningGateway) -> None:
    await create_integration(running)
    await running.stop()
    for file in running.folder.glob("gateway.db*"):
        assert b"s3cret-value" not in file.read_bytes()
    await running.start()


async def test_include_adds_the_requested_fields(running: RunningGateway) -> None:
    await create_integration(running, credentials={**CLIENT, "webhook_secret": "hook"})
    both = await running.json("GET", "/integrations/made?include=webhook&include=credentials", expect=200)
    assert both["data"]["credentials"] == {**CLIENT, "webhook_secret": "hook"}
    assert both["data"]["webhook_url"] is None
    bare = await running.json("GET", "/integrations/made", expect=200)
    assert not {"credentials", "webhook_url"} & bare["data"].keys()
    declared = await running.json("GET", "/integrations/tracker?include=credentials,webhook", expect=200)
    assert declared["data"]["credentials"]["client_id"] == "client"
    assert declared["data"]["credentials"]["webhook_secret"] is None
    body = await running.json("GET", "/integrations/made?include=everything", expect=400)
    assert body["error"]["errors"][0]["path"] == ["include"]


async def test_provider_with_a_routing_script_has_a_webhook_url(running: RunningGateway) -> None:
    jira = {"provider": "jira", "unique_key": "j", "credentials": CLIENT}
    await running.json("POST", "/integrations", json=jira, expect=200)
    body = await running.json("GET", "/integrations/j?include=webhook", expect=200)
    assert body["data"]["webhook_url"] == f"{running.url}/webhook/dev/j"


async def test_webhook_url_of_a_key_with_special_characters_is_quoted_and_works(running: RunningGateway) -> None:
    jira = {"provider": "jira", "unique_key": "a b@c:d~e", "credentials": CLIENT, "allow_unsigned_webhooks": True}
    await running.json("POST", "/integrations", json=jira, expect=200)
    body = await running.json("GET", "/integrations/a%20b@c:d~e?include=webhook", expect=200)
    url = body["data"]["webhook_url"]
    assert url == f"{running.url}/webhook/dev/a%20b%40c%3Ad~e"
    assert url == running.runtime.generation.webhook_url("dev", "a b@c:d~e")
    async with running.http.post(URL(url, encoded=True), json={}) as response:
        assert response.status == 200


WRONG: list[tuple[dict[str, Any], list[list[str]]]] = [
    ({"provider": "nowhere"}, [["provider"]]),
    ({"unique_key": "tracker"}, [["uniqueKey"]]),
    ({"unique_key": "there"}, [["uniqueKey"]]),
    ({"unique_key": "a/b"}, [["unique_key"]]),
    ({"unique_key": "x" * 256}, [["unique_key"]]),
    ({"credentials": None}, [["credentials"]]),
    ({"credentials": {"type": "APP"}}, [["credentials", name] for name in ("app_id", "app_link", "private_key")]),
    ({"credentials": {**CLIENT, "type": "OAUTH1"}}, [["credentials", "type"]]),
    ({"credentials": {**CLIENT, "type": "API_KEY"}}, [["credentials", "type"]]),
    ({"credentials": {"client_id": "a"}}, [["credentials", "type"]]),
    ({"credentials": {**CLIENT, "client_id": ""}}, [["credentials", "client_id"]]),
    ({"credentials": {**CLIENT, "client_id": "x" * 256}}, [["credentials", "client_id"]]),
    ({"credentials": {**CLIENT, "client_secret": "a\n"}}, [["credentials", "client_secret"]]),
    ({"credentials": {**CLIENT, "scopes": "a b"}}, [["credentials", "scopes"]]),
    ({"credentials": {**CLIENT, "webhook_secret": "x" * 256}}, [["credentials", "webhook_secret"]]),
    ({"credentials": {**CLIENT, "surprise": "x"}}, [["credentials", "surprise"]]),
    ({"integration_config": {"a": "b"}}, [["integration_config", "a"]]),
    ({"custom": {"a": "x" * 8193}}, [["custom", "a"]]),
    ({"forward_webhooks": "yes"}, [["forward_webhooks"]]),
    ({"surprise": 1}, [["surprise"]]),
    ({"provider": "nowhere", "unique_key": "tracker"}, [["provider"], ["uniqueKey"]]),
]


async def test_invalid_integration_is_refused_with_all_faults(running: RunningGateway) -> None:
    await create_integration(running, unique_key="there")
    for changes, paths in WRONG:
        body = await running.json("POST", "/integrations", json={**NEW, **changes}, expect=400)
        assert body["error"]["code"] == "invalid_body"
        assert [issue["path"] for issue in body["error"]["errors"]] == paths, changes
    assert len((await running.json("GET", "/integrations"))["data"]) == 2


async def test_integration_of_an_api_key_provider_has_no_credentials(running: RunningGateway) -> None:
    plain = {"provider": "openai", "unique_key": "o"}
    body = await running.json("POST", "/integrations", json={**plain, "credentials": CLIENT}, expect=400)
    assert body["error"]["errors"][0]["path"] == ["credentials", "type"]
    await running.json("POST", "/integrations", json=plain, expect=200)
    shown = await running.json("GET", "/integrations/o?include=credentials", expect=200)
    assert shown["data"]["credentials"] is None


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_declared_integration_is_read_only_and_names_its_file(running: RunningGateway, method: str) -> None:
    body = {"json": {"display_name": "x"}} if method == "PATCH" else {}
    response = await running.json(method, "/integrations/tracker", expect=409, **body)
    assert response["error"]["code"] == "conflict"
    assert "environments.dev.integrations.tracker" in response["error"]["message"]
    unknown = await running.json(method, "/integrations/nobody", expect=404, **body)
    assert unknown["error"]["code"] == "not_found"


async def test_error_names_the_line_of_a_declared_integration(tmp_path: Path, tracker: Tracker) -> None:
    import yaml

    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(document([])))
    gateway = RunningGateway(tmp_path, document([]))
    await gateway.start()
    assert await reload.reload(gateway.app, str(tmp_path / "gateway.yaml"))
    body = await gateway.json("DELETE", "/integrations/tracker", expect=409)
    line = (tmp_path / "gateway.yaml").read_text().splitlines().index("      tracker:") + 1
    assert body["error"]["payload"] == {"declared_at": f"gateway.yaml:{line}"}
    await gateway.stop()


async def test_misspelt_provider_is_reported_with_the_closest_match(running: RunningGateway) -> None:
    for name, hint in (("githbu", "'githbu'; did you mean 'github'? GET"), ("no-such-thing", "'no-such-thing'. GET")):
        body = await running.json("POST", "/integrations", json={"unique_key": "x", "provider": name}, expect=400)
        assert body["error"]["errors"][0]["path"] == ["provider"]
        assert hint in body["error"]["message"]


async def test_change_is_effective_and_keeps_other_fields(running: RunningGateway, tracker: Tracker) -> None:
    before = await create_integration(running, credentials={**CLIENT, "webhook_secret": "hook"}, custom={"team": "a"})
    url = "/integrations/made"
    body = await running.json("PATCH", url, json={"display_name": "New", "forward_webhooks": False}, expect=200)
    assert body["data"] == {
        **before,
        "display_name": "New",
        "forward_webhooks": False,
        "updated_at": body["data"]["updated_at"],
    }
    other = {"type": "OAUTH2", "client_id": "client-3", "client_secret": "other"}
    await running.json("PATCH", url, json={"credentials": other}, expect=200)
    shown = (await running.json("GET", f"{url}?include=credentials"))["data"]
    assert shown["credentials"] == {**other, "scopes": CLIENT["scopes"], "webhook_secret": "hook"}
    assert shown["custom"] == {"team": "a"}
    await running.json("PATCH", url, json={"credentials": {**other, "scopes": ""}}, expect=200)
    assert (await running.json("GET", f"{url}?include=credentials"))["data"]["credentials"]["scopes"] is None


async def test_only_integrations_without_connections_can_be_renamed(running: RunningGateway, tracker: Tracker) -> None:
    await create_integration(running)
    await create_integration(running, unique_key="there")
    for taken in ("tracker", "there"):
        body = await running.json("PATCH", "/integrations/made", json={"unique_key": taken}, expect=400)
        assert body["error"]["errors"][0]["path"] == ["uniqueKey"]
    await running.json("PATCH", "/integrations/made", json={"unique_key": "other"}, expect=200)
    await running.json("GET", "/integrations/made", expect=404)
    await import_connection(running, tracker, key="other")
    body = await running.json("PATCH", "/integrations/other", json={"unique_key": "made"}, expect=400)
    assert "connections" in body["error"]["message"]
    await running.restart()
    await running.json("GET", "/integrations/other", expect=200)


async def test_deleting_an_integration_deletes_connections_and_revokes_tokens(
    running: RunningGateway, tracker: Tracker, tmp_path: Path
) -> None:
    await create_integration(running)
    for n in range(3):
        await import_connection(running, tracker, f"c{n}")
    async with running.call_proxy("c1", integration="made") as response:
        assert response.status == 200
    body = await running.json("DELETE", "/integrations/made", expect=200)
    assert body == {"success": True, "connections": {"deleted": 3, "revocation": {}}}
    async with running.call_proxy("c1", integration="made") as response:
        assert (response.status, response.headers["Gateway-Error"]) == (404, "unknown_provider_config")
    assert (await running.json("GET", "/connections"))["connections"] == []
    await running.json("DELETE", "/integrations/made", expect=404)
    await create_integration(running)  # the key is free again
    assert await running.json("DELETE", "/integrations/made", expect=200) == {"success": True}


async def test_tokens_are_revoked_with_the_client_of_the_deleted_integration(
    running: RunningGateway, tracker: Tracker
) -> None:
    write_entry(running.folder, "tracker", tracker_entry(tracker.url, revocation_url=f"{tracker.url}/revoke"))
    await running.restart()
    tracker.refusal = 200
    await create_integration(running)
    await import_connection(running, tracker)
    body = await running.json("DELETE", "/integrations/made", expect=200)
    assert body["connections"] == {"deleted": 1, "revocation": {"revoked": 2}}
    assert [item.path for item in tracker.seen][-2:] == ["/revoke", "/revoke"]


async def test_interrupted_deletion_is_resumed(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_integration(running)
    await import_connection(running, tracker)
    runtime = running.runtime
    found = runtime.generation.integrations.find("dev", "made")
    assert found is not None
    from gateway import clock

    await runtime.store.integrations.begin_deletion(found, now=clock.now())
    taken = await running.json("POST", "/integrations", json={**NEW, "unique_key": "made"}, expect=400)
    assert taken["error"]["errors"][0]["path"] == ["uniqueKey"]
    monkeypatch.setattr("gateway.app.lifetime.HOUSEKEEPING_DELAY_S", 0.0)
    await running.restart()
    async with asyncio.timeout(PATIENCE_S):
        while (await running.json("GET", "/connections"))["connections"]:
            await asyncio.sleep(0.02)
        while await running.runtime.store.integrations.list_ending():
            await asyncio.sleep(0.02)
    await create_integration(running)


async def test_stale_read_of_the_store_does_not_restore_a_deleted_integration(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, integrations = running.runtime.store.integrations, running.runtime.current.generation.integrations
    read, seen, goes_on = type(stored).get, asyncio.Event(), asyncio.Event()

    async def read_and_wait(store: Any, environment: str, integration_id: str) -> Any:
        found = await read(store, environment, integration_id)
        if not seen.is_set():
            seen.set()
            await goes_on.wait()
        return found

    monkeypatch.setattr(type(stored), "get", read_and_wait)
    await create_integration(running)
    async with asyncio.timeout(PATIENCE_S):
        await seen.wait()  # the change feed is processing the row
    await running.json("DELETE", "/integrations/made", expect=200)
    assert not integrations.has("dev", "made")
    put = list[Any]()
    monkeypatch.setattr(type(running.runtime.live), "apply_integration", lambda _live, *what: put.append(what))
    goes_on.set()
    async with asyncio.timeout(PATIENCE_S):
        while not put:
            await asyncio.sleep(0.01)
    assert put[0] == ("dev", "made", None)


async def test_another_node_learns_of_every_change(
    running: RunningGateway, second_node: RunningGateway, tracker: Tracker
) -> None:
    async def wait_for_second_node(status: int, name: str = "display_name", value: str | None = None) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                async with second_node.http.get(
                    f"{second_node.url}/integrations/made", headers=second_node.headers
                ) as response:
                    body = await response.json()
                    if response.status == status and (value is None or body["data"][name] == value):
                        return
                await asyncio.sleep(0.02)

    await create_integration(running)
    await wait_for_second_node(200)
    await import_connection(second_node, tracker)
    async with second_node.call_proxy("c1", integration="made") as response:
        assert response.status == 200
    await running.json("PATCH", "/integrations/made", json={"display_name": "New"}, expect=200)
    await wait_for_second_node(200, value="New")
    await running.json("DELETE", "/integrations/made", expect=200)
    await wait_for_second_node(404)
    async with second_node.call_proxy("c1", integration="made") as response:
        assert (response.status, response.headers["Gateway-Error"]) == (404, "unknown_provider_config")


async def test_reload_keeps_created_integrations_and_declared_ones_win(
    running: RunningGateway, tracker: Tracker
) -> None:
    await create_integration(running)
    await import_connection(running, tracker)
    own = {"provider": "tracker", "client_id": "x", "client_secret": "y", "display_name": "D"}

    def read(document: dict[str, Any]) -> configuration.Config:
        return configuration.parse({**running.document, **document}, base=running.folder, environ={})

    assert await reload.reload(running.app, read({}))
    assert (await running.json("GET", "/integrations/made", expect=200))["data"]["display_name"] == "Tracker"
    assert await reload.reload(running.app, read({"environments": document([], made=own)["environments"]}))
    assert (await running.json("GET", "/integrations/made", expect=200))["data"]["display_name"] == "D"
    await running.json("DELETE", "/integrations/made", expect=409)
    async with running.call_proxy("c1", integration="made") as response:
        assert response.status == 200
