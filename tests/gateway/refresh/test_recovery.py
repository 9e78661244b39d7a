"""A process is killed during a refresh, and another process finishes the refresh. Two machines share a PostgreSQL
database.

A machine is a gateway with its own folder for its refresh journal. The provider revokes a grant when it receives a
refresh token twice.
"""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from aiohttp import web
from multidict import CIMultiDict

from gateway import clock
from gateway.journal.reader import OpenRecord, open_records
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.provider_call import ProviderCall, Reply
from gateway.records.states import State
from gateway.refresh.decision import Holder
from gateway.refresh.protocol import FENCE
from gateway.refresh.recovery import find_unfinished
from gateway.refresh.save_tokens import LEASE, RefreshedTokens, save_after_lost_lease, token_digest
from gateway.refresh.token_exchange import ExchangeLost, LocalExchange
from gateway.store import Store, open_store
from gateway.store.failover import OUTAGE_S
from gateway.vault import Keyring
from tests.fakes.gateways import ENCRYPTION_KEY, RunningGateway, document, tracker_entry, write_entry
from tests.fakes.journal import JournalFile
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

REF = ConnectionRef("dev", "tracker", "c1")
LONG_AGO = "2020-01-01T00:00:00Z"
GONE = web.json_response({"error": "invalid_grant"}, status=400)  # the provider refuses the token and keeps the grant
Start = Callable[[str], Awaitable[RunningGateway]]


def folder_of(tmp_path: Path, machine: str) -> Path:
    folder = tmp_path / machine
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
async def start(
    tracker: Tracker, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Start]:
    """Return a function that starts the gateway of a machine."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    running: list[RunningGateway] = []

    async def started(machine: str) -> RunningGateway:
        whole = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"])
        whole["store"]["url"] = database
        monkeypatch.setenv("TMPDIR", str(folder_of(tmp_path, machine)))
        running.append(RunningGateway(tmp_path, whole))
        await running[-1].start()
        return running[-1]

    yield started
    for node in running:
        await node.stop()


class KilledProcess:
    """A process of machine `a` that was killed during a refresh of the only connection. `store`: the store of this
    process.
    """

    def __init__(self, store: Store, row: Connection, url: str) -> None:
        self.url = url
        self.store = store
        self.row = row

    def rotated(self, tracker: Tracker) -> dict[str, Any]:
        """Replace the token at the provider. Return the credential that the provider sent to the process."""
        response: Any = tracker.refreshed(self.store.open(self.row.credential)["refresh_token"])
        parsed = json.loads(response.body)
        return {"type": "OAUTH2", "access_token": parsed["access_token"], "refresh_token": parsed["refresh_token"]}

    async def record_reply(self, credential: dict[str, Any]) -> None:
        """Record the reply in the journal of the process."""
        entry = self.store.journal.entry(self.row)
        assert entry is not None
        body = {**{name: text for name, text in credential.items() if name != "type"}, "expires_in": 3600}
        fields = CIMultiDict({"Content-Type": "application/json"})
        file = JournalFile(entry.folder)
        file.reply(entry, ProviderCall(f"{self.url}/token"), Reply(200, fields, json.dumps(body).encode(), clock.now()))
        file.die()

    def dies(self) -> None:
        """Release the lock, as the system does when it kills a process. The file stays."""
        marker = self.store.journal.marker
        assert marker is not None
        marker.release()


@pytest.fixture
async def killed_process(
    start: Start, tracker: Tracker, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KilledProcess]:
    """Yield a killed process: its connection's token has expired, it has sent the refresh token, and it holds the
    lease.
    """
    first = await start("a")
    tokens = {name: text for name, text in tracker.grant().items() if name in ("access_token", "refresh_token")}
    await first.import_connection({**tokens, "expires_at": LONG_AGO})
    monkeypatch.setenv("TMPDIR", str(folder_of(tmp_path, "a")))
    store = await open_store(database, Keyring([base64.b64decode(ENCRYPTION_KEY)]), environments={"dev"})
    row = await store.connections.get(REF)
    assert row is not None
    owner, digest = await store.holders.new_owner(), token_digest(store, row)
    assert await store.refreshes.lease_refresh(REF, owner=owner, ttl=LEASE, known_row=row, intent=digest)
    await store.journal.prepare("dev")
    await first.stop()
    yield KilledProcess(store, row, tracker.url)
    await store.close()


async def end_lease_earlier(database: str, time: timedelta) -> None:
    """Make the lease end earlier by `time`. Leases use the clock of the database, which a test cannot set forward."""
    db = await asyncpg.connect(database)
    await db.execute("UPDATE connections SET lease_until = lease_until - $1::interval", time)
    await db.close()


async def known_to_rotate(database: str) -> None:
    db = await asyncpg.connect(database)
    await db.execute("UPDATE connections SET rotates = true")
    await db.close()


async def call_status(node: RunningGateway) -> tuple[int, Any, str | None]:
    async with node.call_proxy("c1") as response:
        return response.status, await response.json(), response.headers.get("Retry-After")


async def row_of(node: RunningGateway) -> Connection:
    row = await node.runtime.store.connections.get(REF)
    assert row is not None
    return row


async def settled(node: RunningGateway, tracker: Tracker) -> Connection:
    """Return the row as soon as its intent is closed."""
    async with asyncio.timeout(PATIENCE_S):
        while (row := await row_of(node)).intent is not None:
            await asyncio.sleep(0.02)
    return row


async def test_waiting_machine_gets_the_token_from_the_journal_of_the_returning_machine(
    killed_process: KilledProcess, start: Start, tracker: Tracker
) -> None:
    """Only the returning machine can take over the lease of its dead process. Machine `b` waits for the new token."""
    await killed_process.record_reply(killed_process.rotated(tracker))
    killed_process.dies()
    other = await start("b")
    waiting = [asyncio.create_task(call_status(other)) for _ in range(20)]
    await asyncio.sleep(0)
    await start("a")
    responses = await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
    assert [status for status, _, _ in responses] == [200] * 20
    assert tracker.calls["refresh_token"] == 0
    assert not tracker.grants[0].revoked


async def test_reply_is_found_after_a_restart_with_another_spelling_of_the_database(
    killed_process: KilledProcess,
    start: Start,
    tracker: Tracker,
    tmp_path: Path,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The journal's folder is named after the database's address in `store.url`."""
    await killed_process.record_reply(killed_process.rotated(tracker))
    await known_to_rotate(database)
    monkeypatch.setenv("TMPDIR", str(folder_of(tmp_path, "a")))
    assert "localhost" not in database
    other_spelling = re.sub(r"@[^/?:]*", "@localhost", database)
    store = await open_store(other_spelling, Keyring([base64.b64decode(ENCRYPTION_KEY)]), environments={"dev"})
    row = await store.connections.get(REF)
    assert row is not None
    assert await store.holders.holder_of(row.lease) is Holder.HERE_ALIVE
    killed_process.dies()
    assert await store.holders.holder_of(row.lease) is Holder.HERE_DEAD
    assert await store.journal.has_reply(row)
    await store.close()


async def test_same_machine_sends_a_token_without_a_reply_once_more(
    killed_process: KilledProcess, start: Start, tracker: Tracker
) -> None:
    killed_process.dies()
    restarted = await start("a")
    row = await settled(restarted, tracker)
    assert (row.version, row.state, tracker.calls["refresh_token"]) == (2, State.ACTIVE, 1)
    assert row.rotates, "the provider returned another refresh token"


async def test_another_machine_refuses_until_the_fence_is_over(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str
) -> None:
    other = await start("b")
    await end_lease_earlier(database, LEASE)
    status, body, again = await call_status(other)
    assert (status, body["error"]["code"]) == (503, "token_endpoint_unavailable")
    assert body["error"]["payload"]["reason"] == "refresh_interrupted"
    assert 1 <= int(again or 0) <= FENCE.total_seconds()
    assert await find_unfinished(other.runtime.store, other.runtime.refresher, print) == []
    assert tracker.calls["refresh_token"] == 0


async def test_rotating_token_is_not_sent_by_another_machine_and_recovers_when_the_first_returns(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str
) -> None:
    await killed_process.record_reply(killed_process.rotated(tracker))
    killed_process.dies()
    other = await start("b")
    await known_to_rotate(database)
    await end_lease_earlier(database, LEASE + FENCE)
    holder = (await row_of(other)).lease
    assert holder is not None
    status, body, _ = await call_status(other)
    assert (status, body["error"]["payload"]["reason"]) == (424, "rotation_lost")
    story = await other.json("GET", "/connections/c1?provider_config_key=tracker&include=history")
    payload = story["error"]["payload"]["connection"]
    assert payload["diagnosis"]["causes"][0]["cause"] == "rotation_lost"
    assert "refresh token sent, no response arrived" in str(payload["diagnosis"]["timeline"])
    row = await row_of(other)
    assert (row.state, tracker.calls["refresh_token"]) == (State.NEEDS_REAUTH, 0)
    # The row names the machine that may have the reply. A machine that only reports the loss does not replace this
    # name.
    assert row.lease == holder
    assert row.intent is not None, "the reply may still be found"
    forced = await other.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true")
    assert forced["error"]["code"] == "reconnect_needed"
    assert tracker.calls["refresh_token"] == 0
    restarted = await start("a")
    row = await settled(restarted, tracker)
    assert (row.version, row.state, row.failure) == (2, State.ACTIVE, None)
    assert (await call_status(other))[0] == 200
    assert tracker.calls["refresh_token"] == 0
    events = [change.reason for change in await restarted.runtime.store.history.changes_of(row.id)]
    assert events == ["authorized", "rotation_lost", "renewed"]


async def test_outage_of_the_database_does_not_count_as_time_for_the_holder_to_return(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During the outage, the holder could neither renew its lease nor store its reply."""
    monkeypatch.setattr("gateway.store.failover.HEARTBEAT_S", 0.02)
    await killed_process.record_reply(killed_process.rotated(tracker))
    killed_process.dies()
    other = await start("b")
    await known_to_rotate(database)
    await end_lease_earlier(database, LEASE + FENCE)
    monotonic, failover = clock.monotonic, other.runtime.store.failover
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + OUTAGE_S)  # without a heartbeat in this time
    async with asyncio.timeout(PATIENCE_S):
        while failover.outage_end(clock.now()) is None:
            await asyncio.sleep(0)
    status, body, again = await call_status(other)
    assert (status, body["error"]["payload"].get("reason")) == (503, "refresh_interrupted")
    assert FENCE.total_seconds() - PATIENCE_S < int(again or 0) <= FENCE.total_seconds()
    assert await find_unfinished(other.runtime.store, other.runtime.refresher, print) == []
    restarted = await start("a")
    row = await settled(restarted, tracker)
    assert (row.version, row.state, tracker.calls["refresh_token"]) == (2, State.ACTIVE, 0)
    events = [change.reason for change in await restarted.runtime.store.history.changes_of(row.id)]
    assert events == ["authorized"], "the loss was not reported"


async def test_recovery_reads_the_journal_once_for_all_rows(
    start: Start, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refreshes that other machines lost stay in the database until the end users connect again."""
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 3600.0)
    node = await start("b")
    store, refresher = node.runtime.store, node.runtime.refresher
    for number in range(3):
        ref = REF._replace(connection_id=f"c{number}")
        await node.import_connection(tracker.grant(), ref.connection_id)
        row = await store.connections.get(ref)
        owner, claim = f"elsewhere.dead.{number}", store.refreshes.lease_refresh
        assert await claim(ref, owner=owner, ttl=timedelta(0), known_row=row, intent="digest")
    reads = list[Path]()

    def counted(folder: Path, **options: bool) -> list[OpenRecord]:
        reads.append(folder)
        return open_records(folder, **options)

    monkeypatch.setattr("gateway.store.journal_recovery.open_records", counted)
    assert await find_unfinished(store, refresher, print) == []
    assert len(await store.refreshes.find_unsettled(limit=9)) == 3
    assert len(reads) == 1


async def test_token_that_the_entry_declares_rotating_is_not_sent_again(
    killed_process: KilledProcess, start: Start, tracker: Tracker, tmp_path: Path, database: str
) -> None:
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url, refresh={"rotating": True}))
    other = await start("b")
    await end_lease_earlier(database, LEASE + FENCE)
    assert (await call_status(other))[0] == 424
    assert tracker.calls["refresh_token"] == 0


async def test_another_machine_sends_a_token_once_if_rotation_is_unknown(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str
) -> None:
    other = await start("b")
    await end_lease_earlier(database, LEASE + FENCE)
    assert (await call_status(other))[0] == 200
    assert tracker.calls["refresh_token"] == 1


async def test_token_of_unknown_rotation_recovers_when_the_first_machine_returns(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str
) -> None:
    await killed_process.record_reply(killed_process.rotated(tracker))
    killed_process.dies()
    other = await start("b")
    await end_lease_earlier(database, LEASE + FENCE)
    tracker.response = GONE
    status, body, _ = await call_status(other)
    assert (status, body["error"]["payload"]["reason"]) == (424, "rotation_lost")
    row = await row_of(other)
    assert (row.state, tracker.calls["refresh_token"]) == (State.NEEDS_REAUTH, 1)
    assert row.intent is not None, "the reply may still be found"
    assert await find_unfinished(other.runtime.store, other.runtime.refresher, print) == []
    assert (await call_status(other))[0] == 424
    assert tracker.calls["refresh_token"] == 1
    restarted = await start("a")
    row = await settled(restarted, tracker)
    assert (row.version, row.state, row.failure) == (2, State.ACTIVE, None)
    assert (await call_status(other))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    events = [change.reason for change in await restarted.runtime.store.history.changes_of(row.id)]
    assert events == ["authorized", "rotation_lost", "renewed"]


async def test_token_of_unknown_rotation_recovers_although_the_row_names_another_killed_machine(
    killed_process: KilledProcess,
    start: Start,
    tracker: Tracker,
    tmp_path: Path,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Machine `b` claims the lease after machine `a`, and is killed before it sends the token. So the row names `b`."""
    await killed_process.record_reply(killed_process.rotated(tracker))
    killed_process.dies()
    monkeypatch.setenv("TMPDIR", str(folder_of(tmp_path, "b")))
    second = await open_store(database, Keyring([base64.b64decode(ENCRYPTION_KEY)]), environments={"dev"})
    row = await second.connections.get(REF)
    assert row is not None
    owner, digest = await second.holders.new_owner(), token_digest(second, row)
    await end_lease_earlier(database, LEASE + FENCE)
    assert await second.refreshes.lease_refresh(
        REF, owner=owner, ttl=LEASE, known_row=row, intent=digest, expired_for=FENCE
    )
    assert second.journal.marker is not None
    second.journal.marker.release()
    tracker.response = GONE
    other = await start("b")
    async with asyncio.timeout(PATIENCE_S):
        while (await row_of(other)).state is not State.NEEDS_REAUTH:
            await asyncio.sleep(0.02)
    assert tracker.calls["refresh_token"] == 1
    restarted = await start("a")
    row = await settled(restarted, tracker)
    assert (row.version, row.state, row.failure) == (2, State.ACTIVE, None)
    assert (await call_status(other))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    await second.close()


async def test_token_whose_reply_the_entry_cannot_read_is_not_sent_by_another_machine(
    start: Start, tracker: Tracker, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machine `a` runs, and keeps the reply until its entry is corrected. Its next attempt can be 15 minutes later."""
    monkeypatch.setattr("gateway.refresh.backoff.FIRST_WAIT", timedelta(0))
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 3600.0)
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url, token_response={"token_path": "data.access_token"}))
    first = await start("a")
    tokens = {name: text for name, text in tracker.grant().items() if name in ("access_token", "refresh_token")}
    await first.import_connection({**tokens, "expires_at": LONG_AGO})
    assert (await call_status(first))[0] == 503
    assert tracker.calls["refresh_token"] == 1
    other = await start("b")
    await end_lease_earlier(database, LEASE + FENCE)
    await call_status(other)
    assert tracker.calls["refresh_token"] == 1, "the token is spent, and is not sent again"
    assert not tracker.grants[0].revoked


async def test_refused_token_can_be_tried_again_by_force(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str
) -> None:
    """The intent stays open for another machine, and the provider's refusal was a mistake."""
    other = await start("b")
    await end_lease_earlier(database, LEASE + FENCE)
    tracker.response = GONE
    assert (await call_status(other))[0] == 424
    assert await find_unfinished(other.runtime.store, other.runtime.refresher, print) == []
    tracker.response = None
    found = await other.runtime.refresher.refresh(await row_of(other), force=True)
    assert (found.version, found.state) == (2, State.ACTIVE)


async def test_refused_token_of_a_provider_that_keeps_refresh_tokens_can_be_tried_again(
    killed_process: KilledProcess, start: Start, tracker: Tracker, tmp_path: Path, database: str
) -> None:
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url, refresh={"rotating": False}))
    other = await start("b")
    await end_lease_earlier(database, LEASE + FENCE)
    tracker.response = GONE
    assert (await call_status(other))[0] == 424
    assert (await row_of(other)).intent is None
    tracker.response = None
    found = await other.runtime.refresher.refresh(await row_of(other), force=True)
    assert (found.version, found.state) == (2, State.ACTIVE)


async def test_outage_after_the_fence_does_not_forget_the_machine_with_the_reply(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await killed_process.record_reply(killed_process.rotated(tracker))
    killed_process.dies()
    other = await start("b")
    await end_lease_earlier(database, LEASE + FENCE)
    tracker.response = web.Response(status=502)
    assert (await call_status(other))[0] == 503
    assert await find_unfinished(other.runtime.store, other.runtime.refresher, print) == [], (
        "the refresh waits for the back-off"
    )
    tracker.response = GONE
    monkeypatch.setattr("gateway.refresh.backoff.may_try", lambda *_: True)
    assert (await call_status(other))[0] == 424
    restarted = await start("a")
    row = await settled(restarted, tracker)
    assert (row.version, row.state, tracker.calls["refresh_token"]) == (2, State.ACTIVE, 2)


async def test_returning_machine_without_a_reply_does_not_send_the_refused_token(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str
) -> None:
    killed_process.rotated(tracker)  # the reply was lost
    killed_process.dies()
    other = await start("b")
    await end_lease_earlier(database, LEASE + FENCE)
    tracker.response = GONE
    assert (await call_status(other))[0] == 424
    restarted = await start("a")
    assert await find_unfinished(restarted.runtime.store, restarted.runtime.refresher, print) == []
    assert (await call_status(restarted))[0] == 424
    row = await row_of(restarted)
    assert (row.state, row.state_reason, row.lease) == (State.NEEDS_REAUTH, "rotation_lost", None)
    assert tracker.calls["refresh_token"] == 1
    events = [change.reason for change in await restarted.runtime.store.history.changes_of(row.id)]
    assert events == ["authorized", "rotation_lost"]


async def test_paused_process_stores_its_token_after_rotation_lost_was_reported(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str
) -> None:
    fresh = killed_process.rotated(tracker)
    other = await start("b")
    await known_to_rotate(database)
    await end_lease_earlier(database, LEASE + FENCE)
    assert (await call_status(other))[0] == 424
    provider = other.runtime.generation.catalog.get("tracker")
    assert provider is not None
    pair = RefreshedTokens(
        provider,
        killed_process.store.open(killed_process.row.credential),
        fresh,
        datetime.now(UTC) + timedelta(hours=1),
    )
    saved = await save_after_lost_lease(killed_process.store, killed_process.row, pair)
    assert saved is not None
    assert (saved.version, saved.state) == (2, State.ACTIVE)
    assert tracker.calls["refresh_token"] == 0


async def test_another_machine_does_not_send_a_token_whose_exchange_is_lost(
    start: Start, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine with the lease has a blocked or dead parent process, but its journal contains the reply."""
    monkeypatch.setattr("gateway.refresh.backoff.FIRST_WAIT", timedelta(seconds=0))
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 3600.0)
    machine, other = await start("a"), await start("b")
    tokens = {name: text for name, text in tracker.grant().items() if name in ("access_token", "refresh_token")}
    await machine.import_connection({**tokens, "expires_at": LONG_AGO})
    send = machine.runtime.exchange.send

    async def lost(*args: Any, **options: Any) -> Reply:
        await send(*args, **options)
        raise ExchangeLost("timeout", "no response within 28 s.")

    with monkeypatch.context() as patch:
        patch.setattr(LocalExchange, "send", lambda _self, *args, **options: lost(*args, **options))
        assert (await call_status(machine))[0] == 503
    status, body, _ = await call_status(other)
    assert (status, body["error"]["payload"].get("reason")) == (503, "refresh_interrupted")
    assert (await call_status(machine))[0] == 200
    assert (await call_status(other))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    assert not tracker.grants[0].revoked


async def failed_over_without_the_claim(database: str) -> None:
    """Remove the claim from the database, and record a failover an hour ago, which explains why the claim is missing."""
    db = await asyncpg.connect(database)
    lost = "lease_owner = NULL, lease_until = NULL, intent_digest = NULL, intent_at = NULL"
    await db.execute(f"UPDATE connections SET {lost}")
    await db.execute("INSERT INTO timelines VALUES ('00000000', now() - interval '1 day')")
    await db.execute("UPDATE timelines SET since = now() - interval '1 hour' WHERE timeline <> '00000000'")
    await db.close()


async def test_record_of_a_version_missing_in_the_database_does_not_delay_the_start(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str
) -> None:
    killed_process.row = replace(killed_process.row, version=7)
    await killed_process.record_reply({"type": "OAUTH2", "access_token": "x", "refresh_token": "y"})
    killed_process.dies()
    await failed_over_without_the_claim(database)
    restarted = await start("a")
    assert (await call_status(restarted))[0] == 200
    assert tracker.calls["refresh_token"] == 1


async def test_journalled_reply_is_used_after_a_failover_lost_the_intent(
    killed_process: KilledProcess, start: Start, tracker: Tracker, database: str
) -> None:
    """The standby lacks the claim, so its row looks as if the token was never sent. The journal shows that it was sent."""
    await killed_process.record_reply(killed_process.rotated(tracker))
    killed_process.dies()
    await failed_over_without_the_claim(database)
    restarted = await start("a")
    row = await settled(restarted, tracker)
    assert (row.version, row.state, tracker.calls["refresh_token"]) == (2, State.ACTIVE, 0)
    assert (await call_status(restarted))[0] == 200
    assert not tracker.grants[0].revoked
