"""The disk is full: calls continue from memory. Writes get 503 within their time limit until there is space again."""

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.fakes.gateways import SECRET_KEY
from tests.fakes.load import Upstream
from tests.fakes.processes import CONNECTION, Files, ServingProcess, serving
from tests.selftest.trial_result import TrialResult

REFUSED_S: Final = 20.0
RECOVERED_S: Final = 20.0
LIMIT_S: Final = 30.0
DISK_BYTES: Final = 8 << 20


class Disk:
    """A disk of limited size. `fill` uses up its space, `free` releases it."""

    def __init__(
        self, kind: str, fill: Callable[[ServingProcess], None], free: Callable[[ServingProcess], None]
    ) -> None:
        self.kind, self.fill, self.free = kind, fill, free


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """Mount a small file system at `folder` if the user can mount. Otherwise limit the size of files."""
    mounted = os.geteuid() == 0 and _mount(folder)
    ballast = folder / "ballast"

    def fill(_: ServingProcess) -> None:
        with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def limit(process: ServingProcess) -> None:
        largest = max(file.stat().st_size for file in folder.glob("gateway.db*"))
        for pid in (process.process.pid, *process.workers()):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))

    def remove_limit(process: ServingProcess) -> None:
        infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        for pid in (process.process.pid, *process.workers()):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, infinite)

    try:
        if mounted:
            yield Disk("full disk (tmpfs)", fill, lambda _: ballast.unlink())
        else:
            yield Disk("full disk (file size limit)", limit, remove_limit)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "tmpfs", str(folder)]
    with contextlib.suppress(FileNotFoundError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


async def full_disk(folder: Path) -> TrialResult:
    """Run a gateway on a small disk, with one connection in use. Fill the disk, then free it."""
    with small_disk(folder) as disk:
        async with Upstream().serving() as upstream, serving(Files(folder, upstream.port)) as process:
            await process.connect()
            async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {SECRET_KEY}"}) as http:
                calls = [await _call(http, process.port)]
                disk.fill(process)
                refused, full, slowest = 201, None, 0.0
                end = time.monotonic() + LIMIT_S
                # Continue until the free space within the files is used up. After the first refused import, a small
                # write of the call log can still fit. `/ready` reports the result of the last write.
                while (refused != 503 or full != "full") and time.monotonic() < end:
                    began = time.monotonic()
                    refused = await _import(http, process.port)
                    slowest = max(slowest, time.monotonic() - began)
                    full = await _ready(http, process.port)
                calls += [await _call(http, process.port) for _ in range(50)]
                disk.free(process)
                began, recovered = time.monotonic(), 0
                while recovered != 201 and time.monotonic() - began < LIMIT_S:
                    recovered = await _import(http, process.port)
                recovered_s = time.monotonic() - began
                free = await _ready(http, process.port)
                calls.append(await _call(http, process.port))
    failed = sum(status != 200 for status in calls)
    result = (
        f"{failed} of {len(calls)} calls failed; writes {refused} within {slowest:.1f} s; /ready {full}; "
        f"recovered in {recovered_s:.1f} s, /ready {free}"
    )
    states = (failed, refused, recovered, full, free) == (0, 503, 201, "full", None)
    fine = states and slowest < REFUSED_S + 1 and recovered_s < RECOVERED_S
    return TrialResult(disk.kind, result, failed, fine)


async def _call(http: aiohttp.ClientSession, port: int) -> int:
    async with http.get(f"http://127.0.0.1:{port}/proxy/short", headers=CONNECTION) as response:
        await response.read()
        return response.status


async def _ready(http: aiohttp.ClientSession, port: int) -> object:
    """Return the state of the store according to `/ready`."""
    async with http.get(f"http://127.0.0.1:{port}/ready") as response:
        return (await response.json()).get("store")


async def _import(http: aiohttp.ClientSession, port: int) -> int:
    credentials = {"type": "API_KEY", "apiKey": "k" * 20}
    body: dict[str, Any] = {
        "provider_config_key": "up",
        "connection_id": f"c{time.monotonic_ns()}",
        "credentials": credentials,
    }
    body["metadata"] = {"bulk": "x" * 20_000}
    async with http.post(f"http://127.0.0.1:{port}/connections", json=body) as response:
        return response.status
