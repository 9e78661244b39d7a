"""Reports resources that a test leaves open as an error of that test, and never of another one.

An unclosed transport, file or process causes a warning when the garbage collector finds it, which may be many tests
later. So unreachable objects are collected at the end of each test. After a failed test they are only discarded, since
the test stopped before it could close its resources.

The cost of a collection depends on the number of objects that it traverses. So nothing may keep references to what a
test has used: neither pytest, which keeps the fixtures' values a little longer, nor aiohttp, which caches the handlers
of 1024 applications.
"""

import gc
import sys
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from aiohttp import web_app

MAX_TRAVERSED: Final = 2_000  # objects that each collection may traverse; if more have survived, they are frozen

THRESHOLDS: Final = (10_000, 20, 20)  # of the collections within a test, as in a gateway that serves

MAX_FROZEN: Final = 5_000_000  # number of frozen objects after which all are traversed again, which takes 2 s

_frozen = 0
_failed = pytest.StashKey[bool]()
_failed_loops: Final = set[str]()  # loops, by the name that `_loop` gives them, in which a test has failed


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collection creates hundreds of thousands of permanent objects. Traversing them again and again frees none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)  # each test ends with a collection, so few are needed before
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_failed] = report.failed or item.stash.get(_failed, False)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    result = yield
    getattr(item, "funcargs", {}).clear()
    web_app._cached_build_middleware.cache_clear()
    if not item.stash.get(_failed, False) and (found := collect_warnings()) and _loop(item) not in _failed_loops:
        pytest.fail(f"the test left resources open:\n{found}", pytrace=False)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    result = yield
    if item.stash.get(_failed, False):
        _failed_loops.add(_loop(item))
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):  # these refer to the frames of the test
            if hasattr(sys, name):
                delattr(sys, name)
        collect_warnings()
    return result


def _loop(item: pytest.Item) -> str:
    """Return a name for the loop that the test shares with others. Tasks of a failed test may still run there."""
    marker = item.get_closest_marker("asyncio")
    scope = marker.kwargs.get("loop_scope") if marker else None
    return {None: item.nodeid, "module": item.nodeid.partition("::")[0]}.get(scope, str(scope))


def collect_warnings() -> str:
    """Collect unreachable objects. Return the warnings and the errors of finalizers, one per line."""
    with _recorded_warnings() as found:
        gc.collect()
    if (alive := len(gc.get_objects())) > MAX_TRAVERSED:
        _freeze(alive)
    return "\n".join(found)


def _freeze(alive: int) -> None:
    """Exclude the surviving objects from future collections. After MAX_FROZEN objects, free the unreachable ones."""
    global _frozen
    if _frozen > MAX_FROZEN:
        gc.unfreeze()
        with _recorded_warnings():  # which test left these objects is no longer known
            gc.collect()
        _frozen = 0
    gc.freeze()
    _frozen += alive


@contextmanager
def _recorded_warnings() -> Iterator[list[str]]:
    found = list[str]()
    hook = sys.unraisablehook
    sys.unraisablehook = lambda error: found.append(
        f"{error.err_msg or 'raised in'} {error.object!r}: {error.exc_value!r}"
    )
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield found
        found += [f"{warning.category.__name__}: {warning.message}" for warning in warned]
    finally:
        sys.unraisablehook = hook
