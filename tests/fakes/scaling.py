"""Measures whether work grows faster than its input. It measures CPU time, and compares only times of the same run."""

import gc
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Final

LINEAR: Final = 4.0  # linear work: 4 times the input costs 4 times as much
MAX_RATIO: Final = 2.2 * LINEAR  # n log n and noise are below this limit; n² gives 16
PLAIN: Final = 1.5 * LINEAR  # below this growth, the first measurement is enough
CUBED: Final = LINEAR**3 / 2  # with cubic growth, below twice the reference
_LETTER: Final = re.compile(r"[^\W\d]")


@cache
def reference_s(size: int) -> float:
    """Return the CPU seconds of a plain linear pass over `size` characters."""
    text = "ab" * (size // 2 + 1)
    return cpu_s(lambda: _LETTER.subn("c", text))


def cpu_s(work: Callable[[], object], *, times: int = 3) -> float:
    """Measure the CPU seconds of `work` `times` times, and return the minimum."""
    least = float("inf")
    collects = gc.isenabled()
    gc.disable()  # garbage collection of other objects would count too
    try:
        for _ in range(times):
            began = time.thread_time()
            work()
            least = min(least, time.thread_time() - began)
    finally:
        if collects:
            gc.enable()
    return least


def linear_fault(work: Callable[[int], Callable[[], object]], limit: int) -> str:
    """Return in which way work grows faster than its input. Return "" if it does not.

    `work(n)` returns the function to measure on about `n` characters. `limit`: the maximum size of the input. Work that
    costs less than two reference passes at the limit is always accepted.
    """
    small = cpu_s(work(limit // 4), times=1)
    if small > 40 * LINEAR * reference_s(limit):  # already too slow, so the limit need not be measured
        return f"{limit // 4} characters cost {small:.3f} s of CPU time"
    if small <= reference_s(limit) / CUBED:
        return ""  # even with cubic growth, the work is fast enough at the limit
    large = cpu_s(work(limit), times=1)
    if large <= 2 * reference_s(limit) or large <= PLAIN * small:
        return ""
    small, large = cpu_s(work(limit // 4)), cpu_s(work(limit))
    if large <= MAX_RATIO * small:
        return ""
    return f"{limit // 4} characters cost {small:.4f} s of CPU time, {limit} cost {large:.4f} s"
