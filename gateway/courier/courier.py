"""The gateway's end: a courier started when it is first needed, and done without where none is to be had."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import structlog

from gateway import clock
from gateway.courier.errand import RELEASE, Brought, Errand, received
from gateway.courier.line import Line, closed

START_S: Final = 5.0
START_AGAIN_S: Final = 60.0
SYSTEM: Final = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH"}
TRUST: Final = {"SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "OPENSSL_MODULES"}
HANDED_ON: Final = SYSTEM | TRUST
EFFECT: Final = "tokens are refreshed without it; a gateway that is killed during a refresh may lose that token"
ROOT: Final = Path(__file__).parents[2]

log = structlog.get_logger(__name__)


class Courier:
    """Of one gateway process. `command` is what is started, with the number of a descriptor behind it."""

    def __init__(self, command: tuple[str, ...] = (sys.executable, "-P", "-m", "gateway.courier")) -> None:
        self._command = command
        self._line: Line | None = None
        self._former: list[Line] = []
        self._starting = asyncio.Lock()
        self._not_before = 0.0
        self._failed = False

    @property
    def running(self) -> int:
        """How many processes: one, or more where an earlier one still finishes what it has begun."""
        lines = (*self._former, *filter(None, [self._line]))
        return sum(not line.over for line in lines)

    @property
    def missing(self) -> bool:
        """Whether one was needed and could not be started the last time that it was tried."""
        return self._failed

    async def ready(self) -> bool:
        """Whether there is one to send; started where there is none yet."""
        return await self._started() is not None

    async def ask(self, errand: Errand) -> tuple[Line, Brought] | None:
        """What came of it, and who is to be told that it is done with; None where there is no courier to be had.

        Raises CourierLost.
        """
        line = await self._started()
        return None if line is None else (line, await line.ask(errand))

    async def close(self) -> None:
        for line in (*self._former, *filter(None, [self._line])):
            await line.close()
        self._line, self._former = None, []

    async def _started(self) -> Line | None:
        if self._line is not None and self._line.up:
            return self._line
        async with self._starting:
            if self._line is not None and not self._line.up:
                log.warning("courier_ended", effect="the next token call starts another")
                self._former = [line for line in (*self._former, self._line) if not line.over]
                self._line = None
            if self._line is None and clock.monotonic() >= self._not_before:
                try:
                    self._line = await self._start()
                    self._failed = False
                except (OSError, TimeoutError) as fault:
                    self._not_before = clock.monotonic() + START_AGAIN_S
                    self._failed = True
                    reason = str(fault) or f"it was not ready within {START_S:g} s"
                    log.error("courier_not_started", detail=reason, effect=EFFECT)
            return self._line

    async def _start(self) -> Line:
        """Raises OSError and TimeoutError."""
        ours, its = socket.socketpair()
        try:
            with its:  # not in a thread: it takes a millisecond or two, once, and cannot be cancelled half-way
                process = self._spawned(its.fileno())
        except BaseException:
            ours.close()
            raise
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            async with asyncio.timeout(START_S):
                told = await received(reader)
            if told is None:
                raise OSError(f"it has ended with exit code {await asyncio.to_thread(process.wait)}")
            if told != {"ready": RELEASE}:
                raise OSError("the files of the gateway are another release's by now: start it anew")
        except BaseException:
            process.kill()
            await closed(writer)
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
        paths = (
            str(ROOT),
            *(str(Path(path).absolute()) for path in sys.path if path),
        )  # modules are found where ours are
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
