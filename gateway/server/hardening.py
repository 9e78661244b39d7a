"""What the process denies itself, so that the secrets in its memory stay there: no core dumps, no debugger."""

import contextlib
import ctypes
import resource
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4  # linux/prctl.h


def harden() -> None:
    """Best effort: a system that refuses is no reason not to serve."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
