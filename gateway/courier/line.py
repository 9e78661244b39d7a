"""A line to one courier: errands given, and what came of each; kept until the last of them is over."""

import asyncio
import itertools
import subprocess
from contextlib import suppress
from typing import Final

from gateway.courier.errand import Brought, Errand, framed, received
from gateway.egress.errors import EgressError

LATE_S: Final = 1.5  # after the time that an errand has: it began a moment later, and its answer has to get here
END_S: Final = 5.0


class CourierLost(EgressError):
    """Nobody knows what came of an errand, and whatever its courier notes of it may be all that there is."""


class Line:
    """`up` until the courier is gone or is given nothing more."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.up = True
        self._stalled = False
        self.process = process
        self._writer = writer
        self._awaited: dict[int, asyncio.Future[Brought]] = {}
        self._numbers = itertools.count()
        self._reading = asyncio.create_task(self._read(reader), name="courier")

    @property
    def over(self) -> bool:
        """Whether its courier has ended."""
        return self._reading.done()

    async def ask(self, errand: Errand) -> Brought:
        """What came of it. Raises CourierLost."""
        if not self.up:
            raise CourierLost("unreachable", "the process that should have asked it has ended.", sent=False)
        number = next(self._numbers)
        future: asyncio.Future[Brought] = asyncio.get_running_loop().create_future()
        self._awaited[number] = future
        self._writer.write(framed({"id": number, "errand": errand.as_json()}))
        try:
            await asyncio.wait({future}, timeout=errand.timeout_s)
            if not future.done():  # twice, since after a stall of this loop the answer may lie here and be unread
                await asyncio.wait({future}, timeout=LATE_S)
            if future.done():
                return future.result()
            self.up, self._stalled = False, True
            raise CourierLost("timeout", f"no answer within {errand.timeout_s:g} s.")
        finally:
            del self._awaited[number]
            if not self.up and not self._awaited:
                self._writer.close()

    def done(self, attempt: str) -> None:
        """What was noted of that attempt need be kept no longer."""
        if not self._writer.is_closing():
            self._writer.write(framed({"done": attempt}))

    async def close(self) -> None:
        """It ends with what it has begun, and is not waited for longer than a moment."""
        self.up = False
        await closed(self._writer)
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while (told := await received(reader)) is not None:
                future = self._awaited.get(told["id"])
                if future is not None and not future.done():
                    future.set_result(Brought.of_json(told))
        finally:
            self.up = False
            self._writer.close()
            for future in self._awaited.values():
                if not future.done():
                    future.set_exception(
                        CourierLost("unreachable", "the courier, our process that asked it, has ended.")
                    )
        await asyncio.to_thread(self._reaped)

    def _reaped(self) -> None:
        """One that is still at an errand is left to it, unless that should have been over long ago."""
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            if self._stalled:
                self.process.kill()
                self.process.wait()


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
