"""``GET /logs``: finding operations, who may see them, and the operations below them."""

import asyncio
from typing import Any

import pytest

from gateway.observe import call_queue
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HEADERS = {"Provider-Config-Key": "tracker", "Connection-Id": "c1"}


@pytest.fixture(autouse=True)
def without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queue, "WRITE_EVERY_S", 0.02)


def import_expired(tracker: Tracker) -> dict[str, Any]:
    grant = {name: text for name, text in tracker.grant().items() if name != "expires_in"}
    return {**grant, "expires_at": "2020-01-01T00:00:00Z"}


async def wait_for_operations(
    running: RunningGateway, query: str = "", *, least: int = 1, key: str = ""
) -> list[dict[str, Any]]:
    """Return the operations, as soon as there are `least`. `key`: the key to send instead of the environment's key."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await read_logs(running, query, key)
            if len(found) >= least:
                return found


async def read_logs(running: RunningGateway, query: str, key: str, *, expect: int = 200) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else running.headers
    async with running.http.get(f"{running.url}/logs{query}", headers=headers) as response:
        body = await response.json()
        assert response.status == expect, body
        return body["data"] if expect == 200 else body["error"]


async def mint_key(running: RunningGateway, limits: dict[str, Any], *scopes: str) -> dict[str, Any]:
    body = {"display_name": f"agent {limits}", "scopes": scopes, "limits": limits}
    minted: dict[str, Any] = (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"]
    return minted


async def call(running: RunningGateway, path: str = "/proxy/me", **headers: str) -> int:
    async with running.http.get(running.url + path, headers={**running.headers, **HEADERS, **headers}) as response:
        await response.read()
        return response.status


async def test_a_call_is_found_with_its_trace_and_without_its_query(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    names = {"X-Request-Id": "one", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    assert await call(running, "/proxy/me?secret=1", **names) == 200
    assert await call(running, "/proxy/me?secret=1", **{**names, "X-Request-Id": "two"}) == 200
    two, one = await wait_for_operations(running, f"?kind=call&traceId={TRACE}", least=2)
    for entry, request_id in ((one, "one"), (two, "two")):  # the first took the chain, the second the fast path
        assert (entry["request_id"], entry["trace_id"], entry["path"], entry["status"]) == (
            request_id,
            TRACE,
            "/me",
            200,
        )
        assert (entry["provider_config_key"], entry["connection_id"], entry["attempts"]) == ("tracker", "c1", 1)
        assert entry["upstream_ms"] > 0
        assert (entry["key_id"], entry["rule"], entry["error"]) == (None, None, None)


async def test_log_names_the_rule_that_allowed_or_refused_a_call(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    limits = {"connections": ["tracker/c1"], "rules": ["GET /me", "GET /items/*"]}
    minted = await mint_key(running, limits, "environment:proxy")
    key = {"Authorization": f"Bearer {minted['secret']}"}
    for path, status in (("/proxy/me", 200), ("/proxy/me", 200), ("/proxy/else", 403)):
        assert await call(running, path, **key) == status
    refused, *allowed = await wait_for_operations(running, f"?keyId={minted['id']}", least=3)
    assert [item["rule"] for item in allowed] == ["GET /me", "GET /me"]
    assert (refused["rule"], refused["error"], refused["status"], refused["attempts"]) == ("rules", "forbidden", 403, 0)


async def test_a_dry_run_is_logged_as_a_call_that_was_not_sent(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await call(running, **{"X-Request-Id": "sent"}) == 200
    assert await call(running, **{"X-Request-Id": "dry", "Gateway-Dry-Run": "true"}) == 200
    entries = {entry["request_id"]: entry for entry in await wait_for_operations(running, "?kind=call", least=2)}
    assert (entries["sent"]["detail"], entries["sent"]["attempts"]) == (None, 1)
    assert (entries["dry"]["detail"], entries["dry"]["attempts"]) == ({"dry_run": True}, 0)


async def test_a_refresh_is_found_under_the_call_that_waited_for_it(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(import_expired(tracker))
    assert await call(running, **{"X-Request-Id": "waited"}) == 200
    entries = await wait_for_operations(running, "?requestId=waited", least=2)
    assert {entry["kind"] for entry in entries} == {"call", "refresh"}
    refresh = next(entry for entry in entries if entry["kind"] == "refresh")
    assert (refresh["connection_id"], refresh["error"], refresh["detail"]) == ("c1", None, {"version": 2})
    (whole,) = (await running.json("GET", "/logs?kind=call&include=operations"))["data"]
    assert [operation["kind"] for operation in whole["operations"]] == ["refresh"]


async def test_limited_key_sees_only_operations_of_its_connections(running: RunningGateway, tracker: Tracker) -> None:
    for name, team in (("c1", "red"), ("c2", "blue")):
        await running.import_connection(tracker.grant(), name, tags={"team": team})
        assert await call(running, **{"Connection-Id": name}) == 200
    await wait_for_operations(running, "?kind=call", least=2)
    for limits, seen in (
        ({"connections": ["tracker/c2"]}, {"c2"}),
        ({"tags": {"team": "red"}}, {"c1"}),
        ({"integrations": ["tracker"]}, {"c1", "c2"}),
    ):
        key = (await mint_key(running, limits, "environment:logs:read"))["secret"]
        assert {item["connection_id"] for item in await wait_for_operations(running, key=key)} == seen
        assert await read_logs(running, "?connectionId=c3", key) == []
        for operation in await wait_for_operations(running, "?kind=call", least=2):
            asked = (
                f"?connectionId={operation['connection_id']}",
                f"?integrationId=tracker&connectionId={operation['connection_id']}",
                f"?requestId={operation['request_id']}&include=operations",
                f"?after={operation['id'] - 1}&cursor={operation['id'] + 1}",
                f"?text={operation['connection_id']}&include=operations",
            )
            for query in asked:
                found = str(await read_logs(running, query, key))
                assert operation["connection_id"] in seen or operation["request_id"] not in found, (limits, query)
    without = await mint_key(running, {}, "environment:proxy")
    refusal = await read_logs(running, "", without["secret"], expect=403)
    assert refusal["payload"]["required"] == ["environment:logs:read"]


async def test_log_is_filtered_by_end_user_and_by_tag(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant(), "c1", end_user={"id": "ann"}, tags={"team": "red"})
    await running.import_connection(tracker.grant(), "c2", end_user={"id": "bob"}, tags={"team": "blue"})
    for name in ("c1", "c2"):
        assert await call(running, **{"Connection-Id": name}) == 200
    await wait_for_operations(running, "?kind=call", least=2)
    for query, name in (("endUserId=ann", "c1"), ("tags[team]=blue", "c2")):
        assert {operation["connection_id"] for operation in await wait_for_operations(running, f"?{query}")} == {name}
    assert (await running.json("GET", "/logs?endUserId=nobody"))["data"] == []


async def test_log_is_paged_and_followed_by_after(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    for number in range(7):
        assert await call(running, f"/proxy/items/{number}") == 200
    every = [operation["id"] for operation in await wait_for_operations(running, "?kind=call", least=7)]
    assert every == sorted(every, reverse=True)
    paged: list[int] = []
    cursor = ""
    while True:
        body = await running.json("GET", f"/logs?kind=call&limit=3{cursor}")
        paged += [item["id"] for item in body["data"]]
        if "next_cursor" not in body:
            break
        cursor = f"&cursor={body['next_cursor']}"
    assert paged == every
    assert [
        operation["id"] for operation in await wait_for_operations(running, f"?kind=call&after={every[2]}", least=2)
    ] == every[:2]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("status=abc", "status"),
        (
            "from=yesterday",
            "'from' must be a time in ISO 8601, or a duration before now such as 30m, 2h or 3d, not 'yesterday'.",
        ),
        ("kind=calls", "kind"),
        ("failed=maybe", "failed"),
        ("cursor=x", "cursor"),
        ("limit=0", "limit"),
        ("include=all", "include"),
        ("text=x", "text"),
        ("surprise=1", "surprise"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_error_names_wrong_filters(shared_gateway: RunningGateway, query: str, names: str) -> None:
    response = await shared_gateway.json("GET", f"/logs?{query}", expect=400)
    assert names in response["error"]["message"]


async def test_log_is_empty_when_off_and_partial_when_sampled(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    calls = running.runtime.call_queue
    calls.sample = 0.0
    assert await call(running) == 200
    tracker.forbidden.add("/nowhere")
    assert await call(running, "/proxy/nowhere") == 403
    (only,) = await wait_for_operations(running, "?kind=call")
    assert only["status"] == 403
    calls.stores_calls = False
    assert await call(running, "/proxy/nowhere") == 403
    assert len(await wait_for_operations(running, "?kind=call")) == 1


async def test_no_secret_of_a_call_is_in_the_call_log(running: RunningGateway, tracker: Tracker) -> None:
    grant = import_expired(tracker)
    await running.import_connection(grant)
    await call(running, "/proxy/me?token=SECRET-QUERY", **{"X-Secret": "SECRET-HEADER"})
    await call(running, "/proxy/me?token=SECRET-QUERY", **{"X-Secret": "SECRET-HEADER"})
    await wait_for_operations(running, "?kind=call", least=2)
    await running.stop()
    content = b"".join(path.read_bytes() for path in running.folder.glob("*.calls.db*"))
    assert b"/me" in content
    tokens = {
        grant["access_token"],
        grant["refresh_token"],
        tracker.grants[0].refresh_token,
        *tracker.grants[0].access_tokens,
    }
    assert len(tokens) == 4
    for marker in ("SECRET-QUERY", "SECRET-HEADER", *tokens):
        assert marker.encode() not in content
    await running.start()
