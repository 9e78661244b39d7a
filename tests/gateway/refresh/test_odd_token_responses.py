"""Token responses with unexpected values. If a response contains a new token pair, the pair is always stored."""

import json
from typing import Any

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import ReconnectNeeded
from gateway.oauth.token_responses import read_response, retry_after
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.states import State
from tests.fakes.gateways import RunningGateway
from tests.fakes.providers import provider
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_credential_forms import walk_flow

REF = ConnectionRef("dev", "tracker", "c1")
DEEP = "[" * 50_000 + "]" * 50_000

# Each value is JSON text.
ODD = [
    '"0001-01-01T00:00:00+14:00"',
    '"9999-12-31T23:59:59-14:00"',
    '"0001-01-01T00:00:00Z"',
    '"9999-12-31T23:59:59.999999Z"',
    '"24:00"',
    '"\\u00b2"',
    '"\\ud800"',
    '"\\u0000"',
    '"nan"',
    '"1e400"',
    '"-1"',
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1e400",
    "1e-400",
    "1" * 5000,
    "-" + "9" * 5000,
    "0",
    "-1",
    "true",
    "null",
    "[]",
    "{}",
    "[" * 900 + "]" * 900,
    DEEP,
    '{"a":' * 2000 + "1" + "}" * 2000,
    '{"a":{"a":{"b":"\\ud800\\u0000"}}}',
    '"' + "x" * 100_000 + '"',
]
FIELDS = [
    "expires_in",
    "expires_at",
    "refresh_token_expires_in",
    "token_type",
    "scope",
    "id_token",
    "error",
    "error_description",
    "user",
    "accountId",
]
# No field of a group prevents another field of the group from being read. `expires_in` would hide `expires_at`, so they
# are in different groups.
GROUPS = [FIELDS[::2], FIELDS[1::2]]
LONG = 10_000  # number of characters; a response has room for one such value only

numbers = st.one_of(
    st.integers(), st.integers(min_value=10**300, max_value=10**310), st.floats(allow_nan=True, allow_infinity=True)
)
texts = st.one_of(st.text(), st.datetimes().map(str), st.datetimes().map(lambda at: f"{at.isoformat()}+14:00"))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=10,
)
responses = st.dictionaries(st.one_of(st.sampled_from(FIELDS), st.text(max_size=8)), values, max_size=8)


async def refreshed(running: RunningGateway, tracker: Tracker, number: int, beside: str) -> Connection:
    """Refresh with a response that has a new token pair and the members `beside` (JSON text). Return the row."""
    row = await running.runtime.store.connections.get(REF)
    if row is None:
        await running.import_connection(tracker.grant())
        row = await running.runtime.store.connections.get(REF)
        assert row is not None
    tokens = f'"access_token":"new-{number}","refresh_token":"fresh-{number}"'
    body = f"{{{beside}{',' if beside else ''}{tokens}}}".encode("utf-8", "surrogatepass")
    tracker.response = web.Response(body=body, content_type="application/json")
    await running.runtime.refresher.refresh(row, force=True)
    now = await running.runtime.store.connections.get(REF)
    assert now is not None
    return now


async def assert_stored(running: RunningGateway, tracker: Tracker, row: Connection, number: int) -> None:
    credential = running.runtime.store.open(row.credential)
    assert (credential["access_token"], credential["refresh_token"]) == (f"new-{number}", f"fresh-{number}")
    assert row.failure is None
    tracker.grants[0].access_tokens.add(f"new-{number}")
    tracker.response = None
    async with running.call_proxy("c1") as response:
        assert response.status == 200, await response.text()
    read_response = await running.http.get(
        f"{running.url}/connections/c1?provider_config_key=tracker", headers=running.headers
    )
    assert read_response.status == 200
    json.loads(await read_response.text(), parse_constant=pytest.fail)


@pytest.mark.parametrize("value", ODD, ids=lambda value: value[:30])
@pytest.mark.asyncio(loop_scope="module")
async def test_rotated_token_is_stored_with_an_unexpected_value_in_any_field(
    shared_gateway: RunningGateway, shared_tracker: Tracker, value: str
) -> None:
    for number, name in enumerate(FIELDS):
        row = await refreshed(shared_gateway, shared_tracker, number, f'"{name}":{value}')
        await assert_stored(shared_gateway, shared_tracker, row, number)


async def test_rotated_token_is_stored_with_bytes_that_are_not_utf_8(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    row = await running.runtime.store.connections.get(REF)
    assert row is not None
    tracker.response = web.Response(
        body=b'\xef\xbb\xbf{"user":"J\xfcrgen","access_token":"new-0","refresh_token":"fresh-0"}',
        content_type="application/json",
    )
    await running.runtime.refresher.refresh(row, force=True)
    now = await running.runtime.store.connections.get(REF)
    assert now is not None
    await assert_stored(running, tracker, now, 0)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(beside=responses, number=st.integers(0, 10**9))
async def test_rotated_token_is_stored_with_any_other_members(
    running: RunningGateway, tracker: Tracker, beside: dict[str, Any], number: int
) -> None:
    beside = {name: value for name, value in beside.items() if name not in {"access_token", "refresh_token"}}
    row = await refreshed(running, tracker, number, json.dumps(beside)[1:-1])
    credential = running.runtime.store.open(row.credential)
    assert (credential["access_token"], credential["refresh_token"]) == (f"new-{number}", f"fresh-{number}")
    assert row.failure is None
    await running.runtime.live.open_connection(*REF)


@pytest.mark.parametrize("value", ODD, ids=lambda value: value[:30])
@pytest.mark.asyncio(loop_scope="module")
async def test_unexpected_value_does_not_fail_a_code_exchange(
    shared_gateway: RunningGateway, shared_tracker: Tracker, value: str
) -> None:
    """The response to a code is parsed by the same function as the response to a refresh, which other tests check field
    by field.

    Only the use of the fields differs, so this test sends several unexpected fields together.
    """
    for number, names in enumerate(GROUPS if len(value) < LONG else [[name] for name in FIELDS]):
        tokens = f'"access_token":"new-{number}","refresh_token":"fresh-{number}"'
        shared_tracker.grant()
        shared_tracker.grants[-1].access_tokens = {f"new-{number}"}
        fields = ",".join(f'"{name}":{value}' for name in names)
        shared_tracker.response = web.Response(body=f"{{{fields},{tokens}}}".encode(), content_type="application/json")
        status, html = await walk_flow(shared_gateway, await shared_gateway.session_token())
        assert status == 200, (names, html[-600:])


async def test_final_refusal_is_recorded_with_half_of_an_emoji_in_its_description(
    running: RunningGateway, tracker: Tracker
) -> None:
    """A provider that cuts its text to a length can cut an emoji into two halves, and UTF-8 has no form for a half."""
    await running.import_connection(tracker.grant())
    row = await running.runtime.store.connections.get(REF)
    assert row is not None
    body = b'{"error":"invalid_grant","error_description":"Bye \\ud83d"}'
    tracker.response = web.Response(status=400, body=body, content_type="application/json")
    with pytest.raises(ReconnectNeeded, match="invalid_grant"):
        await running.runtime.refresher.refresh(row, force=True)
    now = await running.runtime.store.connections.get(REF)
    assert now is not None
    assert now.failure is not None
    assert (now.state, now.failure.message, now.intent) == (State.NEEDS_REAUTH, "Bye", None)


@pytest.mark.parametrize("refresh", ["7", '"r\\n"', '["r"]', "true", '"\\ud800"', "{}"])
def test_access_token_is_stored_without_an_unusable_refresh_token(refresh: str) -> None:
    body = f'{{"access_token":"a","refresh_token":{refresh}}}'.encode()
    response = read_response(provider(), 200, {"Content-Type": "application/json"}, body)
    assert response["access_token"] == "a"
    assert "refresh_token" not in response


@settings(max_examples=200)
@given(
    text=st.one_of(
        st.text(),
        st.from_regex(
            r"[A-Z][a-z]{2}, [0-9]{1,9} [A-Z][a-z]{2} [0-9]{1,9} [0-9]{1,9}:[0-9]{1,9}:[0-9]{1,9} .{0,3}[+-][0-9]{1,30}"
        ),
        st.datetimes().map(lambda at: f"{at.isoformat()}-14:00"),
    )
)
def test_any_retry_after_is_read(text: str) -> None:
    seconds = retry_after({"Retry-After": text})
    assert seconds is None or seconds >= 0
