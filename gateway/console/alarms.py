"""Finds faults of the gateway itself. The page Now shows each fault with the action that helps; all other pages show
only the fault."""

import shutil
from typing import Final

from gateway import clock
from gateway.runtime import Runtime

MIN_FREE_BYTES: Final = 1 << 30
MIN_FREE_SHARE: Final = 0.05
MAX_CLOCK_OFFSET_S: Final = 5.0


def store_healthy(runtime: Runtime) -> bool:
    """Return whether the database can be read and written, as far as this process knows."""
    return runtime.live.feed.outage_s is None and not (runtime.store.full or runtime.store.read_only)


def alarms(runtime: Runtime) -> list[dict[str, str]]:
    """Return the faults of this process and its database, each with the action that helps."""
    faults: list[dict[str, str]] = []

    def alarm(message: str, advice: str) -> None:
        faults.append({"what": message, "do": advice})

    outage_s = runtime.live.feed.outage_s
    if outage_s is not None:
        alarm(
            f"The database has been unreachable for {outage_s:.0f} s.",
            "Check that it runs and that this machine can reach it.",
        )
    if not runtime.journal_writable:
        alarm(
            "The refresh journal cannot be written: a process that is killed now may lose a token.",
            "Check the free space and the permissions of its folder: beside the SQLite file, or in STATE_DIRECTORY.",
        )
    offset_s = clock.offset.seconds
    if abs(offset_s) > MAX_CLOCK_OFFSET_S:
        alarm(f"The clock of this machine is {_offset_text(-offset_s)} the database's.", "Synchronize it with NTP.")
    ahead_s = clock.provider_dates.seconds
    if ahead_s:
        alarm(
            f"The clock of this gateway is {_offset_text(-ahead_s)} the clocks of the providers that responded last.",
            "Synchronize this machine and the database's machine with NTP.",
        )
    if runtime.store.full:
        alarm(
            "The database's disk is full: calls with a valid token work, but all writes fail, including token refresh.",
            "Free space on the disk. Writes then resume automatically.",
        )
    if runtime.store.read_only:
        alarm(
            "The database is read-only: calls with a valid token work, but all writes fail, including token refresh.",
            "Make it writable, or connect to the primary server. Writes then resume automatically.",
        )
    if runtime.call_queue.unwritable is not None:
        reason = runtime.call_queue.unwritable.removeprefix("The call log cannot be used: ").rstrip(".")
        alarm(
            f"The call log is not written: {reason}.",
            "Calls still work. The numbers and failures below do not include the newest calls.",
        )
    if runtime.call_queue.dropped:
        alarm(
            f"{runtime.call_queue.dropped:,} rows of the call log were dropped since the start.",
            "Check whether the log's disk is full or slow, or log a sample of the calls (call_log.sample).",
        )
    folder = runtime.store.journal.folder
    # The journal creates its folder only when needed, so the parent folder is checked. A SQLite database is in the
    # parent folder too.
    if folder is not None and folder.parent.exists():
        usage = shutil.disk_usage(folder.parent)
        if usage.free < max(MIN_FREE_SHARE * usage.total, min(MIN_FREE_BYTES, usage.total / 4)):
            alarm(
                f"The disk of {folder.parent} has {usage.free >> 20:,} of {usage.total >> 20:,} MiB free.",
                "Free space on the disk, or lower call_log.max_bytes.",
            )
    return faults


def _offset_text(ahead_s: float) -> str:
    return f"{abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'}"
