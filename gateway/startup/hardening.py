"""Restricts the process so that the secrets in its memory stay there: no core dumps, no debugger."""

import contextlib
import ctypes
import resource
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def harden() -> None:
    """Restrict the process where the system allows it; a refusal does not stop the gateway."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(PR_SET_DUMPABLE, 0)


def hide_versions() -> None:
    """Make responses say ``Server: gateway``, instead of aiohttp's own and Python's versions."""
    from aiohttp import web_response

    web_response.SERVER_SOFTWARE = "gateway"  # type: ignore[attr-defined]  # a test checks that aiohttp reads it here


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
