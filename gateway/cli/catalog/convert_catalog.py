"""``gateway catalog import FILE``: converts a public catalog, which is one file, into a folder of entries."""

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
    from gateway.authoring.conversion.catalog_file import ConvertedEntry


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder for one file per entry. Without --out, the command writes no file and only reports.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option("--changes", is_flag=True, help="Also report fields that are only written in another way.")
@as_json
def convert(file: Path, folder: Path | None, force: bool, changes: bool, as_json: bool) -> None:
    """Convert FILE, one YAML file with many entries keyed by name, into the gateway's format, with one file per entry.

    Every field that this format cannot express is reported with its line in FILE. Written entries pass `gateway catalog
    lint`; an entry that could not work is reported as refused and is not written. Exit 1 if an entry is not written.
    """
    from gateway.authoring.conversion.catalog_file import NotACatalog, convert_catalog, report_rows, write
    from gateway.catalog.yaml_file import UnreadableFile
    from gateway.cli.catalog.catalog_in_use import external_names, shipped_values

    try:
        entries = convert_catalog(file, external_names(), shipped_values())
    except (UnreadableFile, NotACatalog) as fault:
        print(fault.fault, file=sys.stderr)
        sys.exit(1)
    usable_entries = [entry for entry in entries if entry.values is not None]
    existing_names = [] if folder is None else write(usable_entries, folder, source=file.name, force=force)
    if as_json:
        report = {
            "ok": len(usable_entries) == len(entries) and not existing_names,
            "entries": len(entries),
            "usable": len(usable_entries),
        }
        written_folder = None if folder is None else str(folder)
        print(
            json.dumps(
                {**report, "folder": written_folder, "not_written": existing_names, "data": list(report_rows(entries))},
                indent=2,
            )
        )
    else:
        for line in _lines(entries, changes=changes):
            print(line)
        for name in existing_names:
            print(
                f"{folder}/{name}.yaml already exists and was not changed; to replace it, use --force", file=sys.stderr
            )
        print(_summary(entries, folder, len(usable_entries) - len(existing_names)))
    sys.exit(0 if len(usable_entries) == len(entries) and not existing_names else 1)


def _lines(entries: Sequence["ConvertedEntry"], *, changes: bool) -> Iterator[str]:
    for entry in entries:
        for note in entry.notes:
            if note.kind != "changed" or changes:
                yield f"{note.where}: {entry.name}: {note.kind}: {f'{note.field}: ' if note.field else ''}{note.message}"


def _summary(entries: Sequence["ConvertedEntry"], folder: Path | None, written_count: int) -> str:
    usable_entries = [entry for entry in entries if entry.values is not None]
    note_counts = Counter(note.kind for entry in entries for note in entry.notes)
    complete_count = sum(not any(note.kind == "lost" for note in entry.notes) for entry in usable_entries)
    entries_text = counted(len(entries), "entry", "entries")
    usable_text = f"{len(usable_entries)} of {entries_text} can be used, {complete_count} of them completely"
    refused_text = counted(len(entries) - len(usable_entries), "entry", "entries")
    lost_text, changed_count = counted(note_counts["lost"], "field"), note_counts["changed"]
    notes_text = f"{lost_text} lost, {changed_count} written in another way, {refused_text} refused"
    ending = (
        "nothing was written; to write them, use --out DIR"
        if folder is None
        else f"{counted(written_count, 'file')} written to {folder}; add it under `catalog:` in gateway.yaml"
    )
    return f"{usable_text}; {notes_text}; {ending}"
