"""Whether token endpoints' replies outlive a process that is killed: whether the refresh journal can be written."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

from gateway.cli.diagnosis.finding import Finding, ok
from gateway.cli.diagnosis.patient import Patient
from gateway.journal.place import NO_FOLDER, journal_beside, journal_of_node
from gateway.journal.segment import Segment
from gateway.store.look import sqlite_path

CHECK = "journal"
AT_STAKE = "a process that is killed while it refreshes a token may lose it"


async def journal(patient: Patient) -> AsyncIterator[Finding]:
    """Tried by this user on this machine, and nothing of it stays."""
    url, where = patient.config.store.url, patient.where("store", "url")
    folder = journal_beside(sqlite_path(url)) if url.startswith("sqlite:") else journal_of_node("doctor")
    if folder is None:
        yield Finding("warn", CHECK, f"{AT_STAKE}: there is no folder for it", where, NO_FOLDER.partition(": ")[2])
        return
    if not folder.parent.exists():
        return  # reported where the database is looked at
    there = folder.exists()
    try:
        await asyncio.to_thread(lambda: Segment(folder, f"doctor-{secrets.token_hex(6)}").close(remove=True))
    except OSError as fault:
        detail = f"{AT_STAKE}: the refresh journal cannot be written in {folder} ({fault.strerror})"
        fix = "give the service's user room and rights there, or let store.url name another folder"
        yield Finding("warn", CHECK, detail, where, fix)
        return
    if not there:
        with contextlib.suppress(OSError):  # a gateway has begun to use it meanwhile
            folder.rmdir()
    yield ok(CHECK, f"the refresh journal can be written by this user in {folder.parent}")
