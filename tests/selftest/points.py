"""``python -m tests.selftest.points HOW serve …``: ``gateway serve …`` whose workers kill themselves at a given point.

They use SIGKILL, so that nothing is cleaned up. Leases are short, so that they expire without a wait of half a minute.
HOW is `usual` or `often`. With `often`, the parent replaces a worker immediately, no matter how briefly it ran.
"""

import os
import signal
import sqlite3
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

LEASE: Final = timedelta(seconds=1.5)
POINTS: Final = (
    "before the claim",
    "after the intent",
    "response in memory",
    "before the commit",
    "inside the commit",
    "after the commit",
)
USUAL: Final = "usual"
OFTEN: Final = "often"
ORDER: Final = "die-at"  # name of the file that contains the point


def shorten() -> None:
    """Shorten leases and pauses in this process."""
    from gateway.refresh import backoff, protocol, recovery, save_tokens
    from gateway.store import journal_recovery

    protocol.LEASE = save_tokens.LEASE = LEASE  # type: ignore[misc,attr-defined]
    save_tokens.RENEW_EVERY_S = LEASE.total_seconds() / 3  # type: ignore[misc]
    backoff.FIRST_WAIT = timedelta(seconds=0.5)  # type: ignore[misc]
    recovery.EVERY_S = 0.1  # type: ignore[misc]
    journal_recovery.WAIT_S = 3.0  # type: ignore[misc]


def order(point: str, folder: Path) -> None:
    """Write an order: the next worker of the gateway in `folder` that reaches `point` kills itself there."""
    (folder / ORDER).write_text(point)


def die_if_ordered(point: str) -> None:
    order = Path(os.environ["TMPDIR"], ORDER)
    if order.exists() and order.read_text() == point:
        order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def arm() -> None:
    """Install the kill points."""
    from gateway.refresh import protocol
    from gateway.refresh.auth_exchange import Attempt
    from gateway.store.refreshes import RefreshStore
    from gateway.store.sqlite import sqlite_driver

    def wrap(owner: Any, name: str, *, before: str = "", after: str = "") -> None:
        function = getattr(owner, name)

        async def or_die(*args: Any, **options: Any) -> Any:
            if before:
                die_if_ordered(before)
            result = await function(*args, **options)
            if after:
                die_if_ordered(after)
            return result

        setattr(owner, name, or_die)

    wrap(RefreshStore, "lease_refresh", before="before the claim", after="after the intent")
    wrap(Attempt, "send", after="response in memory")
    wrap(protocol, "commit", before="before the commit")
    wrap(RefreshStore, "save_refreshed", after="after the commit")
    run = sqlite_driver.run_statements

    def run_or_die(statements: Any, db: sqlite3.Connection) -> Any:
        row = run(statements[:1], db)
        if row is None or len(statements) == 1:
            return row
        die_if_ordered("inside the commit")  # at this point, the row is written, but its change log entry is not
        return run(statements[1:], db)

    sqlite_driver.run_statements = run_or_die


def arm_workers() -> None:
    """Make the parent start workers with kill points."""
    from gateway.process import start

    start.WORKER_ARGUMENTS = ("-m", "tests.selftest.points", "worker")


def replace_at_once() -> None:
    """Make the parent replace workers without a pause or a limit, and log `worker_serves`."""
    from gateway.process import workers
    from gateway.process.parent import Parent, log

    workers.SHORT_LIFE_S = 0.0  # type: ignore[misc]
    serves = Parent._worker_is_ready

    def logged(parent: Parent, worker: workers.WorkerProcess, message: Any) -> None:
        serves(parent, worker, message)
        log.info("worker_serves", pid=worker.pid)

    Parent._worker_is_ready = logged  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        from gateway.startup.imports import skip_unused_modules
        from gateway.worker import main as work

        skip_unused_modules()
        shorten()
        arm()
        sys.exit(work(int(sys.argv[2])))
    from gateway.cli import main
    from gateway.startup.imports import skip_client_modules

    arm_workers()
    if sys.argv[1] == OFTEN:
        skip_client_modules()
        replace_at_once()
    sys.argv = ["gateway", *sys.argv[2:]]
    main()
