"""The gateway's end: the courier started when it is first needed, errands given to it, and done without where it is gone."""

import asyncio
import itertools
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import structlog

from gateway import clock
from gateway.courier.errand import Brought, Errand, framed, received
from gateway.egress.errors import EgressError

START_S: Final = 10.0
LATE_S: Final = 0.5  # after the time that it has for a call
END_S: Final = 5.0
START_AGAIN_S: Final = 60.0
ENDED: Final = "the process that asked it has ended."
SYSTEM: Final = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH"}
TRUST: Final = {"SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "OPENSSL_MODULES"}
HANDED_ON: Final = SYSTEM | TRUST
ROOT: Final = Path(__file__).parents[2]

log = structlog.get_logger(__name__)


class Line:
    """One courier, `up` until it is gone, and what is awaited from it."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.up = True
        self.process = process
        self._writer = writer
        self._awaited: dict[int, asyncio.Future[Brought]] = {}
        self._numbers = itertools.count()
        self._reading = asyncio.create_task(self._read(reader), name="courier")

    async def ask(self, errand: Errand) -> Brought:
        if not self.up:
            raise EgressError("unreachable", ENDED, sent=False)
        number = next(self._numbers)
        future: asyncio.Future[Brought] = asyncio.get_running_loop().create_future()
        self._awaited[number] = future
        try:
            async with asyncio.timeout(errand.timeout_s + LATE_S):
                self._writer.write(framed({"id": number, "errand": errand.as_json()}))
                return await future
        except TimeoutError:
            self.process.kill()  # it stands still; the next one need not wait for it too
            raise EgressError("timeout", f"no answer within {errand.timeout_s:g} s.") from None
        finally:
            del self._awaited[number]

    def done(self, attempt: str) -> None:
        if not self._writer.is_closing():
            self._writer.write(framed({"done": attempt}))

    async def close(self) -> None:
        """It ends with what it has begun; a moment's wait sees to it that it outlives no container it should not."""
        await _closed(self._writer)
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
                    future.set_exception(EgressError("unreachable", ENDED))
        with suppress(subprocess.TimeoutExpired):  # it is still at what it has begun
            await asyncio.to_thread(self.process.wait, END_S)


class Courier:
    """Of one gateway process. `command` is what is started, with the number of a descriptor behind it."""

    def __init__(self, command: tuple[str, ...] = (sys.executable, "-P", "-m", "gateway.courier")) -> None:
        self._command = command
        self._line: Line | None = None
        self._starting = asyncio.Lock()
        self._not_before = 0.0

    async def ready(self) -> bool:
        """Whether there is one to send; started where there is none yet."""
        return await self._started() is not None

    async def ask(self, errand: Errand) -> Brought | None:
        """What came of it; None where there is no courier to be had, and nothing was asked."""
        line = await self._started()
        return None if line is None else await line.ask(errand)

    def done(self, attempt: str) -> None:
        """What it has noted for that attempt need be kept no longer."""
        if self._line is not None:
            self._line.done(attempt)

    async def close(self) -> None:
        if self._line is not None:
            await self._line.close()
            self._line = None

    async def _started(self) -> Line | None:
        if self._line is not None and self._line.up:
            return self._line
        async with self._starting:
            if self._line is not None and not self._line.up:
                self._line = None
                log.warning("courier_ended", effect="the next token call starts another")
            if self._line is None and clock.monotonic() >= self._not_before:
                try:
                    self._line = await self._start()
                except (OSError, TimeoutError) as fault:
                    self._not_before = clock.monotonic() + START_AGAIN_S
                    log.warning("courier_not_started", detail=str(fault), effect="tokens are renewed without it")
            return self._line

    async def _start(self) -> Line:
        """Raises OSError and TimeoutError."""
        ours, its = socket.socketpair()
        with its:
            try:
                process = await asyncio.to_thread(self._spawned, its.fileno())
            except BaseException:
                ours.close()
                raise
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            async with asyncio.timeout(START_S):
                ready: dict[str, Any] | None = await received(reader)
            if ready is None:
                raise OSError(f"it has ended with exit code {await asyncio.to_thread(process.wait)}")
        except BaseException:
            process.kill()
            await _closed(writer)
            await asyncio.to_thread(process.wait)
            raise
        return Line(process, reader, writer)

    def _spawned(self, descriptor: int) -> "subprocess.Popen[bytes]":
        """In a session of its own, so that what ends all of a terminal's or a group's processes does not end it amid a call.

        Nothing of the environment goes along that may be secret, and none of our pipes, which somebody may read to the end.
        """
        handed_on = {
            name: value for name, value in os.environ.items() if name in HANDED_ON or name.startswith("PYTHON")
        }
        paths = (str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]))
        return subprocess.Popen(  # noqa: S603 (our own interpreter and module)
            [*self._command, str(descriptor)],
            cwd="/",
            env={**handed_on, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[descriptor],
            start_new_session=True,
        )


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
