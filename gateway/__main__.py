"""The command ``gateway``, also as ``python -m gateway``."""

import errno
import signal
import sys


def main() -> None:
    """Run the command.

    Ctrl-C ends the process without a traceback, even while the command's modules are imported. So does an output that
    cannot be written, for example because the disk is full.
    """
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # false under nohup, for example
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gateway.startup.collector import collect_rarely

    collect_rarely()  # before imports, which create most of a command's objects
    from gateway.cli import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    except OSError as fault:
        if fault.errno != errno.ENOSPC or fault.filename is not None:
            raise
        sys.stderr.write(
            f"gateway: the output cannot be written: {fault.strerror}. Redirect the output to another place.\n"
        )
        from gateway.cli.terminal import drop_output

        drop_output()
        sys.exit(1)


if __name__ == "__main__":
    main()
