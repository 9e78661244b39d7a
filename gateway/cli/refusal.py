"""How a command ends on faults in files: a line each on stderr, in the form that editors and CI jump to, and exit code 1."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from gateway.cli.options import is_reference
from gateway.cli.program import program
from gateway.config import Faults
from gateway.errors import StartRefused


class Told(Protocol):
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
    """For who starts in a fresh checkout, where a gateway.yaml lies that is no one's own."""
    if is_reference(file):
        made = f"`{program()} init --dir my-gateway` writes one of your own, with its keys"
        print(f"{file} is the reference of all keys; {made}", file=sys.stderr)


def placed(told: Told) -> dict[str, Any]:
    """A fault as JSON: `where`, `message` and, where it stands in a file, `file` and `line`."""
    file, _, line = told.where.rpartition(":")
    shown = {"where": told.where, "message": told.message}
    return {**shown, "file": file, "line": int(line)} if file and line.isdigit() else shown
