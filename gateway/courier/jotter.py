"""The courier's file of notes: that a call is under way, then what was answered, each in the same room."""

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Final

from gateway.store.notes import Note
from gateway.store.own_file import OwnFile
from gateway.store.slot_file import SlotFile, fits

SOON_S: Final = 0.05
Room = tuple[SlotFile, range]


class Jotter:
    """One file for each place that is named. Rooms stay taken until their attempt is `done`."""

    def __init__(self) -> None:
        self._own: dict[Path, OwnFile] = {}
        self._rooms: dict[str, list[Room]] = defaultdict(list)
        self._syncs = set[asyncio.Future[None]]()

    async def begin(self, note: Note, step: int) -> Room | None:
        """Room in which it says that the call is under way; None where nothing can be noted."""
        file = await self._own.setdefault(note.place, OwnFile(note.place)).ready()
        if file is None:
            return None
        try:
            head = note.head(step)
            room = file.jotted(head)
            if room is None:
                room = await asyncio.to_thread(file.noted, head)
        except OSError:
            return None
        self._rooms[note.attempt].append((file, room))
        return file, room

    async def keep(self, note: Note, begun: Room, record: bytes) -> bool:
        """Whether `record` is in the file now. It goes to the disk a moment later, unless it is done with by then."""
        file, room = begun
        try:
            if fits(record, room):
                file.put(room, record)
                asyncio.get_running_loop().call_later(SOON_S, self._sync_unless_done, note.attempt, file)
            else:
                longer = await asyncio.to_thread(file.noted, record)
                self._rooms[note.attempt].append((file, longer))
                file.erase(room)
        except OSError:
            return False
        return True

    def drop(self, note: Note, begun: Room) -> None:
        """There is nothing to note of this call."""
        self._rooms[note.attempt].remove(begun)
        if not self._rooms[note.attempt]:
            del self._rooms[note.attempt]
        _free(*begun)

    def done(self, attempt: str) -> None:
        """What was noted of it is in the database, or of no use."""
        for file, room in self._rooms.pop(attempt, []):
            _free(file, room)

    async def close(self) -> None:
        """Files without notes are removed; the others are for whoever comes next."""
        for attempt, rooms in self._rooms.items():
            for file, _ in rooms:
                self._sync_unless_done(attempt, file)
        await asyncio.gather(*self._syncs, return_exceptions=True)
        for own in self._own.values():
            own.close()

    def _sync_unless_done(self, attempt: str, file: SlotFile) -> None:
        """As a rule the database has it by now, on the disk."""
        if attempt not in self._rooms:
            return
        syncing = asyncio.get_running_loop().run_in_executor(None, file.sync)
        self._syncs.add(syncing)
        syncing.add_done_callback(self._syncs.discard)


def _free(file: SlotFile, room: range) -> None:
    try:
        file.erase(room)
    except OSError:
        return  # it stays taken, and whoever finds it finds it of no use
    file.give_back(room)
