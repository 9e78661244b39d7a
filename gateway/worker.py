"""``python -m gateway.worker FD``: a worker process, which `gateway serve` (the parent) starts.

FD is the file descriptor of the worker's end of the channel to the parent. A configuration with faults causes the same
messages and exit code as in `gateway serve`. This module is not in `gateway.cli`, because a worker without faults does
not need click.
"""

import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.startup.collector import collect_rarely, freeze_modules

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.process.handshake import Message


def main(descriptor: int) -> int:
    """Run the worker, and return its exit code. `descriptor`: the file descriptor of the channel to the parent."""
    collect_rarely()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the parent handles SIGHUP and sends a message over the channel
    # The worker has its own process group, outside the terminal's foreground. With `stty tostop`, writing a log line
    # would otherwise stop the worker.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    from gateway.process.handshake import receive_now

    sock = socket.socket(fileno=descriptor)
    try:
        start_message, _ = receive_now(sock)
    except (EOFError, OSError):
        return 0  # the parent has ended
    sys.argv[0] = start_message["program"]
    file = Path(start_message["file"])
    try:
        config = _load_configuration(file, start_message)
        from gateway.startup.imports import skip_unused_modules

        skip_unused_modules()
        # This import comes last, because it is slow, and faults must be reported first.
        from gateway.server.serving_worker import serve

        freeze_modules()
        return serve(config, sock, start_message)
    except Exception:
        from gateway.cli.terminal import exit_on_faults

        with exit_on_faults(start_message["as_json"], file):
            raise


def _load_configuration(file: Path, start_message: "Message") -> "Config | None":
    """Return the configuration in `file`.

    Return None if the worker gets the configuration of the other workers instead. Raises Faults.
    """
    if start_message["start_from"] is not None:
        return None
    from gateway.config import Faults, load

    try:
        config = load(file)
    except Faults as faults:
        from gateway.integrations.declared import all_faults

        raise all_faults(faults) from None
    from gateway.store.preflight import check_database

    # A wrong key is reported here, because the next imports take seconds without Python's bytecode cache.
    check_database(config.store)
    return config


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
