"""``gateway catalog lint``: reports faults of entries, and warnings."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.catalog.yaml_file import CatalogFault

MAX_EQUAL_WARNINGS = 20  # if more warnings have the same text, one line reports all of them
MAX_PLACES = 5


@click.command()
@click.argument(
    "folders", metavar="[PATHS]...", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help=f"Report every warning, even if more than {MAX_EQUAL_WARNINGS} have the same text.",
)
@as_json
def lint(folders: tuple[Path, ...], show_all: bool, as_json: bool) -> None:
    """Check the catalog folders PATHS, by default the shipped one. Exits 1 if there is a fault, 0 if there are only
    warnings."""
    from gateway import resources
    from gateway.cli.catalog.catalog_in_use import lint_folders

    findings = lint_folders(list(folders) or [resources.folder("catalog")])
    faults = [finding for finding in findings if finding.level == "fault"]
    if as_json:
        rows = [{"where": finding.where, "level": finding.level, "message": finding.message} for finding in findings]
        print(json.dumps({"ok": not faults, "data": rows}, indent=2))
    else:
        for line in _lines(findings, show_all=show_all):
            print(line, file=sys.stderr)
        if not faults:
            warnings = len(findings)
            print("no faults" + (f", {counted(warnings, 'warning')}" if warnings else ""))
    sys.exit(1 if faults else 0)


def _lines(findings: Sequence["CatalogFault"], *, show_all: bool) -> Iterator[str]:
    """Yield a line for each fault and warning.

    If more than `MAX_EQUAL_WARNINGS` warnings have the same text, one line reports all of them, unless `show_all` is set.
    """
    count_by_message = Counter(finding.message for finding in findings if finding.level == "warning")
    frequent_messages = {
        message for message, count in count_by_message.items() if count > MAX_EQUAL_WARNINGS and not show_all
    }
    for finding in findings:
        if finding.message not in frequent_messages:
            yield f"{finding.where}: {'' if finding.level == 'fault' else f'{finding.level}: '}{finding.message}"
    for message in sorted(frequent_messages):
        places = [finding.where for finding in findings if finding.message == message]
        yield f"warning: {message}; in {len(places)} places, listed by --all: {', '.join(places[:MAX_PLACES])} …"
