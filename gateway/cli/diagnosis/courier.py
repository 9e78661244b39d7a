"""Whether what token endpoints answer outlives a gateway that is killed: a file for notes, and a process that writes them."""

import asyncio
from collections.abc import AsyncIterator

from gateway.cli.diagnosis.finding import Finding, ok
from gateway.cli.diagnosis.patient import Patient
from gateway.courier import Courier
from gateway.store.look import sqlite_path
from gateway.store.note_place import NO_FOLDER, node_place, place_beside
from gateway.store.slot_file import SlotFile

CHECK = "courier"
AT_STAKE = "a gateway that is killed while it renews a token may lose it"


async def courier(patient: Patient) -> AsyncIterator[Finding]:
    """Both are tried, by this user on this machine, and nothing of it stays."""
    url, where = patient.config.store.url, patient.where("store", "url")
    place = place_beside(sqlite_path(url)) if url.startswith("sqlite:") else node_place("doctor")
    if place is None:
        yield Finding("warn", CHECK, f"{AT_STAKE}: there is no folder for notes", where, NO_FOLDER.partition(": ")[2])
        return
    if not place.parent.exists():
        return  # told where the database is looked at
    try:
        await asyncio.to_thread(lambda: SlotFile(place).close())
    except OSError as fault:
        told = f"{AT_STAKE}: nothing can be noted in {place.parent} ({fault.strerror})"
        yield Finding(
            "warn", CHECK, told, where, "give the service's user room and rights there, or let store.url name another"
        )
        return
    one = Courier()
    ready = await one.ready()
    await one.close()
    if ready:
        yield ok(CHECK, f"it starts for this user in this shell, and notes in {place.parent}")
    else:
        fix = "let the service's user start python: a process limit or a sandbox may forbid it"
        yield Finding("warn", CHECK, f"{AT_STAKE}: no second process can be started", "this machine", fix)
