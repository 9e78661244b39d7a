"""Reads CPU time, memory and number of the processes of one session from /proc.

Each server runs in its own session. So its workers are counted too, no matter how the server starts them.
"""

import os
import re
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
# positions of the fields in /proc/PID/stat, counted after the closing bracket of the command
_SESSION, _UTIME, _STIME = 3, 11, 12


def members(session: int) -> list[int]:
    """Return the process IDs of a session."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields and int(fields[_SESSION]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def cpu_s(pids: list[int]) -> float:
    """Return the user and system time of all processes of the session so far, in seconds. The resolution is 10 ms."""
    ticks = 0
    for pid in pids:
        if fields := _stat(pid):
            ticks += int(fields[_UTIME]) + int(fields[_STIME])
    return ticks / TICKS_A_SECOND


def rss_mib(pids: list[int]) -> float:
    """Return the resident memory in MiB. Memory that several processes share is counted for each of them."""
    return sum(_status_kib(pid, "VmRSS") for pid in pids) / 1024


def forget_peak(pids: list[int]) -> None:
    """Reset the peak of resident memory (proc(5), clear_refs)."""
    for pid in pids:
        (PROC / str(pid) / "clear_refs").write_text("5")


def peak_mib(pids: list[int]) -> float:
    """Return the peak of resident memory since `forget_peak`, in MiB."""
    return sum(_status_kib(pid, "VmHWM") for pid in pids) / 1024


def machine() -> str:
    """Return processor, cores and kernel in one line, without host names or paths."""
    match = re.search(r"^model name\s*:\s*(.*)$", (PROC / "cpuinfo").read_text(), re.MULTILINE)
    release = re.match(r"[\d.]*\d", os.uname().release)
    cores = len(os.sched_getaffinity(0))
    return f"{match[1].strip() if match else os.uname().machine}, {cores} cores, Linux {release[0] if release else ''}"


def _stat(pid: int) -> list[str]:
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _status_kib(pid: int, name: str) -> int:
    try:
        found = re.search(rf"^{name}:\s*(\d+) kB$", (PROC / str(pid) / "status").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) if found else 0
