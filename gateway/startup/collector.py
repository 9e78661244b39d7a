"""Keeps the garbage collector away from the objects that a start creates, because almost all of them stay alive.

With Python's default setting, a worker's start would spend a quarter of its CPU time in the collector. Even a single
collection of all imported modules takes 0.1 s, and frees less than 0.1 MiB.
"""

import gc
from typing import Final

START_THRESHOLD: Final = 250_000  # number of new objects before a collection; a worker's modules have 190,000 objects
LATER_THRESHOLD: Final = 50_000  # the same, between the imports of a worker and its first request
USUAL_THRESHOLDS: Final = gc.get_threshold()


def collect_rarely() -> None:
    """Make the collector run so rarely from now on that it does not run while modules are imported.

    A command keeps this setting. A parent process and a sandbox call `collect_as_usual` after their start. A worker
    calls `freeze_modules`, and later sets its own thresholds.
    """
    gc.set_threshold(START_THRESHOLD, *USUAL_THRESHOLDS[1:])


def freeze_modules() -> None:
    """Exempt all present objects from collections, and collect a little more often from now on.

    Call this function when all large modules are imported.
    """
    gc.freeze()
    gc.set_threshold(LATER_THRESHOLD, *USUAL_THRESHOLDS[1:])


def collect_as_usual() -> None:
    """Exempt all present objects from collections, and restore Python's default setting."""
    gc.freeze()
    gc.set_threshold(*USUAL_THRESHOLDS)
