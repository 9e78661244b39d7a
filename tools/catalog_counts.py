"""Counts which entries of the shipped catalog have which fields, for blocks of docs/catalog.md."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from gateway.catalog.evidence import GROUPS, LEVELS
from gateway.catalog.load_catalog import load_catalog
from tools.catalog_from_facts.corrections import load_corrections
from tools.evidence.statements import sources

ROOT: Final = Path(__file__).parent.parent
Entry = Mapping[str, Any]

_COLUMNS: Final[Mapping[str, Callable[[Entry], bool]]] = {
    "entries": lambda _entry: True,
    "pagination": lambda entry: "paginate" in entry["proxy"],
    "verification": lambda entry: "verification" in entry["proxy"],
    "revocation": lambda entry: "revocation_url" in entry,
    "webhook signature": lambda entry: "webhook_signature" in entry,
    "page of the vendor": lambda entry: "docs" in entry,
}


def counts() -> str:
    """Return a Markdown table: a row for each auth mode, a column for each optional part of an entry."""
    entries = shipped_entries()
    modes = Counter(entry["auth_mode"] for entry in entries)
    lines = ["| `auth_mode` | " + " | ".join(_COLUMNS) + " |", "|---" * (len(_COLUMNS) + 1) + "|"]
    for mode, _ in sorted(modes.items(), key=lambda pair: (-pair[1], pair[0])):
        lines.append(_line(f"`{mode}`", (entry for entry in entries if entry["auth_mode"] == mode)))
    return "\n".join([*lines, _line("all", entries)])


def _line(title: str, entries: Iterable[Entry]) -> str:
    found = list(entries)
    numbers = (sum(map(test, found)) for test in _COLUMNS.values())
    return f"| {title} | " + " | ".join(str(number) if number else "" for number in numbers) + " |"


def evidence_counts() -> str:
    """Return a Markdown table: a row for each group of fields, a column for each level of evidence."""
    lines = ["| fields | " + " | ".join(LEVELS) + " |", "|---" * (len(LEVELS) + 1) + "|"]
    for group, title in GROUPS.items():
        found = Counter(
            entry["evidence"][group]["level"] for entry in shipped_entries() if group in entry.get("evidence", {})
        )
        lines.append(f"| {title} (`{group}`) | " + " | ".join(str(found[level] or "") for level in LEVELS) + " |")
    return "\n".join(lines)


def evidence_sources() -> str:
    """Return a Markdown table that explains each source name used in entries."""
    lines = ["| source | what | licence |", "|---|---|---|"]
    for name, source in sorted(sources().items()):
        vendor = " (published by the vendor)" if source.get("vendor") else ""
        lines.append(f"| `{name}` | {source['where']}{vendor} | {source.get('licence', '')} |")
    return "\n".join(lines)


def left_out() -> str:
    """Return a Markdown table of the providers that are in the facts but not in the catalog."""
    reasons = load_corrections(ROOT / "tools" / "corrections").left_out
    return "\n".join(
        ["| provider | reason |", "|---|---|", *(f"| `{name}` | {why} |" for name, why in reasons.items())]
    )


@cache
def shipped_entries() -> list[Entry]:
    """Return every shipped entry except the sandbox, with inherited fields."""
    contents = load_catalog([ROOT / "catalog"]).providers.contents
    return [json.loads(content) for name, content in contents.items() if name != "sandbox"]
