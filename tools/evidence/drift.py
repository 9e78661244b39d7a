"""``python -m tools.evidence.drift``: list the fields in which entries differ from the sources, one per line.

A field agrees if no other value has more sources than the entry's value. The exit code is 1 if a difference has no
explanation in differences.yaml, or if fewer than 97 of 100 comparable fields agree. After a new collection, run this
tool first.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from gateway.catalog.load_catalog import load_catalog
from gateway.catalog.yaml_file import read_yaml
from tools.evidence.compare import agrees, entry_values
from tools.evidence.statements import KNOWLEDGE, sources, statements

ROOT: Final = Path(__file__).parents[2]
MIN_AGREEMENT: Final = 0.97


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """The values of one field: the value of the entry, and the value of every looked-up source that states the field."""

    entry: str
    field: str
    ours: tuple[Any, ...]
    alike: frozenset[str]
    """Sources that state the entry's value."""
    others: Mapping[str, frozenset[str]]
    """Every other value, with the sources that state it."""

    @property
    def agrees(self) -> bool:
        """Whether no other value has more sources than the entry's value."""
        return bool(self.alike) and all(len(by) <= len(self.alike) for by in self.others.values())

    @property
    def independent(self) -> bool:
        """Whether at least one of the sources was not used to generate an entry."""
        every = {*self.alike, *(source for by in self.others.values() for source in by)}
        return any(sources()[source].get("independent") for source in every)


@cache
def explanations() -> Mapping[str, Mapping[str, str]]:
    """Return the reasons why entries differ, by entry and field (differences.yaml)."""
    known: Mapping[str, Mapping[str, str]] = read_yaml(Path(__file__).with_name("differences.yaml")).value
    return known


def compare_fields(entries: Mapping[str, Mapping[str, Any]]) -> Iterator[FieldComparison]:
    """Yield every field of `entries` that at least one looked-up source states."""
    for name, entry in entries.items():
        alike: dict[str, set[str]] = {}
        others: dict[str, dict[str, set[str]]] = {}
        for item in statements().get(name, ()):
            by = set(item.explicit) - {KNOWLEDGE}
            verdict = agrees(entry, item) if by else None
            if verdict:
                alike.setdefault(item.field, set()).update(by)
            elif verdict is False:
                stated = " or ".join(map(str, item.values[:2]))
                others.setdefault(item.field, {}).setdefault(stated, set()).update(by)
        for field in sorted({*alike, *others}):
            different = {value: frozenset(by) for value, by in others.get(field, {}).items()}
            yield FieldComparison(
                name, field, tuple(entry_values(entry, field)), frozenset(alike.get(field, ())), different
            )


def shipped() -> dict[str, dict[str, Any]]:
    """Return the shipped entries with inherited fields."""
    return {name: json.loads(text) for name, text in load_catalog([ROOT / "catalog"]).providers.contents.items()}


def main() -> int:
    """Print the differences and the share of fields that agree."""
    found = [entry for entry in compare_fields(shipped()) if entry.independent]
    differing = [entry for entry in found if not entry.agrees]
    unexplained = 0
    for item in differing:
        why = explanations().get(item.entry, {}).get(item.field)
        unexplained += why is None
        stated = "; ".join(f"{', '.join(sorted(by))}: {value}" for value, by in item.others.items())
        print(f"{item.entry}: {item.field} is {item.ours[0]!r}; {stated}" + (f" ({why})" if why else ""))
    share = 1 - len(differing) / len(found)
    print(
        f"{len(found)} fields compared, {share:.1%} agree, {len(differing)} differ, {unexplained} of them unexplained"
    )
    return 1 if unexplained or share < MIN_AGREEMENT else 0


if __name__ == "__main__":
    sys.exit(main())
