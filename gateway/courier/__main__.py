"""``python -m gateway.courier FD``: started by a gateway, with one end of a socket pair as its descriptor FD."""

import sys

from gateway.lean import stay_small

stay_small()

import asyncio  # noqa: E402
import socket  # noqa: E402

from gateway.courier.round import serve  # noqa: E402
from gateway.hardening import harden  # noqa: E402

if __name__ == "__main__":
    harden()
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))
