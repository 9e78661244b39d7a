"""``gateway catalog lint``: what is wrong with entries, and what could be better."""

import json
import sys
from pathlib import Path

import click

from gateway.cli.options import as_json


@click.command()
@click.argument(
    "folders", metavar="[PATHS]...", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@as_json
def lint(folders: tuple[Path, ...], as_json: bool) -> None:
    """Check the catalog folders PATHS, by default the shipped one. Exit 1 on a fault; warnings alone pass."""
    from gateway import resources
    from gateway.cli.catalogs import linted

    found = linted(list(folders) or [resources.folder("catalog")])
    faults = [one for one in found if one.level == "fault"]
    if as_json:
        rows = [{"where": one.where, "level": one.level, "message": one.message} for one in found]
        print(json.dumps({"ok": not faults, "data": rows}, indent=2))
    else:
        for one in found:
            level = "" if one.level == "fault" else f"{one.level}: "
            print(f"{one.where}: {level}{one.message}", file=sys.stderr)
        if not faults:
            warnings = len(found)
            print("no faults" + (f", {warnings} warning{'' if warnings == 1 else 's'}" if warnings else ""))
    sys.exit(1 if faults else 0)
