"""Converted entries ▸ files, one each."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from gateway.catalog.conversion.file import Converted

WIDTH: Final = 120


def write(entries: Sequence[Converted], folder: Path, *, source: str, force: bool = False) -> list[str]:
    """Write ``<name>.yaml`` each; the names of those that are there already and were left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    there = []
    for entry in entries:
        path = folder / f"{entry.name}.yaml"
        if path.exists() and not force:
            there.append(entry.name)
            continue
        path.write_text(text_of(entry, source), encoding="utf-8")
    return there


def text_of(entry: Converted, source: str) -> str:
    """The file: what was lost as comments above the entry, so that whoever mends it need not look for that elsewhere."""
    body = yaml.dump(entry.values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return "".join(f"# {line}\n" for line in _head(entry, source)) + body


def _head(entry: Converted, source: str) -> Iterator[str]:
    yield f"Imported from {source}."
    for note in entry.told:
        if note.kind == "lost":
            yield f"Lost: {note.field}: {' '.join(note.message.split())}"


class _Dumper(yaml.SafeDumper):
    """Without anchors, which only people who repeat themselves want to read."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True
