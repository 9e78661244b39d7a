"""How commands speak: their own name, progress, faults in files and the exit code."""

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

# ── How this command is typed here, so that what we print can be pasted.


def program() -> str:
    """``gateway`` where that is found and is this program, else its path; from the current folder where it lies below."""
    started = Path(sys.argv[0])
    if started.name != "gateway":
        return f"{shlex.quote(sys.executable)} -m gateway"
    from shutil import which  # here: a server, which prints no commands, does without

    found = which("gateway")
    if found and started.exists() and started.samefile(found):
        return "gateway"
    here = started.absolute()
    return shlex.quote(str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here))


# ── How far long work has come: a bar on stderr where somebody looks, a line now and then where a log does.

EVERY_S: Final = 5.0

Step = Callable[[int, int], None]  # done, of how many; 0 where that is not known


@contextmanager
def progress(what: str) -> Iterator[Step]:
    """Show progress; yields the function to call after each piece of `what`, such as ``sealing again``."""
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


# ── Text of others on the terminal: a name that an end user chose may hold orders to it.


def harmless(text: str) -> str:
    """`text` without control characters and without marks that turn the direction of writing; line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def one_line(text: str) -> str:
    """Return `text` fit for a cell or a line, which no line end may split."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


# ── How a command ends on faults in files: a line each on stderr, in the form that editors and CI jump to, and exit
# code 1.


class ReportedFault(Protocol):
    """A fault of the configuration or of the catalog."""

    @property
    def where(self) -> str: ...
    @property
    def message(self) -> str: ...


@contextmanager
def faults_end_the_command(as_json: bool = False, file: Path | None = None) -> Iterator[None]:
    """Around whatever reads a configuration or a catalog, or looks at the store. `as_json`: as a line of JSON on stdout too.

    `file`: the configuration, for a hint where it is not one to start with.
    """
    try:
        yield
    except Faults as error:
        if as_json:
            print(json.dumps({"ok": False, "faults": [placed(fault) for fault in error.faults]}), flush=True)
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
    """Print a hint in a fresh checkout, whose gateway.yaml is only the reference of all keys."""
    if is_reference(file):
        made = f"`{program()} init --dir my-gateway` writes one of your own, with its keys"
        print(f"{file} is the reference of all keys; {made}", file=sys.stderr)


def placed(fault: ReportedFault) -> dict[str, Any]:
    """A fault as JSON: `where`, `message` and, where it stands in a file, `file` and `line`."""
    file, _, line = fault.where.rpartition(":")
    shown = {"where": fault.where, "message": fault.message}
    return {**shown, "file": file, "line": int(line)} if file and line.isdigit() else shown
