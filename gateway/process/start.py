"""How `gateway serve` starts: the first worker at once, and while that loads, what the parent needs."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ENDING: Final = (signal.SIGTERM, signal.SIGINT)
ROOT: Final = Path(__file__).parents[2]
WORKER = ("-P", "-m", "gateway.cli.worker")  # what a worker's interpreter is given, before its channel's descriptor


@dataclass(slots=True)
class Started:
    """A worker process and our end of its channel."""

    pid: int
    sock: socket.socket
    process: "subprocess.Popen[bytes]" = field(repr=False)


def spawn(descriptors: Sequence[int]) -> Started:
    """A worker with `descriptors` open, under the same numbers. Raises OSError.

    In a process group of its own: Ctrl-C on a terminal is for the parent, which passes it on once.
    """
    ours, its = socket.socketpair()
    with its:
        # Modules are found where ours are.
        paths = (str(ROOT), *(str(Path(path).absolute()) for path in sys.path if path))
        process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
            [sys.executable, *WORKER, str(its.fileno())],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
            pass_fds=[its.fileno(), *descriptors],
            process_group=0,
        )
    process.returncode = 0  # so that it is reaped by the parent alone, and not by this object too
    return Started(process.pid, ours, process)


def serve(file: Path, *, as_json: bool) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    # A reload that is requested during the start waits until somebody can act on it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from gateway.process.shared_memory import SharedMemory

    memory = SharedMemory()
    first = spawn(memory.descriptors)
    # So does an end: ended by the signal itself, the parent would leave a worker behind that goes on starting.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    from gateway.startup.imports import stay_small

    stay_small()
    from gateway.process.parent import run

    return run(first, memory, str(file), as_json=as_json)
