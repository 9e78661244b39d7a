"""``python -m gateway.courier FD``: started by a gateway, with one end of a socket pair as its descriptor FD."""

import sys

from gateway.lean import stay_small

stay_small()

import asyncio  # noqa: E402
import contextlib  # noqa: E402
import os  # noqa: E402
import socket  # noqa: E402
from typing import Final  # noqa: E402

from gateway.courier.round import serve  # noqa: E402
from gateway.hardening import harden  # noqa: E402

# Others' calls go first, on a machine whose cores are all busy: most renewals come ahead, when nobody waits for them.
NICER: Final = 10


def yield_to_others() -> None:
    """Best effort: a service manager may forbid it, and that is no reason not to start."""
    with contextlib.suppress(OSError):
        os.nice(NICER)


def loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    """uvloop's loop where it is installed, as a server has it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


if __name__ == "__main__":
    harden()
    yield_to_others()
    with asyncio.Runner(loop_factory=loop_factory()) as running:
        running.run(serve(socket.socket(fileno=int(sys.argv[1]))))
