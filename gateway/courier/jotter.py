"""The courier's file of notes: that a call is under way, then what was answered, each in the same room."""

import asyncio
from collections import defaultdict
from pathlib import Path

from gateway.store.notes import Note
from gateway.store.slot_file import SlotFile, fits


class Jotter:
    """One file for each place that is named. Rooms stay taken until their attempt is `done`."""

    def __init__(self) -> None:
        self._files: dict[Path, SlotFile] = {}
        self._rooms: dict[str, list[tuple[SlotFile, range]]] = defaultdict(list)
        self._opening = asyncio.Lock()
        self._syncs = set[asyncio.Future[None]]()

    async def begin(self, note: Note, step: int) -> range | None:
        """Room in which it says that the call is under way; None where nothing can be noted."""
        try:
            file = await self._file(note.place)
            head = note.head(step)
            room = file.jotted(head)
            if room is None:
                room = await asyncio.to_thread(file.noted, head)
        except OSError:
            return None
        self._rooms[note.attempt].append((file, room))
        return room

    async def keep(self, note: Note, room: range, record: bytes) -> bool:
        """Whether `record` is in the file now; it is on its way to the disk then."""
        file = self._files[note.place]
        try:
            if fits(record, room):
                file.put(room, record)
                self._sync(file)
            else:
                longer = await asyncio.to_thread(file.noted, record)
                self._rooms[note.attempt].append((file, longer))
                file.erase(room)
        except OSError:
            return False
        return True

    def drop(self, note: Note, room: range) -> None:
        """There is nothing to note of this call."""
        self._rooms[note.attempt].remove((self._files[note.place], room))
        _free(self._files[note.place], room)

    def done(self, attempt: str) -> None:
        """What was noted of it is in the database, or of no use."""
        for file, room in self._rooms.pop(attempt, []):
            _free(file, room)

    async def close(self) -> None:
        """Files without notes are removed; the others are for whoever comes next."""
        await asyncio.gather(*self._syncs, return_exceptions=True)
        for file in self._files.values():
            file.close()

    async def _file(self, place: Path) -> SlotFile:
        async with self._opening:
            file = self._files.get(place)
            if file is None:
                file = self._files[place] = await asyncio.to_thread(SlotFile, place)
            return file

    def _sync(self, file: SlotFile) -> None:
        syncing = asyncio.get_running_loop().run_in_executor(None, file.sync)
        self._syncs.add(syncing)
        syncing.add_done_callback(self._syncs.discard)


def _free(file: SlotFile, room: range) -> None:
    try:
        file.erase(room)
    except OSError:
        return  # it stays taken, and whoever finds it finds it of no use
    file.give_back(room)
