"""A client in its own process that measures how long short responses take during expensive requests of other clients.

Run ``python -m tests.fakes.probe PORT``. For each input line, it prints the longest wait since the previous line.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

REQUEST = b"GET /health HTTP/1.1\r\nHost: gw\r\n\r\n"
PAUSE_S = 0.002


async def send_requests(port: int, waits: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        began = time.monotonic()
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        waits.append(time.monotonic() - began)
        await asyncio.sleep(PAUSE_S)


async def run(port: int) -> None:
    waits: list[float] = []
    sending = asyncio.create_task(send_requests(port, waits))
    while await asyncio.to_thread(sys.stdin.readline):
        count = len(waits)
        # also wait for the outstanding request, so that its wait counts
        while len(waits) < count + 2 and not sending.done():
            await asyncio.sleep(PAUSE_S)
        print(max(waits), flush=True)
        waits.clear()
    sending.cancel()


def queued_s(pid: int) -> float:
    """Return how many seconds the threads of a process have waited for a CPU so far, although they could run."""
    found = 0.0
    for file in Path("/proc", str(pid), "task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            found += int(file.read_text().split()[1]) / 1e9
    return found


class Probe:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def longest_s(self) -> float:
        """Return the longest wait since the previous call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        return float(await self._process.stdout.readline())


@asynccontextmanager
async def probing(port: int) -> AsyncIterator[Probe]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.probe", str(port)), stdin=pipe, stdout=pipe
    )
    try:
        yield Probe(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1])))
