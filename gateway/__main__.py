"""The command ``gateway``, also as ``python -m gateway``."""

import signal


def main() -> None:
    """Run the command.

    Ctrl-C ends the process without a traceback, also while the modules of the command are imported.
    """
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # false under nohup, for example
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gateway.cli import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
