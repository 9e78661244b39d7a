"""Prevents core dumps and debuggers, so that nobody can read secrets in the memory of this process."""

import contextlib
import ctypes
import resource
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def harden() -> None:
    """Prevent core dumps and debuggers. If the system does not allow that, the gateway runs anyway."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(PR_SET_DUMPABLE, 0)


def hide_versions() -> None:
    """Set the header ``Server: gateway`` in all responses. The default shows the versions of aiohttp and Python."""
    from aiohttp import web_response

    web_response.SERVER_SOFTWARE = "gateway"  # type: ignore[attr-defined]  # a test checks that aiohttp reads it here


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
