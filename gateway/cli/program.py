"""How this command is typed here, so that what we print can be pasted."""

import shlex
import sys
from pathlib import Path


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
