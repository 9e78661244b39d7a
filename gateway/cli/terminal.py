"""Output of commands: the program's name, progress, faults in files and the exit code."""

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from gateway.cli.options import is_reference
from gateway.config import Faults
from gateway.errors import StartRefused

# ── The command line of this program, so that printed commands can be pasted.


def program() -> str:
    """Return ``gateway`` if the PATH finds this program under that name, else the program's path.

    The path is relative if the program is below the current folder.
    """
    started = Path(sys.argv[0])
    if started.name != "gateway":
        return f"{shlex.quote(sys.executable)} -m gateway"
    from shutil import which  # imported here: a server prints no commands and does not need it

    found = which("gateway")
    if found and started.exists() and started.samefile(found):
        return "gateway"
    here = started.absolute()
    return shlex.quote(str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here))


# ── Progress of long work on stderr: a bar on a terminal, else a line every `PROGRESS_INTERVAL_S` seconds.

PROGRESS_INTERVAL_S: Final = 5.0

Step = Callable[[int, int], None]  # number done, total; 0 for an unknown total


@contextmanager
def progress(label: str) -> Iterator[Step]:
    """Show the progress of `label`, such as ``sealing again``; yield the function to call after each piece."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(label)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        bar = shown.add_task(label, total=None)
        yield lambda done, total: shown.update(bar, completed=done, total=total or None)


def _lines(label: str) -> Step:
    printed_at = time.monotonic()

    def step(done: int, total: int) -> None:
        nonlocal printed_at
        now = time.monotonic()
        if now - printed_at >= PROGRESS_INTERVAL_S:
            printed_at = now
            print(f"{label}: {done:,}{f' of {total:,}' if total else ''}", file=sys.stderr, flush=True)

    return step


# ── Untrusted text on the terminal: a name that an end user chose may contain control sequences.


def without_control_characters(text: str) -> str:
    """Return `text` with control characters and bidirectional marks replaced; line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def one_line(text: str) -> str:
    """Return `text` for one line or one table cell: line ends, tabs and control characters are replaced too."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


# ── Faults in files end a command with exit code 1. Each fault is a line on stderr, in the ``file:line`` form that
# editors and CI understand.


class ReportedFault(Protocol):
    """A fault of the configuration or of the catalog."""

    @property
    def where(self) -> str: ...
    @property
    def message(self) -> str: ...


@contextmanager
def exit_on_faults(as_json: bool = False, file: Path | None = None) -> Iterator[None]:
    """Turn Faults and StartRefused into messages on stderr and exit code 1. `as_json`: also a line of JSON on stdout.

    `file`: the configuration, for a hint if it is the shipped reference.
    """
    try:
        yield
    except Faults as error:
        if as_json:
            print(json.dumps({"ok": False, "faults": [fault_json(fault) for fault in error.faults]}), flush=True)
        print(error, file=sys.stderr)
        if file is not None:
            hint_at_init(file)
        sys.exit(1)
    except StartRefused as refusal:
        if as_json:
            print(json.dumps({"ok": False, "faults": [{"message": str(refusal)}]}), flush=True)
        print(f"gateway: {refusal}", file=sys.stderr)
        sys.exit(1)


def hint_at_init(file: Path) -> None:
    """Print a hint if `file` is the gateway.yaml of a fresh checkout, which is only the reference of all settings."""
    if is_reference(file):
        print(
            f"{file} is the reference of all settings. To write your own, with its keys: "
            f"`{program()} init --dir my-gateway`",
            file=sys.stderr,
        )


def fault_json(fault: ReportedFault) -> dict[str, Any]:
    """Return a fault as JSON: `where`, `message` and, if the fault has a place in a file, `file` and `line`."""
    file, _, line = fault.where.rpartition(":")
    shown = {"where": fault.where, "message": fault.message}
    return {**shown, "file": file, "line": int(line)} if file and line.isdigit() else shown
