"""How far long work has come: a bar on stderr where somebody looks, a line now and then where a log does."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

EVERY_S: Final = 5.0

Step = Callable[[int, int], None]  # done, of how many; 0 where that is not known


@contextmanager
def progress(what: str) -> Iterator[Step]:
    """What to call after each piece of `what`, such as ``sealing anew``."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        bar = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(bar, completed=done, total=total or None)


def _lines(what: str) -> Step:
    told_at = time.monotonic()

    def step(done: int, total: int) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at >= EVERY_S:
            told_at = now
            print(f"{what}: {done:,}{f' of {total:,}' if total else ''}", file=sys.stderr, flush=True)

    return step
