"""``python -m tools.evidence.by_hand``: write `evidence` into the hand-written entries only.

The block is at the end of the file, and each run generates it again. It replaces `provenance`, `review` and names of
sources.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gateway.catalog.folder import InheritedEntries
from gateway.catalog.yaml_file import read_yaml
from tools.catalog_from_facts.yaml_text import evidence_lines
from tools.evidence.assess import evidence_of, evidence_of_inheriting_entry

ROOT: Final = Path(__file__).parents[2]
_REPLACED: Final = re.compile(r"^(provenance|review|sources|evidence):[^\n]*\n(?:[ \t]+[^\n]*\n)*", re.MULTILINE)


def text_with_evidence(name: str, text: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Return `text`, the file of the entry `name`, with its evidence. `values`: name ▸ contents of the file, for all
    entries.
    """
    pages = [item for item in values[name].get("sources") or [] if "://" in item]
    evidence = entry_evidence(name, values)
    bare = _REPLACED.sub("", text).rstrip("\n") + "\n"
    sources = f"sources: [{', '.join(pages)}]\n" if pages else ""
    return bare + "\n" + "".join(f"{line}\n" for line in evidence_lines(evidence)) + sources


def entry_evidence(name: str, values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the `evidence` that the entry's file must contain."""
    heirs = InheritedEntries(values, {})
    whole, base = heirs.merged_values(name), values[name].get("alias")
    if base is None:
        return evidence_of(name, whole)
    return evidence_of_inheriting_entry(name, values[name], whole, evidence_of(base, heirs.merged_values(base)))


def main() -> int:
    """Write the files that changed and print one line for each."""
    from tools.catalog_from_facts.__main__ import is_generated

    paths = sorted((ROOT / "catalog").glob("*.yaml"))
    values = {path.stem: read_yaml(path).value for path in paths}
    for path in paths:
        if is_generated(path) or path.stem == "sandbox":
            continue
        text = path.read_text(encoding="utf-8")
        if (better := text_with_evidence(path.stem, text, values)) != text:
            path.write_text(better, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
