"""Starts `gateway serve`: spawns the first worker immediately, and loads the parent's modules meanwhile."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
ROOT: Final = Path(__file__).parents[2]
# The worker's Python gets these arguments, then the descriptor of its channel.
WORKER_ARGUMENTS = ("-P", "-m", "gateway.worker")


@dataclass(slots=True)
class SpawnedWorker:
    """A worker process, and the parent's end of its channel."""

    pid: int
    sock: socket.socket
    process: "subprocess.Popen[bytes]" = field(repr=False)


def spawn(descriptors: Sequence[int]) -> SpawnedWorker:
    """Start a worker in which `descriptors` are open with the same numbers. Raises OSError.

    The worker has its own process group, so that Ctrl-C on a terminal reaches only the parent. The parent then signals
    each worker once.
    """
    parent_end, worker_end = socket.socketpair()
    with worker_end:
        # The worker imports from the same paths as this process.
        paths = (str(ROOT), *(str(Path(path).absolute()) for path in sys.path if path))
        process = subprocess.Popen(  # noqa: S603 (the gateway's own interpreter and module)
            [sys.executable, *WORKER_ARGUMENTS, str(worker_end.fileno())],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
            pass_fds=[worker_end.fileno(), *descriptors],
            process_group=0,
        )
    process.returncode = 0  # so that only `Workers.reap` waits for the process, not the Popen object
    return SpawnedWorker(process.pid, parent_end, process)


def serve(file: Path, *, as_json: bool) -> int:
    """Run the gateway until SIGTERM or SIGINT, and return the exit code."""
    # A SIGHUP during the start stays pending until the parent can handle it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from gateway.process.shared_memory import SharedMemory

    memory = SharedMemory()
    first_worker = spawn(memory.descriptors)
    # SIGTERM and SIGINT stay pending too. If they killed the parent now, its worker would continue to start.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    from gateway.startup.imports import skip_client_modules

    skip_client_modules()
    from gateway.process.parent import run

    return run(first_worker, memory, str(file), as_json=as_json)
