"""Runs a command of the gateway in its own process, as a shell does."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import ROOT


@dataclass(frozen=True, slots=True)
class CommandResult:
    exit_code: int
    stdout: str
    stderr: str


def run_command(*arguments: str, folder: Path | None = None) -> CommandResult:
    """Run the command in `folder` and wait for its end."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)
