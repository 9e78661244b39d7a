"""Tests use public behavior: the number of accesses to private attributes of other objects may only decrease."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parents[1]
ALLOWED: Final = 39  # some are attributes of libraries; lower this number with each access that is removed


def test_accesses_to_private_attributes_do_not_increase() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--select", "SLF001", "--output-format", "json", "tests"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    found = [f"{fault['filename']}:{fault['location']['row']}" for fault in json.loads(done.stdout)]
    assert len(found) <= ALLOWED, f"{len(found)} accesses, {ALLOWED} allowed; use public names instead: {found}"
