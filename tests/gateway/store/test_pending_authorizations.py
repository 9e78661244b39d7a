"""An authorization in progress can be used once, by one caller, before it expires. Its secret values stay sealed."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gateway.records.connecting import NewFlow, Outcome, PendingAuthorization, flow_details
from gateway.store import Store
from gateway.store.pending_authorizations import MAX_KEPT_FAILURES, MAX_RESULTS
from gateway.vault import VaultError
from tests.gateway.store.conftest import NOW, StoreOpener

SOON = NOW + timedelta(minutes=10)
DETAILS = PendingAuthorization(
    provider="jira", mode="OAUTH2", kept={"code_verifier": "v" * 43}, config={"subdomain": "acme"}
)


def flow(state_digest: str = "s1") -> NewFlow:
    return NewFlow(
        state_digest=state_digest,
        browser_digest="b1",
        environment="dev",
        integration_id="jira",
        connection_id="u1",
        session_digest="d1",
        expires_at=SOON,
        details=DETAILS,
    )


async def test_a_flow_can_be_looked_at_and_is_then_used_once(store: Store) -> None:
    added = await store.flows.add(flow())
    assert await store.flows.get("s1", now=NOW) == added
    used = await store.flows.consume("s1", now=NOW)
    assert used == added
    assert flow_details(store.vault.open_json(used.details)) == DETAILS
    assert await store.flows.consume("s1", now=NOW) is None
    assert await store.flows.get("s1", now=NOW) is None


async def test_one_of_twenty_simultaneous_callbacks_gets_the_flow(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store(), await open_test_store()]
    await stores[0].flows.add(flow())
    got = await asyncio.gather(*(stores[n % 2].flows.consume("s1", now=NOW) for n in range(20)))
    assert sum(item is not None for item in got) == 1


async def test_an_expired_flow_is_neither_shown_nor_used(store: Store) -> None:
    await store.flows.add(flow())
    assert await store.flows.get("s1", now=SOON) is None
    assert await store.flows.consume("s1", now=SOON) is None
    assert await store.flows.get("s1", now=NOW), "a failed attempt does not use up the flow"
    await store.prune(SOON)
    hour = SOON + timedelta(hours=1)
    assert await store.flows.count_not_returned("dev", expires_after=NOW, expires_until=hour) == {"jira": (1, SOON)}
    assert await store.flows.count_not_returned("dev", expires_after=SOON, expires_until=hour) == {}, (
        "the flow began too long ago"
    )
    assert await store.flows.count_not_returned("dev", expires_after=NOW, expires_until=NOW) == {}, (
        "the flow began too recently"
    )
    await store.prune(hour)
    assert await store.flows.get("s1", now=NOW) is None
    assert await store.flows.count_not_returned("dev", expires_after=NOW, expires_until=hour) == {}


async def test_details_of_one_flow_cannot_be_opened_in_another_flow(store: Store) -> None:
    first, second = await store.flows.add(flow("s1")), await store.flows.add(flow("s2"))
    with pytest.raises(VaultError):
        store.vault.open_json(replace(first.details, ciphertext=second.details.ciphertext))


def test_a_new_flow_does_not_print_its_details() -> None:
    assert "v" * 43 not in repr(flow())


async def test_stored_failures_of_a_session_are_limited_and_replace_no_connection(store: Store) -> None:
    def outcome(session: str = "d1", **extra: Any) -> Outcome:
        return Outcome(environment="dev", session_digest=session, integration_id="jira", at=NOW, **extra)

    failure = {"error_type": "callback_err", "code": "authorization_refused"}
    dropped = outcome(connection_id="c2", is_pending=True, error_type="state_err", code="invalid_state")
    connected = [outcome(connection_id="c1"), dropped]
    for item in (*connected, outcome("d2", **failure)):
        await store.flow_results.add(item)
    for number in range(MAX_KEPT_FAILURES + 5):
        await store.flow_results.add(outcome(error_desc=str(number), **failure))
    await store.flow_results.add(outcome(connection_id="c3"))
    found = await store.flow_results.find_by_session("d1")
    assert (found[:2], found[-1]) == (connected, outcome(connection_id="c3"))
    assert [entry.error_desc for entry in found[2:-1]] == [str(number + 5) for number in range(MAX_KEPT_FAILURES)]
    assert len(await store.flow_results.list_since(NOW)) == len(found) + 1 < MAX_RESULTS
