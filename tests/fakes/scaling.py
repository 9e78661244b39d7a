"""Whether work grows no faster than its input: measured in CPU time, and compared within one run only."""

import gc
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Final

LINEAR: Final = 4.0  # from n to 4 n
MOST: Final = 2.2 * LINEAR  # n log n and noise pass; n² gives 16
PLAIN: Final = 1.5 * LINEAR  # so little growth at the first look needs no second one
CUBED: Final = LINEAR**3 / 2  # growth by the third power, to twice the reference
_LETTER: Final = re.compile(r"[^\W\d]")


@cache
def reference_s(size: int) -> float:
    """CPU seconds for a plain linear pass over `size` characters."""
    text = "ab" * (size // 2 + 1)
    return cpu_s(lambda: _LETTER.subn("c", text))


def cpu_s(work: Callable[[], object], *, times: int = 3) -> float:
    """The least of `times` measurements."""
    least = float("inf")
    collects = gc.isenabled()
    gc.disable()  # what else is in memory would count, too
    try:
        for _ in range(times):
            began = time.thread_time()
            work()
            least = min(least, time.thread_time() - began)
    finally:
        if collects:
            gc.enable()
    return least


def assert_linear(work: Callable[[int], Callable[[], object]], limit: int) -> None:
    """`work(n)` returns what to measure on an input of about `n` characters; `limit` is the most that may arrive.

    Work at the limit that costs less than the reference pass over it is fine, however it grows.
    """
    small = cpu_s(work(limit // 4), times=1)
    if small > 40 * LINEAR * reference_s(limit):  # it need not be measured at the limit
        raise AssertionError(f"{limit // 4} characters cost {small:.3f} s of CPU time")
    if small <= reference_s(limit) / CUBED:
        return  # even the third power of it would be fine at the limit
    large = cpu_s(work(limit), times=1)
    if large <= 2 * reference_s(limit) or large <= PLAIN * small:
        return
    small, large = cpu_s(work(limit // 4)), cpu_s(work(limit))
    assert large <= MOST * small, f"{limit // 4} characters cost {small:.4f} s of CPU time, {limit} cost {large:.4f} s"
