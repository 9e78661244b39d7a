"""The refresh journal with the keys of the store: the next process finds replies, and records without use are removed."""

import errno
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from gateway import clock
from gateway.errors import Unavailable
from gateway.journal import Entry, JournalWriter
from gateway.journal.reader import read
from gateway.records.connection import Connection
from gateway.records.provider_call import ProviderCall, Reply
from gateway.store import Store, open_store, rotation
from gateway.store.journal_recovery import OVERDUE_S, EarlierReplies
from gateway.vault import Keyring
from tests.fakes.journal import JournalFile, left, slot_file
from tests.gateway.store.conftest import KEY, NOW, REF, StoreOpener, new, sqlite_only

CALL = ProviderCall("https://a.example/token")
REPLY = Reply(200, CIMultiDict({"Content-Type": "application/json"}), b'{"access_token": "new-access"}', NOW)
pytestmark = sqlite_only


async def stored_connection(store: Store) -> Connection:
    row, _ = await store.connections.put(new(), now=NOW)
    return row


async def claimed_connection(store: Store) -> Connection:
    """Return the row of a connection with an open refresh."""
    row = await stored_connection(store)
    assert await store.refreshes.lease_refresh(REF, owner="o", ttl=timedelta(0), known_row=row, intent="digest")
    return row


def folder(path: Path) -> Path:
    return path.with_name(f"{path.name}-refresh-journal")


async def entry_of(store: Store, row: Connection) -> Entry:
    await store.journal.prepare("dev")
    entry = store.journal.entry(row)
    assert entry is not None
    return entry


async def record_reply(store: Store, row: Connection, reply: Reply = REPLY) -> JournalFile:
    entry = await entry_of(store, row)
    file = JournalFile(entry.folder)
    file.reply(entry, CALL, reply)
    return file


def fail_if_released(_attempt: str) -> None:
    raise AssertionError("nothing is to be released")


async def test_a_reply_that_was_not_stored_is_found_by_the_next_process(
    open_test_store: StoreOpener, path: Path
) -> None:
    this_node = await open_test_store()
    row = await stored_connection(this_node)
    (await record_reply(this_node, row)).die()
    await this_node.close()
    other_node = await open_test_store()
    (found,) = (await other_node.journal.earlier_replies(row)).replies
    assert (found.reply, found.call) == (REPLY, "POST https://a.example/token")
    (file,) = folder(path).glob("*.journal")
    assert b"new-access" not in file.read_bytes()


def link_to(database: Path) -> Path:
    """Create a link to the file: another path of the same database, with a journal folder of its own."""
    link = database.parent / "links" / "linked.db"
    link.parent.mkdir()
    link.symlink_to(database)
    return link


@pytest.mark.parametrize("by", ["a link", "an earlier release through a link", "the file"])
async def test_reply_is_found_whether_the_url_names_the_file_or_a_link_to_it(
    open_test_store: StoreOpener, path: Path, by: str
) -> None:
    this_node = await open_test_store()
    row = await stored_connection(this_node)
    link = link_to(path)
    linked = await open_store(f"sqlite:///{link}", Keyring([KEY]), environments={"dev"})
    if by == "an earlier release through a link":
        entry = replace(await entry_of(this_node, row), folder=link.with_name("linked.db-refresh-journal"))
        file = JournalFile(entry.folder)
        file.reply(entry, CALL, REPLY)
        file.die()
        readers = [linked]
    else:
        (await record_reply(linked if by == "a link" else this_node, row)).die()
        readers = [this_node, linked]
    for reader in readers:
        assert (await reader.journal.earlier_replies(row)).replies
    await linked.close()


async def test_reply_under_another_spelling_of_the_database_url_starts_the_recovery(
    open_test_store: StoreOpener, tmp_path: Path
) -> None:
    """Another machine may have reported the loss since: then no lease names this machine."""
    this_node = await open_test_store()
    row = await claimed_connection(this_node)
    link = link_to(tmp_path / "gateway.db")
    entry = replace(await entry_of(this_node, row), folder=link.with_name("linked.db-refresh-journal"))
    file = JournalFile(entry.folder)
    file.reply(entry, CALL, REPLY)
    file.die()
    linked = await open_store(f"sqlite:///{link}", Keyring([KEY]), environments={"dev"})
    assert [found.ref for found in await linked.journal.sweep(linked.connections.get, fail_if_released)] == [REF]
    await linked.refreshes.release_lease(REF, owner="o")
    assert await linked.journal.sweep(linked.connections.get, fail_if_released) == []
    assert len(list(entry.folder.glob("*.journal"))) == 1, "the file can belong to another database"
    await linked.close()


async def test_dead_file_of_another_folder_is_read_once(
    open_test_store: StoreOpener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recovery runs every few seconds, and never removes files of other folders."""
    this_node = await open_test_store()
    row = await claimed_connection(this_node)
    link = link_to(tmp_path / "gateway.db")
    entry = replace(await entry_of(this_node, row), folder=link.with_name("linked.db-refresh-journal"))
    linked = await open_store(f"sqlite:///{link}", Keyring([KEY]), environments={"dev"})
    file, later_file = JournalFile(entry.folder), JournalFile(entry.folder)
    file.die()
    later_file.reply(entry, CALL, REPLY)
    reads = list[Path]()

    def counted(path: Path) -> Any:
        reads.append(path)
        return read(path)

    monkeypatch.setattr("gateway.store.journal_recovery.read", counted)
    for _ in range(3):
        assert await linked.journal.sweep(linked.connections.get, fail_if_released) == []
    assert reads == [file.path], "only the dead process's file is read"
    later_file.die()
    for _ in range(3):
        assert [found.ref for found in await linked.journal.sweep(linked.connections.get, fail_if_released)] == [REF]
    assert reads == [file.path, later_file.path]
    await linked.close()


async def test_reply_for_another_credential_is_not_used(open_test_store: StoreOpener) -> None:
    this_node = await open_test_store()
    row = await stored_connection(this_node)
    await record_reply(this_node, row)
    assert await this_node.journal.earlier_replies(replace(row, version=row.version + 1)) == EarlierReplies()
    assert await this_node.journal.earlier_replies(replace(row, uid="another")) == EarlierReplies()
    assert (await this_node.journal.earlier_replies(row)).replies


async def test_unneeded_file_of_a_dead_process_is_removed(open_test_store: StoreOpener, path: Path) -> None:
    this_node = await open_test_store()
    row = await claimed_connection(this_node)
    (await record_reply(this_node, row)).die()
    await this_node.journal.sweep(this_node.connections.get, fail_if_released)
    assert len(list(folder(path).glob("*.journal"))) == 1, "the refresh is still open"
    await this_node.refreshes.release_lease(REF, owner="o")
    await this_node.journal.sweep(this_node.connections.get, fail_if_released)
    assert list(folder(path).glob("*.journal")) == []


async def test_no_journal_file_is_removed_while_a_failover_may_have_lost_the_intent(
    open_test_store: StoreOpener, path: Path
) -> None:
    this_node = await open_test_store()
    (await record_reply(this_node, await stored_connection(this_node))).die()

    async def not_known() -> bool:
        return False

    await this_node.journal.sweep(this_node.connections.get, fail_if_released, (), not_known)
    assert len(list(folder(path).glob("*.journal"))) == 1
    this_node.failover.begin()
    assert not await this_node.failover.is_unchanged()
    await this_node.failover.confirm()
    assert not await this_node.failover.is_unchanged(), "other processes may still write tokens back"


async def test_unneeded_attempt_in_a_running_parents_file_is_released(
    open_test_store: StoreOpener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_test_store()
    row = await claimed_connection(store)
    await store.journal.prepare("dev")
    entry, writer = store.journal.entry(row), JournalWriter(folder(path))
    assert entry is not None
    recorded_call = await writer.begin(entry, 0)
    assert recorded_call is not None
    assert await writer.reply(entry, 0, recorded_call, CALL, REPLY)
    at = clock.monotonic()
    assert await store.journal.sweep(store.connections.get, writer.release) == []
    monkeypatch.setattr(clock, "monotonic", lambda: at + OVERDUE_S + 1)
    (found,) = await store.journal.sweep(store.connections.get, writer.release)
    assert found.ref == REF, "the process that wanted the reply has possibly ended, and the row does not name it"
    assert len(left(folder(path))) == 1, "the refresh is still open"
    await store.refreshes.release_lease(REF, owner="o")
    await store.journal.sweep(store.connections.get, writer.release)
    assert left(folder(path)) == []
    await writer.close()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
async def test_unreadable_journal_is_not_treated_as_empty(
    open_test_store: StoreOpener, path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A token that is sent again is lost, and a file that is removed can have the only copy of a token."""

    def failing(_path: Path) -> Iterator[Any]:
        raise OSError(code, os.strerror(code))

    store = await open_test_store()
    row = await claimed_connection(store)
    (await record_reply(store, row)).die()
    with monkeypatch.context() as patch:
        patch.setattr("gateway.journal.reader.records", failing)
        for reading in (store.journal.earlier_replies(row), store.journal.has_reply(row)):
            with pytest.raises(Unavailable, match=os.strerror(code)):
                await reading
        assert await store.journal.sweep(store.connections.get, fail_if_released) == []
        if code == errno.EIO:
            assert await store.journal.calls() == [], "a start does not wait for a damaged file"
        else:
            with pytest.raises(Unavailable, match=os.strerror(code)):
                await store.journal.calls()
    assert (await store.journal.earlier_replies(row)).replies


async def test_folder_with_the_name_of_a_journal_file_is_skipped(open_test_store: StoreOpener, path: Path) -> None:
    store = await open_test_store()
    row = await claimed_connection(store)
    await record_reply(store, row)
    (folder(path) / "backup.journal").mkdir()
    assert (await store.journal.earlier_replies(row)).replies


async def test_other_users_file_is_skipped(open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_path: Path) -> Iterator[Any]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    store = await open_test_store()
    row = await claimed_connection(store)
    await record_reply(store, row)
    monkeypatch.setattr("gateway.journal.reader.records", failing)
    assert await store.journal.earlier_replies(row) == EarlierReplies()


async def test_reply_under_a_missing_encryption_key_is_waited_for(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process of this machine has rotated the keys, and this process has not loaded the new key yet."""
    monkeypatch.setattr(rotation, "REFRESHES_S", 0.0)
    behind = await open_test_store(KEY)
    row = await claimed_connection(behind)
    ahead = await open_test_store(os.urandom(32), KEY)
    await ahead.rotation.rotate(lambda _done, _total: None)
    (await record_reply(ahead, row)).die()
    with pytest.raises(Unavailable, match="needs an encryption key"):
        await behind.journal.earlier_replies(row)
    assert (await ahead.journal.earlier_replies(row)).replies


async def test_refresh_works_without_a_folder(open_test_store: StoreOpener) -> None:
    store = await open_test_store()
    row = await stored_connection(store)
    store.journal.folder = None
    await store.journal.prepare("dev")
    assert store.journal.entry(row) is None
    assert await store.journal.earlier_replies(row) == EarlierReplies()
    await store.journal.sweep(store.connections.get, fail_if_released)


async def test_a_damaged_reply_is_ignored(open_test_store: StoreOpener) -> None:
    this_node = await open_test_store()
    row = await stored_connection(this_node)
    file = await record_reply(this_node, row)
    file.die()
    raw = bytearray(file.path.read_bytes())
    raw[raw.index(b'"step"') + 60] ^= 1
    file.path.write_bytes(bytes(raw))
    assert await (await open_test_store(KEY)).journal.earlier_replies(row) == EarlierReplies()


async def test_slot_files_are_read_and_removed(open_test_store: StoreOpener, path: Path) -> None:
    store = await open_test_store()
    row = await claimed_connection(store)
    await store.journal.prepare("dev")
    entry = store.journal.entry(row)
    assert entry is not None
    slots = path.with_name(f"{path.name}-pairs")
    file = slot_file(slots, [entry.head(0) + b"\n" + entry.seal_reply(entry.head(0), CALL, REPLY)])
    (found,) = (await store.journal.earlier_replies(row)).replies
    assert found.reply == REPLY
    await store.journal.sweep(store.connections.get, fail_if_released)
    assert file.exists()
    await store.refreshes.release_lease(REF, owner="o")
    await store.journal.sweep(store.connections.get, fail_if_released)
    assert not file.exists()


async def test_credential_in_a_slot_file_is_found(open_test_store: StoreOpener, path: Path) -> None:
    store = await open_test_store()
    row = await stored_connection(store)
    await store.journal.prepare("dev")
    fresh = {"type": "OAUTH2", "access_token": "new-access", "refresh_token": "new-refresh"}
    place: Any = {"table": "pairs", "row": row.uid, "column": "answer", "version": row.version + 1}
    value = {"credential": fresh, "expires_at": NOW.isoformat()}
    sealed = store.vault.seal_json(value, environment="dev", **place)
    about = json.dumps({"ref": row.ref, "row": row.uid, "version": row.version}).encode()
    slot_file(path.with_name(f"{path.name}-pairs"), [about + b"\n" + sealed.ciphertext])
    found = (await store.journal.earlier_replies(row)).credential
    assert found is not None
    assert (found.values, found.expires_at) == (fresh, NOW)
