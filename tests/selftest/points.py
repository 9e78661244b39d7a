"""``python -m tests.selftest.points POINT serve …``: the gateway's command line whose first worker kills itself at POINT.

SIGKILL, so that nothing is tidied up. Leases are short, so that nobody waits half a minute for them to run out. With OFTEN
the test kills, and the parent replaces workers at once, however short they live.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

LEASE: Final = timedelta(seconds=1.5)
POINTS: Final = (
    "before the claim",
    "after the intent",
    "answer in memory",
    "before the commit",
    "inside the commit",
    "after the commit",
    "never",
)
OFTEN: Final = "often"


def shorten() -> None:
    """Short leases and pauses in this process."""
    from gateway.refresh import backoff, protocol, recovery, save_tokens
    from gateway.store import journal_recovery

    protocol.LEASE = save_tokens.LEASE = save_tokens.LEASE = LEASE  # type: ignore[misc]
    save_tokens.BEAT_S = LEASE.total_seconds() / 3  # type: ignore[misc]
    backoff.FIRST = timedelta(seconds=0.5)  # type: ignore[misc]
    recovery.EVERY_S = 0.1  # type: ignore[misc]
    journal_recovery.WAIT_S = 3.0  # type: ignore[misc]


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    """Put the kill in its place."""
    from gateway.refresh import protocol
    from gateway.refresh.auth_exchange import Attempt
    from gateway.store import refreshes
    from gateway.store.refreshes import RefreshStore

    def after(name: str, of: Any = RefreshStore) -> Callable[..., Any]:
        did = getattr(of, name)

        async def then_die(*args: Any, **options: Any) -> Any:
            await did(*args, **options)
            die()

        return then_die

    if point == "before the claim":
        RefreshStore.lease_refresh = die  # type: ignore[method-assign]
    elif point == "after the intent":
        RefreshStore.lease_refresh = after("lease_refresh")  # type: ignore[method-assign]
    elif point == "answer in memory":
        Attempt.ask = after("ask", Attempt)  # type: ignore[method-assign]
    elif point == "before the commit":
        protocol.commit = die
    elif point == "inside the commit":
        refreshes.note_change = die  # type: ignore[attr-defined]
    elif point == "after the commit":
        RefreshStore.save_refreshed = after("save_refreshed")  # type: ignore[method-assign]


def arm_first_worker(point: str) -> None:
    """In the parent: its first worker is armed, and who replaces that is not."""
    from gateway.process import start

    spawn, points = start.spawn, [point]

    def spawned(descriptors: Sequence[int]) -> start.Started:
        start.WORKER = ("-m", "tests.selftest.points", points.pop() if points else "never", "worker")
        return spawn(descriptors)

    start.spawn = spawned


def replace_at_once() -> None:
    """In the parent: no pause before a replacement, no end after many short lives, and `worker_serves` in the log."""
    from gateway.process import workers
    from gateway.process.parent import Parent, log

    workers.SHORT_LIFE_S = 0.0  # type: ignore[misc]
    serves = Parent._serves

    def logged(parent: Parent, worker: workers.WorkerProcess, message: Any) -> None:
        serves(parent, worker, message)
        log.info("worker_serves", pid=worker.pid)

    Parent._serves = logged  # type: ignore[method-assign]


if __name__ == "__main__":
    if sys.argv[2] == "worker":
        from gateway.cli.worker import main as work

        shorten()
        arm(sys.argv[1])
        sys.exit(work(int(sys.argv[3])))
    from gateway.cli import main

    arm_first_worker(sys.argv[1])
    if sys.argv[1] == OFTEN:
        replace_at_once()
    sys.argv = ["gateway", *sys.argv[2:]]
    main()
