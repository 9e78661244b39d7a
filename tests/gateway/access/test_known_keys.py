"""Minted keys through the API: what they can do, which rights they can give to other keys, and how they end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway import clock
from gateway.access import known_keys
from gateway.access.key_forms import PREFIXES, RequestedKey, key_kind, mint
from gateway.access.key_policy import Policy, SentRequest
from gateway.access.known_keys import CachedSize, MintedKeyCache, wrong_kind_error
from gateway.access.scopes import SCOPES, WILDCARDS, covers
from gateway.app.routes import ROUTES
from gateway.errors import Forbidden
from gateway.middleware.chain import CHAIN_ATTRIBUTE
from gateway.middleware.key_limits import NEEDS_ATTRIBUTE, scope
from gateway.records.access import KeyKind, KeyLimits
from gateway.records.connection import ConnectionRef
from gateway.secret import digest
from gateway.store.minted_keys import NewMintedKey
from tests.fakes.gateways import RunningGateway
from tests.fakes.keyed import OTHER_KEY, TwoConnectionGateway, two_connection_gateway
from tests.fakes.patience import PATIENCE_S

KEYS = "/environment/api-keys"
C1 = "/connections/c1?provider_config_key=acme"
C2 = "/connections/c2?provider_config_key=acme"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[TwoConnectionGateway]:
    async with two_connection_gateway(tmp_path) as made:
        yield made


async def call_proxy(
    gateway: TwoConnectionGateway, key: str, connection_id: str = "c1", **headers: str
) -> tuple[int, Any, str]:
    names = {"Authorization": f"Bearer {key}", "Provider-Config-Key": "acme", "Connection-Id": connection_id, **headers}
    async with gateway.running.http.get(f"{gateway.running.url}/proxy/x", headers=names) as response:
        return response.status, response.headers, await response.text()


def code(result: Any) -> str:
    text: str = result["error"]["code"]
    return text


async def test_key_is_returned_once_and_stored_as_a_digest(gateway: TwoConnectionGateway) -> None:
    result = await gateway.key("back end")
    secret = result["secret"]
    assert key_kind(secret) == "key"
    assert (result["display_name"], result["scopes"], result["last_four"]) == (
        "back end",
        ["environment:*"],
        secret[-4:],
    )
    listed = await gateway.running.json("GET", KEYS, expect=200)
    assert [item["id"] for item in listed["data"]] == [result["id"]]
    assert secret not in str(listed)
    assert (await gateway.call_api("GET", "/connections", secret))[0] == 200
    files = b"".join(path.read_bytes() for path in gateway.running.folder.glob("gateway.db*"))
    assert secret.encode() not in files
    assert digest(secret).encode() in files


async def test_responses_have_the_shapes_that_published_clients_expect(gateway: TwoConnectionGateway) -> None:
    """The shapes of docs/compatibility.md#environment, on which published clients rely."""
    response = await gateway.running.json("POST", KEYS, json={"environment_id": 1, "display_name": "ci"}, expect=200)
    assert {"id", "display_name", "scopes", "secret", "created_at"} <= response["data"].keys()
    again = await gateway.running.json("POST", KEYS, json={"environment_id": 1, "display_name": "ci"}, expect=409)
    assert code(again) == "conflict"
    body = {"environment_id": 1, "key_id": response["data"]["id"]}
    assert (await gateway.running.json("DELETE", KEYS, json=body, expect=200))["success"] is True
    missing = await gateway.running.json("DELETE", KEYS, json={**body, "key_id": 99}, expect=404)
    assert code(missing) == "not_found"


async def test_all_faults_of_a_key_request_are_reported_together(gateway: TwoConnectionGateway) -> None:
    limits = {"rules": ["GET v1"], "connections": ["c1"], "hosts": ["https://x"], "tags": {"a\0": "v"}, "rate": 0}
    body = {
        "display_name": "x",
        "scopes": ["environment:proxie"],
        "limits": limits,
        "expires_at": "2020-01-01T00:00:00Z",
    }
    response = await gateway.running.json("POST", KEYS, json=body, expect=400)
    paths = {".".join(issue["path"]) for issue in response["error"]["errors"]}
    assert paths == {
        "scopes.0",
        "limits.rules.0",
        "limits.connections.0",
        "limits.hosts.0",
        "limits.tags",
        "limits.rate",
        "expires_at",
    }
    two = {"display_name": "x", "kind": "capability", "limits": {"connections": ["acme/c1", "acme/c2"]}}
    assert code(await gateway.running.json("POST", KEYS, json=two, expect=400)) == "invalid_body"


async def test_rule_that_probably_matches_nothing_is_accepted_with_a_warning(gateway: TwoConnectionGateway) -> None:
    made = await gateway.key("typo", limits={"rules": ["GETT /x", "GET /items/{id}", "GET,PROPFIND /y"]})
    method, placeholder = made["warnings"]
    assert method == "rule 'GETT /x' has the method 'GETT', which is not a registered HTTP method; did you mean 'GET'?"
    assert placeholder.endswith("For any value, write *: 'GET /items/*'")
    assert "warnings" not in await gateway.key("right", limits={"rules": ["GET /x"]})


async def test_an_unknown_integration_causes_a_warning_for_keys_that_may_list_integrations(
    gateway: TwoConnectionGateway,
) -> None:
    wrong = {"connections": ["acem/c1"], "integrations": ["acme", "acem"]}
    (warning,) = (await gateway.key("typo", limits=wrong))["warnings"]
    assert warning == (
        "environment 'dev' has no integration 'acem'; did you mean 'acme'? The key cannot use it until it exists"
    )
    assert "warnings" not in await gateway.key("right", limits={"connections": ["acme/c1", "*/c1"]})
    for scopes, warns in ((["environment:api_keys:create"], False), (["environment:*"], True)):
        above = await gateway.key(f"above {warns}", scopes=[*scopes, "environment:proxy"])
        below = {"scopes": ["environment:proxy"], "limits": {"integrations": ["acem"]}}
        assert ("warnings" in await gateway.key(f"below {warns}", key=above["secret"], **below)) is warns


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"connections": ["acme/*"]}, "only the integration can be *"),
        ({"connections": ["*/*"]}, "only the integration can be *"),
        ({"connections": ["acme/c1*"]}, "because its id contains '*'"),
        ({"integrations": ["*"]}, "leave this limit out"),
    ],
)
async def test_a_name_that_nothing_can_have_causes_a_warning(
    gateway: TwoConnectionGateway, limits: dict[str, list[str]], reason: str
) -> None:
    (warning,) = (await gateway.key("typo", limits=limits))["warnings"]
    assert reason in warning


async def test_lists_of_a_new_key_are_limited(gateway: TwoConnectionGateway) -> None:
    """Lists have a limit, because the lists of a key are checked, stored, returned, and matched with each call."""
    fields: list[tuple[str, dict[str, Any]]] = [
        ("scopes", {"scopes": ["environment:proxy"] * 51}),
        ("limits.tags", {"limits": {"tags": {f"t{n}": "v" for n in range(51)}}}),
        ("limits.rules.1", {"limits": {"rules": ["GET /" + "a*" * 20, "GET /" + "a*" * 21]}}),
        ("limits.rules.0", {"limits": {"rules": ["GET /" + "/".join(f"{{p{n}}}" for n in range(21)) + " as x"]}}),
    ]
    for path, invalid_fields in fields:
        refused = await gateway.running.json("POST", KEYS, json={"display_name": "x", **invalid_fields}, expect=400)
        assert [".".join(issue["path"]) for issue in refused["error"]["errors"]] == [path]
    whole = {"scopes": ["environment:proxy"] * 50, "limits": {"tags": {f"t{n}": "v" for n in range(50)}}}
    assert (await gateway.key("whole", **whole))["id"]


async def test_a_key_and_its_ancestors_have_a_limited_number_of_rules(gateway: TwoConnectionGateway) -> None:
    """The limit is needed because a call must match a rule of the key and a rule of each ancestor."""
    fields = {"scopes": ["environment:proxy", "environment:api_keys:*"]}
    rules = [f"GET /{n}" for n in range(199)] + ["GET /**"]
    key = (await gateway.key("0", **fields, limits={"rules": rules}))["secret"]
    for n in range(1, 5):
        key = (await gateway.key(str(n), key=key, **fields, limits={"rules": rules}))["secret"]
    more = {"display_name": "5", **fields, "limits": {"rules": ["GET /x"]}}
    status, _, body = await gateway.call_api("POST", KEYS, key, json=more)
    assert (status, body["error"]["errors"][0]["path"]) == (400, ["limits", "rules"])
    assert (await gateway.key("5", key=key, **fields))["id"], "a key without rules of its own may be minted"
    assert (await call_proxy(gateway, key))[0] == 200


async def test_a_stored_key_with_more_wildcards_than_a_new_one_may_have_keeps_its_rules(
    gateway: TwoConnectionGateway,
) -> None:
    rule = "GET /x" + "*a" * 40
    new = NewMintedKey(
        digest=digest("gw_sk_x"), environment="dev", kind="key", name="early", last_four="four", created_by="tests",
        scopes=("environment:proxy",), limits=(KeyLimits(rules=(rule,)),),
    )  # fmt: skip
    stored = await gateway.running.runtime.store.keys.add(new, now=clock.now())
    policy = Policy(stored.scopes, stored.limits)
    assert policy.decision(SentRequest("GET", "h", "/x" + "a" * 40, "", ())) == rule
    heir = await gateway.key("heir", replaces=stored.id)
    assert (await call_proxy(gateway, heir["secret"]))[0] == 403
    assert heir["limits"] == [{"rules": [rule]}]


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
async def test_impossible_expiry_date_of_a_key_is_refused(gateway: TwoConnectionGateway, moment: str) -> None:
    body = {"display_name": "x", "scopes": ["environment:proxy"], "expires_at": moment}
    response = await gateway.running.json("POST", KEYS, json=body, expect=400)
    assert [issue["path"] for issue in response["error"]["errors"]] == [["expires_at"]]


CALLS = {
    "environment:connections:list": ("GET", "/connections", None),
    "environment:connections:read": ("GET", C1, None),
    "environment:connections:create": ("POST", "/connections", {}),
    "environment:connections:delete": ("DELETE", "/connections/none?provider_config_key=acme", None),
    "environment:integrations:list": ("GET", "/integrations", None),
    "environment:integrations:read": ("GET", "/integrations/acme", None),
    "environment:connect_sessions:write": ("POST", "/connect/sessions", {"end_user": {"id": "u"}}),
    "environment:api_keys:list": ("GET", KEYS, None),
    "environment:api_keys:create": ("POST", KEYS, {}),
    "environment:api_keys:delete": ("DELETE", f"{KEYS}/99", None),
}


async def test_each_scope_allows_its_own_endpoint_and_no_other(gateway: TwoConnectionGateway) -> None:
    for granted in CALLS:
        key = (await gateway.key(granted, scopes=[granted]))["secret"]
        for needed, (method, path, body) in CALLS.items():
            status, _, response = await gateway.call_api(method, path, key, json=body)
            both = {granted, needed} == {"environment:connect_sessions:write", "environment:connections:read"}
            if needed == granted or (both and needed == "environment:connections:read"):
                assert status != 403, (granted, needed)
            else:
                assert (status, code(response)) == (403, "forbidden"), (scope, needed)
                assert response["error"]["message"] == f"Insufficient scope. Required: {needed}"
        assert (await call_proxy(gateway, key))[0] == 403
    key = (await gateway.key("proxy", scopes=["environment:proxy"]))["secret"]
    assert (await call_proxy(gateway, key))[0] == 200
    assert (await gateway.call_api("GET", "/providers?limit=1", key))[0] == 200


def test_wildcard_covers_its_scopes_and_reading_credentials_covers_reading_records() -> None:
    assert all(covers(["environment:*"], wanted) for wanted in SCOPES | WILDCARDS)
    assert covers(["environment:connections:*"], "environment:connections:read_credentials")
    assert not covers(["environment:connections:*"], "environment:connect_sessions:write")
    assert not covers(["environment:connections:*"], "environment:*")
    assert covers(["environment:connections:read_credentials"], "environment:connections:read")
    assert not covers(["environment:connections:read"], "environment:connections:read_credentials")
    assert not covers(["environment:connections:read"], "environment:connections:*")


async def test_key_without_the_scope_sees_no_credential(gateway: TwoConnectionGateway) -> None:
    reader = (await gateway.key("reader", scopes=["environment:connections:*", "environment:connections:read"]))[
        "secret"
    ]
    status, _, response = await gateway.call_api("GET", C1, reader)
    assert (status, response["credentials"]["apiKey"]) == (200, "key-of-c1")
    plain = (await gateway.key("plain", scopes=["environment:connections:read"]))["secret"]
    status, _, response = await gateway.call_api("GET", C1, plain)
    assert (status, response["credentials"]) == (200, {})
    assert "key-of-c1" not in str(response)
    for option in ("force_refresh", "refresh_token"):
        status, _, response = await gateway.call_api("GET", f"{C1}&{option}=true", plain)
        assert (status, code(response)) == (403, "forbidden")
    limited = (await gateway.key("agent", scopes=["environment:*"], limits={"rules": ["GET /x"]}))["secret"]
    status, _, response = await gateway.call_api("GET", C1, limited)
    assert (status, response["credentials"]) == (200, {}), (
        "a key with rules gets no token: with the token it could send any request"
    )


async def test_a_key_limited_to_connections_sees_no_others(gateway: TwoConnectionGateway) -> None:
    key = (await gateway.key("one", scopes=["environment:*"], limits={"connections": ["*/c1"]}))["secret"]
    status, _, response = await gateway.call_api("GET", "/connections", key)
    assert (status, [connection["connection_id"] for connection in response["connections"]]) == (200, ["c1"])
    assert (await gateway.call_api("GET", C1, key))[0] == 200
    alike = []
    for name in ("c2", "c9"):
        for method in ("GET", "DELETE"):
            status, _, response = await gateway.call_api(method, f"/connections/{name}?provider_config_key=acme", key)
            assert (status, code(response)) == (404, "unknown_connection")
            alike.append(str(response).replace(name, "?"))
    assert len(set(alike)) == 1
    imported = {
        "provider_config_key": "acme",
        "connection_id": "c2",
        "credentials": {"type": "API_KEY", "apiKey": "mine"},
    }
    assert (await gateway.call_api("POST", "/connections", key, json=imported))[0] == 404
    assert (await gateway.call_api("POST", "/connect/sessions", key, json={"end_user": {"id": "u"}}))[0] == 403
    assert (await gateway.call_api("GET", C2, gateway.running.headers["Authorization"][7:]))[2]["credentials"][
        "apiKey"
    ] == ("key-of-c2")


async def test_key_limited_to_tags_uses_only_connections_with_these_tags(gateway: TwoConnectionGateway) -> None:
    key = (await gateway.key("red", scopes=["environment:*"], limits={"tags": {"Team": "red"}}))["secret"]
    assert (await call_proxy(gateway, key, "c1"))[0] == 200
    alike = set()
    for name in ("c2", "c9"):
        status, _, text = await call_proxy(gateway, key, name)
        assert status == 404
        alike.add(text.replace(name, "?"))
    assert len(alike) == 1
    _, _, response = await gateway.call_api("GET", "/connections", key)
    assert [connection["connection_id"] for connection in response["connections"]] == ["c1"]
    session = {"end_user": {"id": "u"}}
    assert (await gateway.call_api("POST", "/connect/sessions", key, json=session))[0] == 403
    assert (await gateway.call_api("POST", "/connect/sessions", key, json={**session, "tags": {"team": "red"}}))[
        0
    ] == 201
    body = {"provider_config_key": "acme", "credentials": {"type": "API_KEY", "apiKey": "k"}}
    for name, tags, expected in (("c2", {"team": "red"}, 404), ("n1", None, 403), ("n1", {"team": "red"}, 201)):
        request_body = {**body, "connection_id": name, **({"tags": tags} if tags else {})}
        assert (await gateway.call_api("POST", "/connections", key, json=request_body))[0] == expected


async def test_key_limited_to_integrations_sees_no_others(gateway: TwoConnectionGateway) -> None:
    key = (await gateway.key("none", scopes=["environment:*"], limits={"integrations": ["elsewhere"]}))["secret"]
    assert (await gateway.call_api("GET", "/integrations", key))[2] == {"data": []}
    assert (await gateway.call_api("GET", "/integrations/acme", key))[0] == 404
    assert (await gateway.call_api("GET", "/connections", key))[2] == {"connections": []}
    status, headers, _ = await call_proxy(gateway, key)
    assert (status, headers["Gateway-Error"]) == (404, "unknown_provider_config")


@pytest.mark.parametrize("limits", [{"connections": ["made/c1"]}, {"tags": {"team": "red"}}])
async def test_key_limited_to_connections_cannot_change_their_integration(
    gateway: TwoConnectionGateway, limits: dict[str, Any]
) -> None:
    everything = gateway.running.headers["Authorization"][7:]
    integration = {"unique_key": "made", "provider": "acme"}
    assert (await gateway.call_api("POST", "/integrations", everything, json=integration))[0] == 200
    for name in ("c1", "c2"):
        body = {"provider_config_key": "made", "connection_id": name, "credentials": {"type": "API_KEY", "apiKey": "k"}}
        assert (await gateway.call_api("POST", "/connections", everything, json=body))[0] == 201
    key = (await gateway.key("one", scopes=["environment:*"], limits=limits))["secret"]
    for method, path, body in (
        ("DELETE", "/integrations/made", None),
        ("PATCH", "/integrations/made", {"display_name": "Mine"}),
        ("POST", "/integrations", {"unique_key": "more", "provider": "acme"}),
    ):
        status, _, response = await gateway.call_api(method, path, key, json=body)
        assert (status, code(response), response["error"]["payload"]["rule"]) == (403, "forbidden", "limits")
    for reader, shown in ((everything, True), (key, False)):
        status, _, response = await gateway.call_api("GET", "/integrations/made?include=credentials", reader)
        assert (status, "credentials" in response["data"]) == (200, shown)
    for name in ("c1", "c2"):
        assert (await gateway.call_api("GET", f"/connections/{name}?provider_config_key=made", everything))[0] == 200


async def test_a_key_limited_to_one_integration_changes_and_deletes_but_does_not_rename_it(
    gateway: TwoConnectionGateway,
) -> None:
    everything = gateway.running.headers["Authorization"][7:]
    integration = {"unique_key": "made", "provider": "acme"}
    assert (await gateway.call_api("POST", "/integrations", everything, json=integration))[0] == 200
    key = (await gateway.key("one", scopes=["environment:*"], limits={"integrations": ["made"]}))["secret"]
    assert (await gateway.call_api("PATCH", "/integrations/made", key, json={"display_name": "Ours"}))[0] == 200
    assert (await gateway.call_api("PATCH", "/integrations/made", key, json={"unique_key": "other"}))[0] == 404
    assert (await gateway.call_api("DELETE", "/integrations/made", key))[0] == 200


@pytest.mark.parametrize("limits", [{"connections": ["made/mine"]}, {"tags": {"team": "red"}}])
async def test_key_limited_to_connections_cannot_change_another_integration(
    gateway: TwoConnectionGateway, limits: dict[str, Any]
) -> None:
    integration = {"provider": "acme", "unique_key": "made"}
    await gateway.running.json("POST", "/integrations", json=integration, expect=200)
    theirs = {"provider_config_key": "made", "connection_id": "theirs", "credentials": {"apiKey": "k"}}
    await gateway.running.json("POST", "/connections", json=theirs, expect=201)
    key = (await gateway.key(scopes=["environment:*"], limits=limits))["secret"]
    calls: list[tuple[str, str, Any]] = [
        ("DELETE", "/integrations/made", None),
        ("PATCH", "/integrations/made", {"display_name": "Other"}),
        ("POST", "/integrations", {**integration, "unique_key": "made" if "connections" in limits else "more"}),
    ]
    for method, path, body in calls:
        status, _, response = await gateway.call_api(method, path, key, json=body)
        assert (status, response["error"]["payload"]["rule"]) == (403, "limits"), (method, response)
    assert (await gateway.call_api("GET", "/integrations/made", key))[0] == 200
    await gateway.running.json("GET", "/connections/theirs?provider_config_key=made", expect=200)


async def test_limited_key_gets_no_closest_match_of_hidden_names(gateway: TwoConnectionGateway) -> None:
    key = (await gateway.key(scopes=["environment:*"], limits={"integrations": ["acmes"]}))["secret"]
    for ask in ("/proxy/x", "/connections/c1?provider_config_key=acmes"):
        headers = {"Provider-Config-Key": "acmes", "Connection-Id": "c1"}
        status, _, response = await gateway.call_api("GET", ask, key, headers=headers)
        assert (status, code(response)) == (404, "unknown_provider_config")
        assert "'acme'" not in response["error"]["message"]


async def test_a_key_renames_an_integration_only_to_a_name_within_its_limits(gateway: TwoConnectionGateway) -> None:
    await gateway.running.json("POST", "/integrations", json={"provider": "acme", "unique_key": "mine"}, expect=200)
    limits = {"integrations": ["mine", "mine-too"]}
    key = (await gateway.key(scopes=["environment:integrations:*"], limits=limits))["secret"]
    status, _, _ = await gateway.call_api("PATCH", "/integrations/mine", key, json={"unique_key": "billing"})
    assert status == 404
    assert (await gateway.call_api("PATCH", "/integrations/mine", key, json={"unique_key": "mine-too"}))[0] == 200
    assert (await gateway.call_api("DELETE", "/integrations/mine-too", key))[0] == 200


async def test_key_cannot_grant_more_rights_than_its_own(gateway: TwoConnectionGateway) -> None:
    parent = await gateway.key(
        "parent", scopes=["environment:proxy", "environment:api_keys:*"], limits={"connections": ["acme/c1"]}
    )
    more = {"display_name": "child", "scopes": ["environment:*"]}
    status, _, body = await gateway.call_api("POST", KEYS, parent["secret"], json=more)
    assert (status, body["error"]["payload"]["missing"]) == (403, ["environment:*"])
    status, _, body = await gateway.call_api("POST", KEYS, parent["secret"], json={"display_name": "all"})
    assert status == 403, "a key without scopes would have all rights"
    wider = {"scopes": ["environment:proxy"], "limits": {"connections": ["acme/c2"]}}
    child = await gateway.key("wide", key=parent["secret"], **wider)
    assert (await call_proxy(gateway, child["secret"], "c1"))[0] == 404
    assert (await call_proxy(gateway, child["secret"], "c2"))[0] == 404
    child = await gateway.key(
        "narrow", key=parent["secret"], scopes=["environment:proxy"], limits={"rules": ["GET /x"]}
    )
    assert (await call_proxy(gateway, child["secret"], "c1"))[0] == 200
    assert (await call_proxy(gateway, child["secret"], "c2"))[0] == 404
    _, _, body = await gateway.call_api("GET", KEYS, parent["secret"])
    assert {item["display_name"] for item in body["data"]} == {"wide", "narrow"}, (
        "a limited key sees the keys that it minted"
    )
    counted = await gateway.key("counted", limits={"budget": 5})
    assert (await gateway.call_api("POST", KEYS, counted["secret"], json={"display_name": "x"}))[0] == 403


async def test_replacement_key_expires_no_later_than_the_key_that_created_it(gateway: TwoConnectionGateway) -> None:
    lasting = await gateway.key("lasting", scopes=["environment:proxy"])
    short = await gateway.key("short", scopes=["environment:proxy", "environment:api_keys:*"], expires_in_s=60)
    for item in (lasting, short):  # first it replaces another key, then itself
        fields = {"scopes": ["environment:proxy"], "replaces": item["id"], "overlap_s": 60}
        heir = await gateway.key("heir", key=short["secret"], **fields)
        assert heir["expires_at"] <= short["expires_at"]
    result = await gateway.key("lasting", replaces=lasting["id"])
    assert "expires_at" not in result, "a key of gateway.yaml does not expire, so it limits nothing"


async def test_replacement_key_ends_with_the_key_that_created_it(gateway: TwoConnectionGateway) -> None:
    other = await gateway.key("other", scopes=["environment:proxy"])
    thief = await gateway.key("thief", scopes=["environment:proxy", "environment:api_keys:*"])
    heir = await gateway.key("heir", key=thief["secret"], scopes=["environment:proxy"], replaces=other["id"])
    assert (await call_proxy(gateway, heir["secret"]))[0] == 200
    body = await gateway.running.json("DELETE", f"{KEYS}/{thief['id']}", expect=200)
    assert body["revoked"] == 2
    assert [(await call_proxy(gateway, item["secret"]))[0] for item in (heir, thief, other)] == [401, 401, 200]


async def test_key_cannot_replace_its_ancestor(gateway: TwoConnectionGateway) -> None:
    top = await gateway.key("top")
    child = await gateway.key("child", key=top["secret"])
    grandchild = await gateway.key("grandchild", key=child["secret"])
    for above in (top, child):
        request_body = {"display_name": "heir", "replaces": above["id"]}
        status, _, body = await gateway.call_api("POST", KEYS, grandchild["secret"], json=request_body)
        assert (status, body["error"]["payload"]["rule"]) == (403, "key")
        fix = f"Use a key of gateway.yaml, or gateway keys create --replaces {above['id']}."
        assert body["error"]["payload"]["fix"] == fix
    assert (await gateway.key("itself", key=grandchild["secret"], replaces=grandchild["id"]))["id"]


async def test_key_replaces_only_keys_that_it_minted_or_may_revoke(
    gateway: TwoConnectionGateway,
) -> None:
    create = ["environment:proxy", "environment:api_keys:create"]
    victim, minter = await gateway.key("victim"), await gateway.key("minter", scopes=create)
    fields = {"display_name": "heir", "scopes": create, "replaces": victim["id"], "overlap_s": 0}
    status, _, body = await gateway.call_api("POST", KEYS, minter["secret"], json=fields)
    assert (status, body["error"]["code"]) == (403, "forbidden")
    assert body["error"]["payload"]["required"] == ["environment:api_keys:delete"]
    assert (await call_proxy(gateway, victim["secret"]))[0] == 200
    child = await gateway.key("child", key=minter["secret"], scopes=create)
    grandchild = await gateway.key("grandchild", key=child["secret"], scopes=create)
    for old in (grandchild, child, minter):  # keys that it minted, and finally itself
        heir = await gateway.key("heir", key=minter["secret"], scopes=create, replaces=old["id"], overlap_s=60)
        assert (await call_proxy(gateway, heir["secret"]))[0] == 200
    revoker = await gateway.key("revoker", scopes=["environment:proxy", "environment:api_keys:*"])
    fields = {"scopes": ["environment:proxy"], "replaces": victim["id"], "overlap_s": 0}
    assert (await gateway.key("heir", key=revoker["secret"], **fields))["id"]
    assert (await call_proxy(gateway, victim["secret"]))[0] == 401


async def test_limited_key_cannot_replace_itself(gateway: TwoConnectionGateway) -> None:
    """A key that could replace itself would escape its revocation, because its replacement would stay valid."""
    limited = await gateway.key(
        "limited", scopes=["environment:proxy", "environment:api_keys:*"], limits={"connections": ["acme/c1"]}
    )
    request_body = {"display_name": "heir", "replaces": limited["id"]}
    status, _, body = await gateway.call_api("POST", KEYS, limited["secret"], json=request_body)
    assert (status, body["error"]["code"]) == (404, "not_found")


async def test_revoking_a_key_revokes_the_keys_that_it_minted(gateway: TwoConnectionGateway) -> None:
    parent = await gateway.key("parent")
    child = await gateway.key("child", key=parent["secret"])
    grandchild = await gateway.key("grandchild", key=child["secret"])
    for item in (parent, child, grandchild):
        assert (await call_proxy(gateway, item["secret"]))[0] == 200
    body = await gateway.running.json("DELETE", f"{KEYS}/{parent['id']}", expect=200)
    assert body == {"success": True, "revoked": 3}
    for entry in (parent, child, grandchild):
        status, headers, _ = await call_proxy(gateway, entry["secret"])
        assert (status, headers["Gateway-Error"]) == (401, "unknown_account")


@pytest.mark.parametrize("kind", ["key", "capability"])
def test_a_mistyped_key_gets_its_own_error(kind: KeyKind) -> None:
    good = mint(kind).reveal()
    assert wrong_kind_error(good, kind) is None
    for bad in (good[:-1], good + "x", good[:-1] + ("0" if good[-1] != "0" else "1"), f"{PREFIXES[kind]}ä", f"{good} "):
        error = wrong_kind_error(bad, kind)
        assert error is not None
        assert "is mistyped or incomplete: its checksum is wrong. Copy the whole" in error.message
        assert good[20:40] not in error.message


async def test_key_works_only_in_its_environment(gateway: TwoConnectionGateway) -> None:
    mine = await gateway.key("mine")
    status, _, _ = await gateway.call_api("DELETE", f"{KEYS}/{mine['id']}", OTHER_KEY)
    assert status == 404
    assert (await gateway.call_api("GET", KEYS, OTHER_KEY))[2] == {"data": []}
    assert (await call_proxy(gateway, mine["secret"]))[0] == 200


async def test_key_expires_on_time(gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    result = await gateway.key("short", expires_in_s=60)
    assert (await call_proxy(gateway, result["secret"]))[0] == 200
    later = clock.now() + timedelta(seconds=61)
    monkeypatch.setattr("gateway.clock.now", lambda: later)
    assert (await call_proxy(gateway, result["secret"]))[0] == 401
    assert (await gateway.call_api("GET", KEYS, result["secret"]))[0] == 401


async def test_replaced_key_and_its_replacement_are_both_valid_during_the_overlap(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await gateway.key("app", limits={"connections": ["acme/c1"], "rate": 100})
    child_less = await gateway.key("app", replaces=old["id"], overlap_s=60)
    assert (child_less["scopes"], child_less["limits"], child_less["rate"]) == (old["scopes"], old["limits"], 100)
    for item in (old, child_less):
        assert (await call_proxy(gateway, item["secret"]))[0] == 200
        assert (await call_proxy(gateway, item["secret"], "c2"))[0] == 404
    later = clock.now() + timedelta(seconds=61)
    monkeypatch.setattr("gateway.clock.now", lambda: later)
    assert (await call_proxy(gateway, old["secret"]))[0] == 401
    assert (await call_proxy(gateway, child_less["secret"]))[0] == 200


async def test_rate_limit_is_reported_and_enforced(gateway: TwoConnectionGateway) -> None:
    key = (await gateway.key("slow", limits={"rate": 2}))["secret"]
    for remaining in ("1", "0"):
        status, headers, _ = await call_proxy(gateway, key)
        assert (status, headers["X-RateLimit-Limit"], headers["X-RateLimit-Remaining"]) == (200, "2", remaining)
    status, headers, text = await call_proxy(gateway, key)
    assert (status, headers["Gateway-Error"]) == (429, "too_many_request")
    assert 0 < int(headers["Retry-After"]) <= 60
    assert headers["X-RateLimit-Remaining"] == "0"
    assert '"rule": "rate"' in text
    assert (await gateway.call_api("GET", "/connections", key))[0] == 429
    unhappy = (await gateway.key("unhappy", limits={"rate": 9}))["secret"]
    status, headers, _ = await call_proxy(gateway, unhappy, "nobody")
    assert (status, headers["X-RateLimit-Remaining"]) == (404, "8")
    other = (await gateway.key("free"))["secret"]
    assert "X-RateLimit-Limit" not in (await call_proxy(gateway, other))[1]


async def test_rate_limit_is_counted_per_minute(gateway: TwoConnectionGateway, clock: Any) -> None:
    key = (await gateway.key("slow", limits={"rate": 1}))["secret"]
    assert (await call_proxy(gateway, key))[0] == 200
    assert (await call_proxy(gateway, key))[0] == 429
    clock.ahead_s = 61.0
    assert (await call_proxy(gateway, key))[0] == 200


async def test_a_budget_is_never_exceeded(gateway: TwoConnectionGateway) -> None:
    response = await gateway.key("task", limits={"budget": 30})
    outcomes = [(await call_proxy(gateway, response["secret"]))[0] for _ in range(10)]
    together = await asyncio.gather(*(call_proxy(gateway, response["secret"]) for _ in range(40)))
    outcomes += [status for status, _, _ in together]
    assert (outcomes.count(200), outcomes.count(403)) == (30, 20)
    listed = await gateway.running.json("GET", KEYS, expect=200)
    assert (listed["data"][0]["calls"], listed["data"][0]["budget"]) == (30, 30)


async def test_reserved_calls_of_a_key_return_to_its_budget_after_its_meter_was_dropped(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_keys, "MAX_CACHED", 1)
    store = gateway.running.runtime.store
    cache = MintedKeyCache(store)
    made = [await gateway.key(name, limits={"budget": 100}) for name in ("first", "second")]
    for key in made:
        caller = await cache.caller(digest(key["secret"]))
        assert caller is not None
        assert caller.access is not None
        assert caller.access.meter is not None
        await caller.access.meter.count_against_budget()
    reserved = await store.keys.get(digest(made[0]["secret"]))
    assert reserved is not None
    assert reserved.calls == 5, "a twentieth of the budget is reserved"
    await cache.close()
    stored = [await store.keys.get(digest(key["secret"])) for key in made]
    assert [key.calls for key in stored if key is not None] == [1, 1]


async def test_retry_counts_against_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    async with two_connection_gateway(tmp_path, responded=b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n") as gateway:
        key = (await gateway.key(limits={"budget": 3}))["secret"]
        monkeypatch.setattr("gateway.clock.sleep", at_once)
        status, headers, _ = await call_proxy(gateway, key, Retries="5")
        assert (status, headers["Gateway-Attempts"], len(gateway.provider.heads)) == (503, "3", 3)
        assert "Gateway-Error" not in headers, "the provider's own response"
        assert (await call_proxy(gateway, key))[0] == 403


async def test_dry_run_does_not_count_against_the_budget(gateway: TwoConnectionGateway) -> None:
    key = (await gateway.key("task", limits={"budget": 1}))["secret"]
    assert (await call_proxy(gateway, key, **{"Gateway-Dry-Run": "true"}))[0] == 200
    assert (await call_proxy(gateway, key))[0] == 200
    assert (await call_proxy(gateway, key))[0] == 403


async def test_last_use_of_a_key_is_stored_in_the_background(gateway: TwoConnectionGateway) -> None:
    result = await gateway.key("used")
    assert "last_used_at" not in result
    await call_proxy(gateway, result["secret"])
    await gateway.running.runtime.minted.close()
    listed = await gateway.running.json("GET", KEYS, expect=200)
    assert listed["data"][0]["last_used_at"] >= result["created_at"]


async def test_list_of_keys_continues_at_its_cursor(gateway: TwoConnectionGateway) -> None:
    for n in range(3):
        await gateway.key(f"k{n}")
    first = await gateway.running.json("GET", f"{KEYS}?limit=2", expect=200)
    rest = await gateway.running.json("GET", f"{KEYS}?limit=2&cursor={first['next_cursor']}", expect=200)
    assert [item["display_name"] for item in (*first["data"], *rest["data"])] == ["k2", "k1", "k0"]
    assert "next_cursor" not in rest


async def test_key_survives_a_reload_and_ends_with_its_environment(gateway: TwoConnectionGateway) -> None:
    import copy

    import gateway as package

    key = (await gateway.key("k"))["secret"]
    elsewhere = (await gateway.key("k", key=OTHER_KEY))["secret"]
    for item in (key, elsewhere):
        assert (await call_proxy(gateway, item))[0] == 200
    document = copy.deepcopy(gateway.running.document)
    del document["environments"]["other"]
    from gateway import config

    changed = config.parse(document, base=gateway.running.folder, environ={})
    assert await package.reload(gateway.running.app, changed)
    assert (await call_proxy(gateway, key))[0] == 200
    assert (await call_proxy(gateway, elsewhere))[0] == 401


async def test_unknown_key_is_looked_up_once(gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = count_reads(gateway, monkeypatch)
    stranger = mint().reveal()
    for text in (stranger, stranger, "gw_sk_" + "x" * 49, "no-key-of-ours-at-all"):
        assert (await call_proxy(gateway, text))[0] == 401
    assert reads == [digest(stranger)]


async def test_a_rotation_removes_only_the_replaced_key_from_memory(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, other = await reported_keys(gateway, monkeypatch, {"name": "app"}, {"name": "other app"})
    for item in (old, other):
        assert (await call_proxy(gateway, item["secret"]))[0] == 200
    reads = count_reads(gateway, monkeypatch)
    new = await gateway.key("app", replaces=old["id"], overlap_s=0)
    assert [(await call_proxy(gateway, entry["secret"]))[0] for entry in (old, other, new)] == [401, 200, 200]
    assert digest(other["secret"]) not in reads


async def test_a_key_that_is_read_while_another_one_changes_stays_in_memory(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, other = await reported_keys(gateway, monkeypatch, {"name": "app"}, {"name": "other app"})
    minted = gateway.running.runtime.minted
    minted.handle_missed_changes()
    reads = count_reads(gateway, monkeypatch, lambda: minted.forget(digest(other["secret"])))
    for _ in range(2):
        assert (await call_proxy(gateway, key["secret"]))[0] == 200
    assert reads == [digest(key["secret"])]


async def test_a_key_that_changes_while_it_is_read_is_read_again(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = await reported_keys(gateway, monkeypatch, {"name": "app"})
    minted = gateway.running.runtime.minted
    minted.handle_missed_changes()

    def change_once() -> None:
        if len(reads) == 1:
            minted.forget(digest(key["secret"]))

    reads = count_reads(gateway, monkeypatch, change_once)
    for _ in range(3):
        assert (await call_proxy(gateway, key["secret"]))[0] == 200
    assert reads == [digest(key["secret"])] * 2


async def test_keys_with_many_rules_are_evicted_before_the_memory_is_full(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [f"GET /x{'y' * 400}{number}" for number in range(99)] + ["GET /x"]
    wishes = [{"name": name, "limits": {"rules": rules}} for name in ("one", "two")]
    first, second = await reported_keys(gateway, monkeypatch, *wishes)
    reads = count_reads(gateway, monkeypatch)
    monkeypatch.setattr(known_keys, "MAX_CACHED_BYTES", 1_500_000)  # a key of this test counts 1.1 MB
    for item in (first, first, second, second, first):
        assert (await call_proxy(gateway, item["secret"]))[0] == 200
    # Each key is read a second time after its rules were compiled.
    assert reads == [digest(entry["secret"]) for entry in (first, first, second, second, first, first)]


def test_size_of_cached_keys_counts_shared_operations_once() -> None:
    size, limits = CachedSize(), KeyLimits(rules=("operations jira read",), operations={"operations jira read": "1:QQ"})
    size.add([limits])
    first = size.total
    size.add([limits])
    assert first < size.total < 2 * first
    for _ in range(2):
        size.subtract([limits])
    assert size.total == 0


async def test_after_a_rotation_every_process_knows_the_new_parent_of_a_key(
    gateway: TwoConnectionGateway,
) -> None:
    top = await gateway.key("top")
    child = await gateway.key("child", key=top["secret"])
    grandchild = await gateway.key("grandchild", key=child["secret"])
    other = RunningGateway(gateway.running.folder, {**gateway.running.document, "server": {"host": "127.0.0.1"}})
    await other.start()  # its change feed does not report the keys
    try:

        async def ancestors() -> tuple[int, ...]:
            caller = await other.runtime.minted.caller(digest(grandchild["secret"]))
            assert caller is not None
            assert caller.access is not None
            return caller.access.parents

        assert await ancestors() == (child["id"], top["id"])
        new = await gateway.key("top", replaces=top["id"])
        async with asyncio.timeout(PATIENCE_S):
            while await ancestors() != (child["id"], new["id"]):
                await other.runtime.store.changes.wait_for_change(1.0)
    finally:
        await other.stop()


async def test_a_key_cannot_replace_its_ancestor_right_after_the_ancestor_was_rotated(
    gateway: TwoConnectionGateway,
) -> None:
    top = await gateway.key("top")
    child = await gateway.key("child", key=top["secret"])
    runtime = gateway.running.runtime
    before = await runtime.minted.caller(digest(child["secret"]))
    new = await gateway.key("top", replaces=top["id"])
    with pytest.raises(Forbidden, match="is an ancestor of this key"):
        await runtime.issuer.create(RequestedKey(name="heir", replaces=new["id"]), "dev", "a test", before)


async def reported_keys(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch, *wishes: dict[str, Any]
) -> list[dict[str, Any]]:
    """Mint keys, and wait until the change feed has reported them, so that it does not remove them from memory later."""
    minted, reported, news = gateway.running.runtime.minted, set[str](), asyncio.Event()
    handle_change = minted.handle_change

    def record(ref: ConnectionRef) -> None:
        handle_change(ref)
        reported.add(ref.connection_id)
        news.set()

    monkeypatch.setattr(minted, "handle_change", record)
    made = [await gateway.key(**fields) for fields in wishes]
    async with asyncio.timeout(PATIENCE_S):
        while not reported.issuperset(digest(item["secret"]) for item in made):
            news.clear()
            await news.wait()
    return made


def count_reads(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch, after: Callable[[], None] = lambda: None
) -> list[str]:
    """Return a list that gets the digest of each key that is read from the store. `after`: called after each read."""
    store, reads = gateway.running.runtime.store, list[str]()
    get = store.keys.get

    async def get_and_record(key_digest: str) -> Any:
        reads.append(key_digest)
        found = await get(key_digest)
        after()
        return found

    monkeypatch.setattr(store.keys, "get", get_and_record)
    return reads


def test_every_endpoint_that_needs_a_key_states_its_scope() -> None:
    behind = [(m, p, h) for m, p, h in ROUTES if scope in getattr(h, CHAIN_ATTRIBUTE, ())]
    assert len(behind) > 10
    assert [(method, path) for method, path, handler in behind if not hasattr(handler, NEEDS_ATTRIBUTE)] == []
