"""The output of commands: the program's name, progress, safe text, faults, and the exit code after faults."""

import errno
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import click

from gateway.cli.options import is_reference
from gateway.errors import GatewayError, StartRefused, Unavailable

# ── The command line of this program, with which printed commands begin, so that a person can paste them.


DEFAULT_CONFIGURATION: Final = Path("gateway.yaml")


def program() -> str:
    """Return the command line that starts this program.

    Return ``gateway`` if PATH finds this program under that name. Otherwise return the path of the program, relative if
    the program is below the current folder.
    """
    started_file = Path(sys.argv[0])
    if started_file.name != "gateway":
        return f"{shlex.quote(sys.executable)} -m gateway"
    # Imported here, because workers import this module too, and only commands need this import.
    from shutil import which

    file_in_path = which("gateway")
    if file_in_path and started_file.exists() and started_file.samefile(file_in_path):
        return "gateway"
    command = started_file.absolute()
    return shlex.quote(str(command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command))


def configuration_option(file: Path | None) -> str:
    """Return the option ``-c`` of a printed command, with a space before it.

    Return an empty text for None, and for ``gateway.yaml``, which commands read without the option.
    """
    is_default = file is None or file.absolute() == DEFAULT_CONFIGURATION.absolute()
    return "" if is_default else f" -c {shlex.quote(str(file))}"


# ── Progress of long work, on stderr: a bar on a terminal, otherwise a line every `PROGRESS_INTERVAL_S` seconds, and
# a last line if there was one before.

PROGRESS_INTERVAL_S: Final = 5.0

Step = Callable[[int, int], None]  # called with the number of finished items and the total; the total is 0 if unknown


@contextmanager
def progress(label: str) -> Iterator[Step]:
    """Show the progress of a task. Yield a function to call after each item.

    `label`: the task's name, such as ``encrypting``.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(label)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress_bar:
        bar = progress_bar.add_task(label, total=None)
        yield lambda done, total: progress_bar.update(bar, completed=done, total=total or None)


def _lines(label: str) -> Step:
    printed_at, has_printed = time.monotonic(), False

    def step(done: int, total: int) -> None:
        nonlocal printed_at, has_printed
        now, is_last = time.monotonic(), has_printed and done == total
        if is_last or now - printed_at >= PROGRESS_INTERVAL_S:
            printed_at, has_printed = now, True
            print(f"{label}: {done:,}{f' of {total:,}' if total else ''}", file=sys.stderr, flush=True)

    return step


# ── Output that cannot be written, to a full disk or a closed pipe.


def print_or_raise(text: str) -> None:
    """Print `text` to stdout without buffering. Raises OSError if stdout cannot be written; later output is then dropped."""
    if sys.stdout is None:  # the caller closed stdout, and `print` would drop the text without an error
        raise OSError(errno.EBADF, "stdout is closed")
    try:
        print(text, flush=True)
    except OSError:
        drop_output()
        raise


def drop_output() -> None:
    """Drop what is still buffered for stdout, and all later output. Otherwise Python reports another error when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ── Untrusted text on the terminal: a name that an end user chose can contain control sequences.


def without_control_characters(text: str) -> str:
    """Return `text` with control characters and bidirectional marks replaced. Line ends and tabs stay."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def one_line(text: str) -> str:
    """Return `text` for one line or one table cell: line ends, tabs and other control characters are replaced."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


# ── Faults in files end a command with exit code 1. Each fault is one line on stderr. The line begins with
# ``file:line``, which editors and CI understand.


class ReportedFault(Protocol):
    """A fault of the configuration or of the catalog."""

    @property
    def where(self) -> str: ...
    @property
    def message(self) -> str: ...


@contextmanager
def exit_on_faults(as_json: bool = False, file: Path | None = None) -> Iterator[None]:
    """If the block raises Faults or StartRefused, print the message to stderr and exit with code 1.

    `as_json`: also print a line of JSON to stdout.
    `file`: the configuration, for a hint if it is the shipped reference; None: no hint.
    """
    try:
        yield
    except StartRefused as refusal:
        if as_json:
            print_fault_as_json(str(refusal))
        print(f"gateway: {refusal}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        from gateway.config import Faults  # imported late, because some commands read no configuration

        if not isinstance(error, Faults):
            raise
        if as_json:
            print(json.dumps({"ok": False, "faults": [fault_json(fault) for fault in error.faults]}), flush=True)
        print(error, file=sys.stderr)
        if file is not None:
            hint_at_init(file)
        sys.exit(1)


@contextmanager
def exit_on_errors(as_json: bool, file: Path) -> Iterator[None]:
    """Do the same as `exit_on_faults`, and also for a GatewayError, for a VaultError (a stored secret cannot be
    decrypted), and for a ClickException, which click prints.

    For an error in the command's options, `LazyGroup` prints the line of JSON.
    """
    with exit_on_faults(as_json, file):
        try:
            yield
        except GatewayError as fault:
            message = _with_database_error(fault)
            if as_json:
                print_fault_as_json(message)
            print(f"gateway: {message}", file=sys.stderr)
            sys.exit(1)
        except click.ClickException as error:
            if as_json and not isinstance(error, click.UsageError):
                print_fault_as_json(error.message)
            raise
        except Exception as fault:
            from gateway.vault import VaultError  # imported late, because most commands end without it

            if not isinstance(fault, VaultError):
                raise
            if as_json:
                print_fault_as_json(str(fault))
            print(f"gateway: {fault}", file=sys.stderr)
            sys.exit(1)


def print_fault_as_json(message: str) -> None:
    print(json.dumps({"ok": False, "faults": [{"message": message}]}), flush=True)


_DRIVER_CLASS: Final = re.compile(r"^<class '[\w.]+'>: ")  # SQLAlchemy puts this class before the message of asyncpg


def _with_database_error(fault: GatewayError) -> str:
    """Return the message for an operator, with the database's own words, such as ``no such table: keys``."""
    cause = fault.__cause__
    database_words = getattr(cause, "orig", cause) if isinstance(fault, Unavailable) else None
    return (
        fault.message
        if database_words is None
        else f"{fault.message} The database says: {_DRIVER_CLASS.sub('', ' '.join(str(database_words).split()))}."
    )


def hint_at_init(file: Path) -> None:
    """Print a hint to run `gateway init` if `file` is the shipped gateway.yaml.

    That file is a reference of all settings, and is not meant to be run.
    """
    if is_reference(file):
        print(
            f"{file} is the reference of all settings. To write your own, with its keys: "
            f"`{program()} init --dir my-gateway`",
            file=sys.stderr,
        )


def fault_json(fault: ReportedFault) -> dict[str, Any]:
    """Return a fault as JSON: `where`, `message`, and `file` and `line` if the fault has a place in a file."""
    file, _, line = fault.where.rpartition(":")
    fault_object = {"where": fault.where, "message": fault.message}
    return {**fault_object, "file": file, "line": int(line)} if file and line.isdigit() else fault_object
