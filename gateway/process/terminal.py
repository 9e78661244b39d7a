"""The terminal that stderr is on, if it is on one: closing it sends SIGHUP too, and is no wish to reload."""

import os
import sys


class Terminal:
    """As it is when this is made."""

    def __init__(self) -> None:
        self._was_there = sys.stderr.isatty()

    def gone(self) -> bool:
        """Whether it has been closed since."""
        if self._was_there:
            try:
                os.tcgetpgrp(sys.stderr.fileno())
            except OSError:
                return True
        return False
