"""Starts a process of the demo, waits until the process is ready, watches it and stops it."""

import asyncio
import contextlib
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Final

from gateway.cli.demo import DemoFailed

START_LIMIT_S: Final = 45
STOP_LIMIT_S: Final = 8
_LAST_LINES: Final = 6
_READY_LINE = re.compile(rb"^\w+ ready on (http://\S+)\r?$", re.MULTILINE)


class Child:
    """A child process that runs a module; created by `start_child`. `log`: the file with the process's output."""

    def __init__(self, name: str, log: Path, process: Process, log_file: IO[bytes]) -> None:
        self.name = name
        self._log = log
        self._process = process
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._copy_task = asyncio.create_task(self._copy_output(log_file))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait_until_ready(self) -> str:
        """Wait until the process listens, and return the URL that the process prints then.

        Raises DemoFailed if the process is not ready in time. If the process has ended, the error has the last lines of
        the log.
        """
        process_end = asyncio.create_task(self._process.wait())
        awaited_futures: set[asyncio.Future[Any]] = {self._ready, process_end}
        try:
            await asyncio.wait(awaited_futures, timeout=START_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            process_end.cancel()
        if self._ready.done():
            return self._ready.result()
        if self._process.returncode is not None:
            raise await self.wait_for_end()
        raise DemoFailed(f"the {self.name} was not ready within {START_LIMIT_S} s; see {self._log}")

    async def wait_for_end(self) -> DemoFailed:
        """Wait until the process ends. Return an error with the last lines of its log."""
        code = await self._process.wait()
        await asyncio.wait({self._copy_task}, timeout=1)
        end_text = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return DemoFailed(
            "\n".join([f"the {self.name} ended ({end_text}); its log is {self._log}:", *self._last_lines()])
        )

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process has not ended after `STOP_LIMIT_S`."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_LIMIT_S)
        finally:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            self._ready.cancel()
            await asyncio.wait({self._copy_task}, timeout=1)
            self._copy_task.cancel()

    async def _copy_output(self, log_file: IO[bytes]) -> None:
        """Copy stdout to the log, and find the line that says that the process is ready.

        Without copying, a full pipe would block the process.
        """
        output, received = self._process.stdout, b""
        assert output is not None
        while piece := await output.read(65536):
            log_file.write(piece)
            log_file.flush()
            if not self._ready.done():
                received += piece
                if match := _READY_LINE.search(received):
                    self._ready.set_result(match[1].decode())

    def _last_lines(self) -> list[str]:
        lines = self._log.read_text(errors="replace").splitlines()
        return [f"  {line}" for line in lines if line.strip()][-_LAST_LINES:] or ["  (no output)"]


@asynccontextmanager
async def start_child(
    name: str, module: str, *arguments: str, log: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """Run ``python -m module`` as a child process.

    The child is stopped at the end of the block. If this process ends in another way, the child ends too.
    """
    command = [sys.executable, "-P", "-m", "gateway.cli.demo.follow", str(os.getpid()), module, *arguments]
    with _new_log(log) as log_file:
        # In a new session, the child does not receive Ctrl-C: only this process does, and stops its children in order.
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=log_file,
            env={**os.environ, **(environ or {})},
            start_new_session=True,
            umask=0o077,
        )
        child = Child(name, log, process, log_file)
        try:
            yield child
        finally:
            await child.stop()


def _new_log(log: Path) -> IO[bytes]:
    """Open an empty log that only its owner can read. The log of the previous run gets the suffix ``.1``."""
    with contextlib.suppress(FileNotFoundError):
        log.replace(log.with_name(log.name + ".1"))
    return os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
