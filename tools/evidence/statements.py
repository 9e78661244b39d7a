"""The statements that are kept in the repository: entry, field, value, and the sources that state the value."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
STATEMENTS: Final = FOLDER / "statements.jsonl"
SOURCES: Final = FOLDER / "sources.json"
# Label of statements that come from general knowledge, which nobody looked up in a source.
KNOWLEDGE: Final = "knowledge"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement. `values`: alternative values, because one source can name several."""

    entry: str
    field: str
    values: tuple[Any, ...]
    explicit: tuple[str, ...]
    """IDs of the sources that state the value explicitly."""
    implied: tuple[str, ...] = ()
    """IDs of the sources that do not mention the field and so keep their own default value. This is weak evidence."""

    @property
    def sources(self) -> tuple[str, ...]:
        """All sources, including statements that nobody looked up."""
        return (*self.explicit, *self.implied)


@cache
def statements() -> Mapping[str, tuple[Statement, ...]]:
    """Return all statements by entry."""
    found: dict[str, list[Statement]] = {}
    for line in STATEMENTS.read_text(encoding="utf-8").splitlines():
        entry, field, values, explicit, *implied = json.loads(line)
        statement = Statement(entry, field, tuple(values), tuple(explicit), tuple(implied[0]) if implied else ())
        found.setdefault(entry, []).append(statement)
    return {entry: tuple(ones) for entry, ones in found.items()}


@cache
def sources() -> Mapping[str, Mapping[str, Any]]:
    """Return the sources, each with `where`, `date`, `licence`, and `vendor` if the source is the vendor's own
    document.
    """
    read: Mapping[str, Mapping[str, Any]] = json.loads(SOURCES.read_text(encoding="utf-8"))
    return read


def write(new_statements: Iterable[Statement], known: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace the files of statements and sources."""
    rows = sorted({_line(item) for item in new_statements})
    STATEMENTS.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    SOURCES.write_text(json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _line(statement: Statement) -> str:
    row = [
        statement.entry,
        statement.field,
        list(statement.values),
        list(statement.explicit),
        *([list(statement.implied)] if statement.implied else []),
    ]
    return json.dumps(row, ensure_ascii=False)
