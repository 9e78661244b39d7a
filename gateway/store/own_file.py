"""The slot file of this process: made when it is first needed, and made anew where somebody has removed it."""

import asyncio
from pathlib import Path
from typing import Final

import structlog

from gateway import clock
from gateway.store.slot_file import SlotFile

AGAIN_S: Final = 10.0  # where it could not be made
EFFECT: Final = "a process that is killed amid a refresh may lose that token: make room or rights in that folder"

log = structlog.get_logger(__name__)


class OwnFile:
    """`place`: what its name begins with."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._file: SlotFile | None = None
        self._lost: list[SlotFile] = []
        self._opening = asyncio.Lock()  # those that begin together shall have one
        self._not_before = 0.0

    async def ready(self) -> SlotFile | None:
        """None where there is none to be had; that is told in the log."""
        async with self._opening:
            if self._file is not None and self._file.lost:
                log.warning("pairs_file_removed", detail=str(self._file.path), effect="another is made")
                self._lost.append(self._file)
                self._file = None
            if self._file is None and clock.monotonic() >= self._not_before:
                try:
                    self._file = await asyncio.to_thread(SlotFile, self._place)
                except OSError as fault:
                    self._not_before = clock.monotonic() + AGAIN_S
                    log.error("pairs_cannot_be_noted", detail=f"{self._place}: {fault.strerror}", effect=EFFECT)
            return self._file

    def close(self) -> None:
        """What is noted in it and was not given back stays, for whoever comes next."""
        for file in (*self._lost, *filter(None, [self._file])):
            file.close()
        self._file, self._lost = None, []
