import re
from typing import Any

import pytest

from gateway.api import connections
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def test_an_import_returns_the_whole_connection(running: RunningGateway, tracker: Tracker) -> None:
    response = await running.import_connection(tracker.grant(), metadata={"a": 1}, tags={"Team": "x"})
    assert response["connection_id"] == "c1"
    assert response["provider"] == "tracker"
    assert response["metadata"] == {"a": 1}
    assert response["tags"] == {"team": "x"}
    assert response["errors"] == []
    assert response["connection_config"]["cloudId"] == "cloud-1"
    assert response["credentials"]["refresh_token"] == "refresh-0"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", response["created_at"])


async def test_an_import_without_an_id_gets_one(running: RunningGateway, tracker: Tracker) -> None:
    body = {"provider_config_key": "tracker", "credentials": {"type": "OAUTH2", "access_token": "a"}}
    tracker.grants.append(type(tracker.grants[0])("r", {"a"})) if tracker.grants else tracker.grant()
    tracker.grants[0].access_tokens = {"a"}
    response = await running.json("POST", "/connections", json=body, expect=201)
    assert re.fullmatch(r"[0-9a-f-]{36}", response["connection_id"])


async def test_an_import_suggests_no_other_integration_to_a_limited_key(running: RunningGateway) -> None:
    body = {
        "provider_config_key": "traker",
        "connection_id": "c",
        "credentials": {"type": "OAUTH2", "access_token": "a"},
    }
    refused = (await running.json("POST", "/connections", json=body, expect=404))["error"]
    assert "Did you mean 'tracker'?" in refused["message"]
    limits = {"integrations": ["traker"]}  # no integration has this name
    request_body = {"display_name": "n", "scopes": ["environment:connections:create"], "limits": limits}
    key = (await running.json("POST", "/environment/api-keys", json=request_body, expect=200))["data"]["secret"]
    headers = {"Authorization": f"Bearer {key}"}
    async with running.http.post(f"{running.url}/connections", json=body, headers=headers) as response:
        assert (response.status, "Did you mean" in await response.text()) == (404, False)


async def test_import_without_settings_keeps_the_site_and_metadata(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(
        tracker.grant(), connection_config={"Subdomain": "globex.tracker.example"}, metadata={"a": 1}
    )
    again = await running.import_connection(tracker.grant())
    assert again["connection_config"]["cloudId"] == "cloud-2"
    assert again["metadata"] == {"a": 1}
    moved = await running.import_connection(tracker.grant(), connection_config={"subdomain": "acme"})
    assert moved["connection_config"]["cloudId"] == "cloud-1"
    assert len((await running.json("GET", "/connections"))["connections"]) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_a_mistyped_credential_is_reported_with_the_nearest_field(shared_gateway: RunningGateway) -> None:
    credentials = {"type": "OAUTH2", "accessToken": "a"}
    body = {"provider_config_key": "tracker", "connection_id": "c9", "credentials": credentials}
    response = await shared_gateway.json("POST", "/connections", json=body, expect=400)
    assert response["error"]["message"] == (
        "'access_token' is missing; 'accessToken' is not a field of these credentials; did you mean 'access_token'?"
    )


@pytest.mark.parametrize(
    ("changes", "status", "code", "path"),
    [
        ({"provider_config_key": "nope"}, 404, "unknown_provider_config", None),
        ({"provider_config_key": ""}, 400, "invalid_body", ["provider_config_key"]),
        ({"connection_id": "caf\u00e9"}, 400, "invalid_body", ["connection_id"]),
        ({"connection_id": "x" * 256}, 400, "invalid_body", ["connection_id"]),
        *(
            ({"connection_id": lost}, 400, "invalid_body", ["connection_id"])
            for lost in (" x", "x ", " ", ".", "..", "a/../b", "a\\..\\b", "..;x")
        ),
        ({"surprise": 1}, 400, "invalid_body", ["surprise"]),
        ({"credentials": {"type": "API_KEY", "apiKey": "k"}}, 400, "invalid_body", ["credentials", "type"]),
        ({"credentials": {"type": "OAUTH2"}}, 400, "invalid_body", ["credentials", "access_token"]),
        ({"tags": {"1x": "y"}}, 400, "invalid_body", ["tags"]),
        ({"tags": {f"t{n}": "y" for n in range(11)}}, 400, "invalid_body", ["tags"]),
        ({"end_user": {"id": ""}}, 400, "invalid_body", ["end_user", "id"]),
        ({"connection_config": {"subdomain": "nowhere"}}, 400, "connection_validation_failed", None),
        ({"connection_config": {"subdomian": "acme"}}, 400, "connection_validation_failed", None),
        ({"metadata": {"x": "y" * 65_536}}, 400, "invalid_body", ["metadata"]),
        ({"connection_config": {"subdomain": "y" * 65_536}}, 400, "invalid_body", ["connection_config"]),
        (
            {"end_user": {"id": "u", "tags": {str(n): "y" for n in range(65)}}},
            400,
            "invalid_body",
            ["end_user", "tags"],
        ),
        ({"credentials": {"type": []}}, 400, "invalid_body", ["credentials", "type"]),
        (
            {"credentials": {"access_token": "a", "expires_at": "9999-12-31T23:59:59-12:00"}},
            400,
            "invalid_body",
            ["credentials", "expires_at"],
        ),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_import_names_its_fault_and_stores_nothing(
    shared_gateway: RunningGateway,
    shared_tracker: Tracker,
    changes: dict[str, Any],
    status: int,
    code: str,
    path: list[str] | None,
) -> None:
    grant = shared_tracker.grant()
    body = {
        "provider_config_key": "tracker",
        "connection_id": "c1",
        "credentials": {"type": "OAUTH2", "access_token": grant["access_token"]},
        **changes,
    }
    response = await shared_gateway.json("POST", "/connections", json=body, expect=status)
    assert response["error"]["code"] == code
    if path is not None:
        assert path in [issue["path"] for issue in response["error"]["errors"]]
    assert (await shared_gateway.json("GET", "/connections"))["connections"] == []


async def test_a_refused_import_leaves_the_older_connection_as_it_was(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    body = {
        "provider_config_key": "tracker",
        "connection_id": "c1",
        "credentials": {"type": "OAUTH2", "access_token": "stolen"},
    }
    reply = await running.json("POST", "/connections", json=body, expect=400)
    assert reply["error"]["code"] == "connection_test_failed"
    async with running.call_proxy("c1") as response:
        assert response.status == 200


async def test_the_list_is_filtered_and_paged(running: RunningGateway, tracker: Tracker) -> None:
    for n in range(5):
        await running.import_connection(
            tracker.grant(),
            f"c{n}",
            end_user={"id": f"u{n}", "email": f"u{n}@example.com"},
            tags={"even": str(n % 2 == 0)},
        )

    async def ids(query: str) -> list[str]:
        body = await running.json("GET", f"/connections?{query}", expect=200)
        return [connection["connection_id"] for connection in body["connections"]]

    assert await ids("") == ["c4", "c3", "c2", "c1", "c0"]
    assert await ids("connectionId=c3") == ["c3"]
    assert await ids("endUserId=u2") == ["c2"]
    assert await ids("search=U1%40EXAMPLE") == ["c1"]
    assert await ids("tags%5BEven%5D=True") == ["c4", "c2", "c0"]
    assert await ids("integrationId=tracker,other&limit=2&page=1") == ["c2", "c1"]
    assert await ids("integrationId=other") == []
    first = await running.json("GET", "/connections?limit=3")
    rest = await running.json("GET", f"/connections?limit=3&cursor={first['next_cursor']}")
    assert [connection["connection_id"] for connection in rest["connections"]] == ["c1", "c0"]
    assert "next_cursor" not in rest
    assert "credentials" not in str(first)


async def test_list_without_a_limit_ends_with_a_cursor(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (connections.MAX_LIMIT, connections.DEFAULT_LIMIT) == (2000, 10_000)
    monkeypatch.setattr(connections, "DEFAULT_LIMIT", 2)
    for n in range(3):
        await running.import_connection(tracker.grant(), f"c{n}")
    first = await running.json("GET", "/connections")
    rest = await running.json("GET", f"/connections?cursor={first['next_cursor']}")
    assert [connection["connection_id"] for reported in (first, rest) for connection in reported["connections"]] == [
        "c2",
        "c1",
        "c0",
    ]
    assert "next_cursor" not in rest
    assert [
        connection["connection_id"] for connection in (await running.json("GET", "/connections?page=1"))["connections"]
    ] == ["c0"]
    refused = await running.json("GET", "/connections?limit=5000", expect=400)
    assert "from 1 to 2000" in refused["error"]["message"]


async def test_list_page_is_limited_in_bytes(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PAGE_BYTES", 3000)
    monkeypatch.setattr(connections, "ROWS_PER_READ", 2)
    names = [f"c{n}" for n in range(7)]
    for name in names:
        await running.import_connection(tracker.grant(), name, metadata={"note": "é" * 200})
    listed: list[str] = []
    pages, query = 0, "/connections"
    while query:
        body = await running.json("GET", query, expect=200)
        assert 1 <= len(body["connections"]) <= 3
        listed += [connection["connection_id"] for connection in body["connections"]]
        pages += 1
        query = f"/connections?cursor={body['next_cursor']}" if "next_cursor" in body else ""
    assert listed == names[::-1]
    assert pages >= 3


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=2001", "limit=x", "page=-1", "surprise=1", "connectionId=a&connectionId=b"]
)
@pytest.mark.asyncio(loop_scope="module")
async def test_error_names_the_wrong_query_parameter_of_the_list(shared_gateway: RunningGateway, query: str) -> None:
    body = await shared_gateway.json("GET", f"/connections?{query}", expect=400)
    assert body["error"]["code"] == "invalid_query_params"


async def test_a_connection_id_can_contain_slashes_and_spaces(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant(), "c 1/x")
    body = await running.json("GET", "/connections/c%201/x?provider_config_key=tracker", expect=200)
    assert body["connection_id"] == "c 1/x"


async def test_delete_is_effective_immediately(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    async with running.call_proxy("c1") as response:
        assert response.status == 200
    url = "/connections/c1?provider_config_key=tracker"
    assert await running.json("DELETE", url, expect=200) == {"success": True, "at_provider": False}
    async with running.call_proxy("c1") as response:
        assert (response.status, response.headers["Gateway-Error"]) == (404, "unknown_connection")
    for method in ("DELETE", "GET"):
        body = await running.json(method, url, expect=404)
        assert body["error"]["code"] == "unknown_connection"


async def test_read_without_its_integration_names_the_missing_parameter(running: RunningGateway) -> None:
    body = await running.json("GET", "/connections/c1", expect=400)
    assert body["error"]["errors"][0]["path"] == ["provider_config_key"]


async def test_body_that_is_not_json_is_refused(running: RunningGateway) -> None:
    headers = {"Content-Type": "application/json"}
    async with running.http.post(
        f"{running.url}/connections", data=b'{"a":', headers={**running.headers, **headers}
    ) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (400, "invalid_json")


async def test_a_connection_has_a_limited_number_of_settings(running: RunningGateway, tracker: Tracker) -> None:
    body = {
        "provider_config_key": "tracker",
        "credentials": {"type": "OAUTH2", "access_token": "a"},
        "connection_config": {f"x{number}": "y" for number in range(251)},
    }
    response = await running.json("POST", "/connections", json=body, expect=400)
    assert "at most 250 settings" in response["error"]["message"]


async def test_a_body_with_too_many_faults_is_refused_in_one_sentence(running: RunningGateway) -> None:
    body = await running.json("POST", "/connections", json={f"x{number}": 1 for number in range(2000)}, expect=400)
    assert body["error"]["message"].startswith("The body has 2,002 faults.")
    assert len(body["error"]["errors"]) == 1


async def test_a_list_is_not_filtered_by_more_tags_than_a_connection_has(running: RunningGateway) -> None:
    query = "&".join(f"tags[t{number}]=x" for number in range(600))
    body = await running.json("GET", f"/connections?{query}", expect=400)
    assert body["error"]["errors"][0]["path"] == ["tags"]
    await running.json("GET", "/connections?" + "&".join(query.split("&")[:10]), expect=200)
