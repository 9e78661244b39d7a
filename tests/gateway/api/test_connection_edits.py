"""Changing a connection without a new credential (docs/compatibility.md#connections)."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from gateway.records.connection import ConnectionRef
from tests.fakes.gateways import RunningGateway, tracker_entry, write_entry
from tests.fakes.tracker import Tracker

CONNECTION_PATH = "/connections/c1?provider_config_key=tracker"


async def test_metadata_is_set_and_merged_for_one_or_several(running: RunningGateway, tracker: Tracker) -> None:
    for name in ("c1", "c2"):
        await running.import_connection(tracker.grant(), name, metadata={"old": 1})
    both = {"connection_id": ["c1", "c2"], "provider_config_key": "tracker", "metadata": {"a": {"b": 1}}}
    assert await running.json("POST", "/connections/metadata", json=both, expect=201) == both
    item = {"connection_id": "c1", "provider_config_key": "tracker", "metadata": {"a": {"c": 2}, "n": None}}
    assert await running.json("PATCH", "/connections/metadata", json=item, expect=200) == item
    listed = (await running.json("GET", "/connections"))["connections"]
    stored = {row["connection_id"]: row["metadata"] for row in listed}
    assert stored == {"c1": {"a": {"c": 2}, "n": None}, "c2": {"a": {"b": 1}}}


async def test_metadata_is_set_for_all_connections_or_none(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant(), metadata={"old": 1})
    for method in ("POST", "PATCH"):
        body = {"connection_id": ["c1", "nobody"], "provider_config_key": "tracker", "metadata": {"a": 1}}
        response = await running.json(method, "/connections/metadata", json=body, expect=404)
        assert (response["error"]["code"], response["error"]["payload"]["connection_id"]) == (
            "unknown_connection",
            "nobody",
        )
    assert (await running.json("GET", CONNECTION_PATH))["metadata"] == {"old": 1}


async def test_size_of_metadata_is_limited_also_after_a_merge(running: RunningGateway, tracker: Tracker) -> None:
    most = {"a": "é" * 30_000, "b": ""}
    for name in ("c1", "c2"):
        await running.import_connection(tracker.grant(), name, metadata={"old": 1} if name == "c1" else most)
    both = {"connection_id": ["c1", "c2"], "provider_config_key": "tracker", "metadata": {"c": "x" * 6000}}
    refused = await running.json("PATCH", "/connections/metadata", json=both, expect=400)
    assert "connection 'c2'" in refused["error"]["message"]
    assert refused["error"]["errors"][0]["path"] == ["metadata"]
    assert (await running.json("GET", CONNECTION_PATH))["metadata"] == {"old": 1}
    assert (await running.json("POST", "/connections/metadata", json=both, expect=201)) == both
    bare = {"x": "y" * 65_536}
    headers = {**running.headers, "Provider-Config-Key": "tracker"}
    async with running.http.post(f"{running.url}/connection/c1/metadata", json=bare, headers=headers) as response:
        assert (response.status, "65,544 bytes" in await response.text()) == (400, True)


WRONG_METADATA: list[tuple[dict[str, Any], list[str]]] = [
    ({"connection_id": 1}, ["connection_id"]),
    ({"connection_id": []}, ["connection_id"]),
    ({"connection_id": ["c1", "caf\u00e9"]}, ["connection_id", "1"]),
    ({"metadata": []}, ["metadata"]),
    ({"metadata": None}, ["metadata"]),
    ({"surprise": 1}, ["surprise"]),
]


async def test_error_names_the_wrong_member_of_metadata(running: RunningGateway) -> None:
    for changes, path in WRONG_METADATA:
        body = {"connection_id": "c1", "provider_config_key": "tracker", "metadata": {}, **changes}
        response = await running.json("POST", "/connections/metadata", json=body, expect=400)
        assert path in [issue["path"] for issue in response["error"]["errors"]], changes
    unknown = {"connection_id": "c1", "provider_config_key": "no", "metadata": {}}
    response = await running.json("POST", "/connections/metadata", json=unknown, expect=404)
    assert response["error"]["code"] == "unknown_provider_config"


async def test_next_request_uses_changed_metadata(running: RunningGateway, tracker: Tracker) -> None:
    proxy = {"base_url": tracker.url, "headers": {"x-team": "${metadata.team}"}}
    write_entry(running.folder, "tracker", tracker_entry(tracker.url, proxy=proxy))
    await running.restart()
    await running.import_connection(tracker.grant(), metadata={"team": "red"})
    for team in ("red", "blue"):
        body = {"connection_id": "c1", "provider_config_key": "tracker", "metadata": {"team": team}}
        await running.json("PATCH", "/connections/metadata", json=body, expect=200)
        dry = {"Gateway-Dry-Run": "true"}
        async with running.call_proxy("c1", headers=dry) as response:
            assert ["x-team", team] in [[name.lower(), text] for name, text in (await response.json())["headers"]]


async def test_deprecated_metadata_endpoints_still_work(running: RunningGateway, tracker: Tracker) -> None:
    grant = tracker.grant()
    flat = {
        "provider_config_key": "tracker",
        "access_token": grant["access_token"],
        "refresh_token": grant["refresh_token"],
        "metadata": {"old": 1},
    }
    reply = await running.json("POST", "/connection", json=flat, expect=201)
    connection_id = reply.pop("connection_id")
    assert reply == flat
    url = f"/connection/{connection_id}?provider_config_key=tracker"
    connection = await running.json("GET", url, expect=200)
    assert connection["credentials"]["access_token"] == grant["access_token"]
    headers = {**running.headers, "Provider-Config-Key": "tracker"}
    for method, body, status, stored in (
        ("POST", {"a": 1}, 201, {"a": 1}),
        ("PATCH", {"b": 2}, 200, {"a": 1, "b": 2}),
    ):
        metadata_url = f"{running.url}/connection/{connection_id}/metadata"
        async with running.http.request(method, metadata_url, headers=headers, json=body) as response:
            assert (response.status, await response.json()) == (status, body)
        assert (await running.json("GET", url))["metadata"] == stored
    assert len((await running.json("GET", "/connection", expect=200))["connections"]) == 1
    assert await running.json("PATCH", url, json={"tags": {"a": "b"}}, expect=200) == {"success": True}
    assert await running.json("DELETE", url, expect=200) == {"success": True, "at_provider": False}


async def test_metadata_of_several_connections_is_set_at_the_old_path_too(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    names = {"connection_id": ["c1"], "provider_config_key": "tracker"}
    for method, metadata, status, stored in (
        ("POST", {"a": 1}, 201, {"a": 1}),
        ("PATCH", {"b": 2}, 200, {"a": 1, "b": 2}),
    ):
        body = {**names, "metadata": metadata}
        assert await running.json(method, "/connection/metadata", json=body, expect=status) == body
        assert (await running.json("GET", CONNECTION_PATH))["metadata"] == stored


async def test_flat_import_accepts_an_api_key_and_a_password(running: RunningGateway, tracker: Tracker) -> None:
    for name, mode in (("keyed", "API_KEY"), ("basic", "BASIC")):
        entry = {"display_name": name, "docs": "https://d.example", "categories": ["x"], "auth_mode": mode}
        write_entry(running.folder, name, {**entry, "proxy": {"base_url": tracker.url}})
        running.document["environments"]["dev"]["integrations"][name] = {"provider": name}
    await running.restart()
    sent = {"provider_config_key": "keyed", "connection_id": "k", "api_key": "k-1"}
    assert await running.json("POST", "/connection", json=sent, expect=201) == sent
    connection = await running.json("GET", "/connections/k?provider_config_key=keyed")
    assert connection["credentials"] == {"type": "API_KEY", "apiKey": "k-1"}
    sent = {"provider_config_key": "basic", "connection_id": "b", "username": "u", "password": ""}
    assert await running.json("POST", "/connection", json=sent, expect=201) == sent
    wrong = {"provider_config_key": "keyed", "password": "x"}
    body = await running.json("POST", "/connection", json=wrong, expect=400)
    assert body["error"]["code"] == "invalid_body"


async def test_flat_import_accepts_an_own_client_and_a_token_without_expiry(
    running: RunningGateway, tracker: Tracker
) -> None:
    sent = {
        "provider_config_key": "tracker",
        "connection_id": "c1",
        "access_token": tracker.grant()["access_token"],
        "no_expiration": True,
        "oauth_client_id_override": "own-id",
        "oauth_client_secret_override": "own-secret",
    }
    assert await running.json("POST", "/connection", json=sent, expect=201) == sent
    connection = (await running.json("GET", CONNECTION_PATH, expect=200))["credentials"]
    assert connection["config_override"] == {"client_id": "own-id", "client_secret": "own-secret"}
    assert "expires_at" not in connection
    wrong = await running.json("POST", "/connection", json={**sent, "no_expiration": "yes"}, expect=400)
    assert wrong["error"]["errors"][0]["path"] == ["credentials", "no_expiration"]


async def test_a_patch_replaces_tags_by_those_of_the_end_user_and_those_given(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant(), tags={"old": "x"})
    body = {"end_user": {"id": "u1", "email": "u1@example.com", "display_name": "Una"}, "tags": {"Team": "Red"}}
    assert await running.json("PATCH", CONNECTION_PATH, json=body, expect=200) == {"success": True}
    connection = await running.json("GET", CONNECTION_PATH)
    assert connection["tags"] == {
        "end_user_id": "u1",
        "end_user_email": "u1@example.com",
        "end_user_display_name": "Una",
        "team": "Red",
    }
    assert connection["end_user"]["id"] == "u1"
    for query in ("tags[team]=Red", "tags%5BTEAM%5D=Red", "endUserId=u1", "search=UNA"):
        assert len((await running.json("GET", f"/connections?{query}"))["connections"]) == 1, query
    assert (await running.json("GET", "/connections?tags[old]=x"))["connections"] == []
    await running.json("PATCH", CONNECTION_PATH, json={"webhook_url_override": "https://hooks.example/x"}, expect=200)
    connection = await running.json("GET", CONNECTION_PATH)
    assert (connection["webhook_url_override"], connection["tags"]["team"]) == ("https://hooks.example/x", "Red")
    await running.json("PATCH", CONNECTION_PATH, json={"webhook_url_override": ""}, expect=200)
    assert (await running.json("GET", CONNECTION_PATH))["webhook_url_override"] is None
    await running.json("PATCH", CONNECTION_PATH, json={"tags": {}}, expect=200)
    assert (await running.json("GET", CONNECTION_PATH))["tags"] == {}


WRONG_PATCHES: list[tuple[str, dict[str, Any], int, str]] = [
    (CONNECTION_PATH, {"metadata": {}}, 400, "invalid_body"),
    (CONNECTION_PATH, {"webhook_url_override": "nowhere"}, 400, "invalid_body"),
    (CONNECTION_PATH, {"tags": {"a": "1", "A": "2"}}, 400, "invalid_body"),
    (CONNECTION_PATH, {"tags": {"end_user_email": "nobody"}}, 400, "invalid_body"),
    (CONNECTION_PATH, {"end_user": {"id": "u", "surprise": 1}}, 400, "invalid_body"),
    ("/connections/c1", {}, 400, "invalid_query_params"),
    (f"{CONNECTION_PATH}&surprise=1", {}, 400, "invalid_query_params"),
    ("/connections/caf%C3%A9?provider_config_key=tracker", {}, 400, "invalid_uri_params"),
    (f"/connections/{'x' * 256}?provider_config_key=tracker", {}, 400, "invalid_uri_params"),
    ("/connections/c1?provider_config_key=a%2Fb", {}, 400, "invalid_query_params"),
    ("/connections/c1?provider_config_key=no", {}, 404, "unknown_provider_config"),
    ("/connections/nobody?provider_config_key=tracker", {}, 404, "unknown_connection"),
]


async def test_error_names_the_wrong_member_of_a_patch(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    for url, body, status, code in WRONG_PATCHES:
        response = await running.json("PATCH", url, json=body, expect=status)
        assert response["error"]["code"] == code, (url, body)


async def test_import_reports_faults_of_body_and_credential_together(running: RunningGateway) -> None:
    body = {"provider_config_key": "tracker", "surprise": 1, "tags": {"1": "x"}, "credentials": {"type": "OAUTH2"}}
    response = await running.json("POST", "/connections", json=body, expect=400)
    paths = [issue["path"] for issue in response["error"]["errors"]]
    assert sorted(paths) == [["credentials", "access_token"], ["surprise"], ["tags"]]


async def test_unknown_setting_is_stored_and_reported(running: RunningGateway, tracker: Tracker) -> None:
    response = await running.import_connection(tracker.grant(), connection_config={"region": "eu"})
    assert response["connection_config"]["region"] == "eu"
    assert [warning["path"] for warning in response["warnings"]] == [["connection_config", "region"]]
    assert "warnings" not in await running.import_connection(tracker.grant(), connection_config={"subdomain": "acme"})


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_unexpected_body_is_refused(running: RunningGateway, tracker: Tracker, method: str) -> None:
    await running.import_connection(tracker.grant())
    body = await running.json(method, CONNECTION_PATH, json={"a": 1}, expect=400)
    assert body["error"]["code"] == "invalid_body"
    await running.json(method, CONNECTION_PATH, json={}, expect=200)


async def test_invalid_tag_filters_of_the_list_are_refused(running: RunningGateway) -> None:
    for query in ("tags[]=x", "tags[1a]=x", "tags[a]=x&tags[A]=y", "tags=x", "tags[a=x", f"tags[{'x' * 65}]=x"):
        body = await running.json("GET", f"/connections?{query}", expect=400)
        assert body["error"]["code"] == "invalid_query_params", query


async def test_environment_variables_come_from_the_configuration(running: RunningGateway) -> None:
    assert await running.json("GET", "/environment-variables", expect=200) == []
    running.document["environments"]["dev"]["variables"] = {"B": "2", "A": "one"}
    await running.restart()
    body = await running.json("GET", "/environment-variables", expect=200)
    assert body == [{"name": "B", "value": "2"}, {"name": "A", "value": "one"}]
    await running.json("GET", "/environment-variables?x=1", expect=400)


def nested_value(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [65, 490, 700])
async def test_values_that_nest_too_deep_are_refused_and_named(
    running: RunningGateway, tracker: Tracker, levels: int
) -> None:
    credential = tracker.grant()
    await running.import_connection(credential)
    deep = nested_value(levels)
    of_one = {"connection_id": "c1", "provider_config_key": "tracker"}
    imported = {**of_one, "connection_id": "c2", "credentials": credential}
    for method, path, body, name in (
        ("POST", "/connections/metadata", {**of_one, "metadata": deep}, "metadata"),
        ("PATCH", "/connections/metadata", {**of_one, "metadata": deep}, "metadata"),
        ("POST", "/connections", {**imported, "metadata": deep}, "metadata"),
        ("POST", "/connections", {**imported, "connection_config": deep}, "connection_config"),
        ("POST", "/connections", {**imported, "credentials": {**credential, "raw": deep}}, "credentials"),
        ("POST", "/connect/sessions", {"end_user": {"id": "u", "tags": deep}}, "end_user"),
        ("POST", "/connection", {**of_one, "metadata": deep}, "metadata"),
        ("PATCH", "/connections/c1?provider_config_key=tracker", {"tags": deep}, "tags"),
    ):
        refused = await running.json(method, path, json=body, expect=400)
        assert refused["error"]["code"] == "invalid_body"
        assert refused["error"]["message"] == f"{name} nests deeper than 64 levels of objects and arrays."
        assert [error["path"] for error in refused["error"]["errors"]] == [[name]]
    headers = {**running.headers, "Provider-Config-Key": "tracker"}
    async with running.http.post(
        f"{running.url}/connection/c1/metadata", json=nested_value(levels), headers=headers
    ) as bare:
        assert (bare.status, (await bare.json())["error"]["errors"][0]["path"]) == (400, ["a"] if levels > 65 else [])
    assert (await running.json("GET", CONNECTION_PATH))["metadata"] is None


async def test_values_of_64_levels_are_stored(running: RunningGateway, tracker: Tracker) -> None:
    deep = nested_value(64)
    await running.import_connection(tracker.grant(), metadata=deep, connection_config=deep)
    connection = await running.json("GET", CONNECTION_PATH)
    assert (connection["metadata"], connection["connection_config"]["a"]) == (deep, deep["a"])
    async with running.call_proxy("c1", "/ex/x") as response:
        assert response.status == 200


@pytest.mark.parametrize("levels", [490, 900, 960])
async def test_stored_rows_of_any_depth_are_served_and_listed(
    running: RunningGateway, tracker: Tracker, levels: int
) -> None:
    """Earlier versions accepted values that nest hundreds of levels deep."""
    await running.import_connection(tracker.grant())
    ref = ConnectionRef("dev", "tracker", "c1")
    deep = '{"a":' * levels + "1" + "}" * levels
    with closing(sqlite3.connect(running.folder / "gateway.db")) as db, db:
        db.execute("UPDATE connections SET metadata = ?, config = ?", (deep, deep))
    running.runtime.live.forget(ref)
    async with running.call_proxy("c1", "/ex/x") as response:
        assert response.status == 200
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    assert listed["metadata"]["a"]["a"]
    assert (await running.json("GET", f"{CONNECTION_PATH}&include=history&force_refresh=true"))["metadata"] == listed[
        "metadata"
    ]
    body = {"connection_id": "c1", "provider_config_key": "tracker", "metadata": {"a": 1}}
    await running.json("PATCH", "/connections/metadata", json=body, expect=200)
    assert (await running.json("GET", CONNECTION_PATH))["metadata"] == {"a": 1}
