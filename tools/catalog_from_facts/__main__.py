"""``python -m tools.catalog_from_facts FACTS``: write catalog/<name>.yaml for every provider of a folder of facts.

FACTS is a folder with providers.json and new-providers.json, or one file in the format of providers.json
(docs/catalog.md). The second line of a generated entry says so. Entries without that line are hand-written and stay as
they are. Generated entries that the facts no longer contain are removed.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gateway.catalog.yaml_file import read_yaml
from tools.catalog_from_facts.corrections import Corrections, load_corrections
from tools.catalog_from_facts.entries import entry_of
from tools.catalog_from_facts.further_providers import further_facts
from tools.catalog_from_facts.inheritance import FAMILIES, without_inherited_fields
from tools.catalog_from_facts.proofs import with_verification
from tools.catalog_from_facts.setups import setups
from tools.catalog_from_facts.signatures import signatures
from tools.catalog_from_facts.tokens import with_lifetimes
from tools.catalog_from_facts.yaml_text import entry_text
from tools.evidence.by_hand import entry_evidence

ROOT: Final = Path(__file__).parents[2]
SCHEMA_LINE: Final = "# yaml-language-server: $schema=./_schema.json\n"
Entry = dict[str, Any]
NOTHING: Final[Mapping[str, Any]] = {}
GENERATED_LINE: Final = "# Made from facts; correct it in tools/corrections/"


def main() -> int:
    """Write the entries and return 0. With ``--check``, write nothing, and return 1 if a file would change."""
    asked = _arguments().parse_args()
    facts = all_facts(asked.facts)
    folder = None if asked.facts.is_file() else asked.facts
    texts = catalog_texts(
        facts,
        load_corrections(asked.corrections),
        hand_written_values(asked.catalog),
        proofs=_read(folder / "verification-account.json")["facts"] if folder else {},
        consoles=setups(_read(folder / "setup-steps.json")) if folder else {},
        lifetimes=_read(folder / "oauth-quirks.json")["facts"] if folder else {},
        webhooks=_read(folder / "subscriptions.json")["facts"] if folder else {},
    )
    there = {path.stem: path for path in asked.catalog.glob("*.yaml") if is_generated(path)}
    changed = [name for name, text in texts.items() if name not in there or there[name].read_text("utf-8") != text]
    gone = sorted(set(there) - set(texts))
    print(f"{len(texts)} entries generated: {len(changed)} new or changed, {len(gone)} to remove")
    if asked.check:
        return 1 if changed or gone else 0
    for name in changed:
        (asked.catalog / f"{name}.yaml").write_text(texts[name], encoding="utf-8")
    for name in gone:
        there[name].unlink()
    return 0


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def all_facts(place: Path) -> list[dict[str, Any]]:
    """Return the facts of every provider in `place`, which is a folder or a file. The format is that of providers.json."""
    if place.is_file():
        return list(json.loads(place.read_text(encoding="utf-8")))
    return _facts_in_folder(place)


def _facts_in_folder(folder: Path) -> list[dict[str, Any]]:
    first: list[dict[str, Any]] = json.loads((folder / "providers.json").read_text(encoding="utf-8"))
    return first + further_facts(json.loads((folder / "new-providers.json").read_text(encoding="utf-8")))


def catalog_texts(
    facts: list[dict[str, Any]],
    corrections: Corrections,
    hand_written: Mapping[str, Entry],
    *,
    proofs: Mapping[str, Any] = NOTHING,
    consoles: Mapping[str, Any] = NOTHING,
    lifetimes: Mapping[str, Any] = NOTHING,
    webhooks: Mapping[str, Any] = NOTHING,
) -> dict[str, str]:
    """Return provider ▸ text of its file, for `facts`. Providers in `hand_written` and left-out providers are not
    included.
    """
    made = {
        fact["name"]: with_lifetimes(fact["name"], entry_of(fact), lifetimes)
        for fact in facts
        if fact["name"] not in hand_written and fact["name"] not in corrections.left_out
    }
    for name, entry in made.items():
        made[name] = with_verification(name, entry, proofs.get(name), corrections.entries.get(name, {}))
    for name, entry in made.items():
        if name in consoles:
            entry["setup"] = consoles[name]
    in_bulk = {*corrections.verifications, *corrections.names, *corrections.retries}
    strangers = {*corrections.entries, *in_bulk} - set(made)
    if strangers:
        raise SystemExit(f"corrections of providers that are not made here: {', '.join(sorted(strangers))}")
    entries = {name: _entry_for_file(name, made, corrections, hand_written) for name in made}
    for name, signature in signatures(webhooks, {**hand_written, **entries}).items():
        if name in entries:
            entries[name]["webhook_signature"] = signature
    _add_evidence(entries, hand_written)
    return {
        name: entry_text(entry, f"{SCHEMA_LINE}{GENERATED_LINE}{name}.yaml\n" + _remark(entry))
        for name, entry in entries.items()
    }


def _add_evidence(entries: dict[str, Entry], hand_written: Mapping[str, Entry]) -> None:
    """Add `evidence` to each entry. It replaces the names of sources, because these confirm no particular field."""
    for entry in entries.values():
        pages = [item for item in entry.pop("sources", None) or [] if "://" in item]
        entry.pop("provenance", None)
        entry.pop("review", None)
        if pages:
            entry["sources"] = pages
    plain = {
        name: {key: value for key, value in item.items() if not key.endswith("#")} for name, item in entries.items()
    }
    values = {**hand_written, **plain}
    for name, entry in entries.items():
        if "sources" in values.get(entry.get("alias", ""), {}):
            entry.setdefault("sources", None)
        if evidence := entry_evidence(name, values):
            entry["evidence"] = evidence


def _entry_for_file(
    name: str, made: Mapping[str, Entry], corrections: Corrections, hand_written: Mapping[str, Entry]
) -> Entry:
    """Return the entry as its file will contain it: corrected, and without inherited fields.

    Shared fields of a family are found before corrections are applied. So a correction of the family's base entry
    applies to the whole family.
    """
    entry = made[name]
    if entry.get("family") not in {*made, *hand_written}:
        entry = {key: value for key, value in entry.items() if key != "family"}
    family = entry.get("family")
    if family in FAMILIES and (heir := without_inherited_fields(entry, family, made[family])) is not None:
        return corrections.corrected(name, heir)
    corrected = corrections.corrected(name, entry)
    base = corrected.pop("alias", None)
    if base is None:
        return corrected
    known = corrections.corrected(base, made[base]) if base in made else hand_written[base]
    return without_inherited_fields(corrected, base, known) or corrected


def _remark(entry: Entry) -> str:
    """Return the comment on the whole entry. An entry stores this comment under the key ``#``."""
    return f"# {entry.pop('#')}\n" if "#" in entry else ""


def hand_written_values(catalog: Path) -> dict[str, Entry]:
    """Return the values of the hand-written entries, by name."""
    paths = [path for path in sorted(catalog.glob("*.yaml")) if not is_generated(path)]
    return {path.stem: read_yaml(path).value for path in paths}


def is_generated(path: Path) -> bool:
    """Return whether this script wrote the file."""
    with path.open(encoding="utf-8") as file:
        return GENERATED_LINE in "".join(file.readline() for _ in range(2))


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.catalog_from_facts", description=__doc__.partition("\n\n")[2]
    )
    parser.add_argument("facts", type=Path, help="folder with providers.json and new-providers.json")
    parser.add_argument("--catalog", type=Path, default=ROOT / "catalog")
    parser.add_argument("--corrections", type=Path, default=ROOT / "tools" / "corrections")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 where something would change")
    return parser


if __name__ == "__main__":
    sys.exit(main())
