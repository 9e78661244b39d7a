"""Restricts the process so that the secrets in its memory stay there: no core dumps, no debugger."""

import contextlib
import ctypes
import resource
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def harden() -> None:
    """Best effort: a system that refuses is no reason not to serve."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(PR_SET_DUMPABLE, 0)


def hide_versions() -> None:
    """Answers of this process say ``Server: gateway``, where aiohttp would name itself and Python with their versions."""
    from aiohttp import web_response

    web_response.SERVER_SOFTWARE = "gateway"  # type: ignore[attr-defined]  # a test sees that this is where it stands


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
