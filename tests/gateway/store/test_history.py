"""The state of a credential that an API rejects. The state counts only for its grant.

The result of the token endpoint replaces it.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from gateway.records.connection import RefreshFailure
from gateway.records.states import REJECTED, HistoryNote, State
from gateway.store import Store
from tests.gateway.store.conftest import NOW, REF, new

DOUBT = RefreshFailure(REJECTED, "the API returned 401", False, NOW + timedelta(seconds=1), 3)
END = replace(DOUBT, final=True, attempts=5, at=NOW + timedelta(minutes=5))
LATER = NOW + timedelta(hours=1)


async def test_rejection_is_recorded_made_final_and_withdrawn(store: Store) -> None:
    seen, _ = await store.connections.put(new(), now=NOW)
    for failure, state in ((DOUBT, State.DEGRADED), (END, State.NEEDS_REAUTH)):
        row = await store.rejections.record(seen, failure)
        assert row is not None
        assert (row.state, row.state_reason, row.failure) == (state, REJECTED, failure)
        assert row.mark != seen.mark, "other nodes see the change"
    assert await store.rejections.record(seen, END) is None, "another node has recorded a rejection first"
    row = await store.rejections.withdraw(seen, now=LATER)
    assert row is not None
    assert (row.state, row.state_reason, row.failure) == (State.ACTIVE, "accepted", None)
    assert await store.rejections.withdraw(seen, now=LATER) is None
    shown = [(item.state, item.reason) for item in await store.history.changes_of(row.id)]
    assert shown[1:] == [(State.DEGRADED, REJECTED), (State.NEEDS_REAUTH, REJECTED), (State.ACTIVE, "accepted")]


async def test_rejection_of_another_grant_or_over_another_failure_is_not_recorded(store: Store) -> None:
    seen, _ = await store.connections.put(new(), now=NOW)
    again, _ = await store.connections.put(new(), now=LATER)
    assert await store.rejections.record(seen, DOUBT) is None
    failure = RefreshFailure("invalid_grant", "gone", True, LATER, 1)
    assert await store.refreshes.lease_refresh(REF, owner="a", ttl=timedelta(seconds=30))
    assert await store.refreshes.record_failure(REF, owner="a", version=again.version, failure=failure)
    assert await store.rejections.record(again, DOUBT) is None
    assert await store.rejections.withdraw(again, now=LATER) is None
    row = await store.connections.get(REF)
    assert row is not None
    assert row.failure == failure


@pytest.mark.parametrize("failure", [DOUBT, END])
async def test_refresh_keeps_the_recorded_rejection_by_the_api(store: Store, failure: RefreshFailure) -> None:
    seen, _ = await store.connections.put(new(), now=NOW)
    recorded = await store.rejections.record(seen, failure)
    assert recorded is not None
    assert await store.refreshes.lease_refresh(REF, owner="a", ttl=timedelta(seconds=30))
    credential = {"type": "OAUTH2", "access_token": "newer"}
    row = await store.refreshes.save_refreshed(
        REF, owner="a", version=seen.version, credential=credential, expires_at=None, now=LATER, known_row=seen
    )
    assert row is not None
    assert (row.version, row.state, row.failure) == (seen.version + 1, recorded.state, failure)
    assert store.open(row.credential) == credential
    assert len(await store.history.changes_of(row.id)) == 2
    withdrawn = await store.rejections.withdraw(seen, now=LATER)
    assert withdrawn is not None
    assert withdrawn.state is State.ACTIVE


async def test_note_of_a_refresh_is_in_the_history_and_changes_no_state(store: Store) -> None:
    seen, _ = await store.connections.put(new(), now=NOW)
    assert await store.refreshes.lease_refresh(REF, owner="a", ttl=timedelta(seconds=30))
    note = HistoryNote("user_grant_refused", "The grant was dropped.")
    row = await store.refreshes.save_refreshed(
        REF, owner="a", version=1, credential={}, expires_at=None, now=LATER, known_row=seen, note=note
    )
    assert row is not None
    assert (row.version, row.state, row.state_reason, row.lease) == (2, State.ACTIVE, seen.state_reason, None)
    last = (await store.history.changes_of(row.id))[-1]
    assert (last.at, last.state, last.reason, last.detail) == (LATER, State.ACTIVE, note.reason, note.detail)
