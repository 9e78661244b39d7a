"""Converts a catalog file of many entries into valid entry files, and lists all fields that were lost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gateway.authoring.conversion.convert import EntryConversion
from gateway.authoring.conversion.notes import Note, Notes, Place
from gateway.catalog.checks import ExternalNames, Finding
from gateway.catalog.folder import ALIAS_KEY, CannotInherit, InheritedEntries, parse_provider
from gateway.catalog.render import carries_credential
from gateway.catalog.template import TemplateError
from gateway.catalog.yaml_file import CatalogDocument, CatalogFault, read_yaml
from gateway.documents.read_document import dotted

# ── ``alias`` in public catalogs: a field of an entry replaces the whole field of its base. Mappings are not merged.

MERGE = "<<"  # the merge key of YAML 1.1, which some files use in place of ``alias``


@dataclass(frozen=True, slots=True)
class ExpandedEntry:
    """An entry with its inherited fields.

    `values`: all fields except ``alias``. `owner`: for each field, the name of the entry that sets it, for messages.
    `unknown_base`: the name of a base entry that is not in the file; None if there is none. `is_circular`: whether the
    entry inherits from itself.
    """

    values: dict[str, Any]
    owner: dict[str, str]
    unknown_base: str | None = None
    is_circular: bool = False


def expand_entry(name: str, entries: Mapping[str, Any], inheriting_names: tuple[str, ...] = ()) -> ExpandedEntry:
    """Return the entry called `name` with all fields that it inherits from other entries in `entries`.

    `inheriting_names`: the names of the entries that inherit from this entry, to detect a cycle.
    """
    stated_fields = _merge_mappings(entries[name])
    own_values = {key: value for key, value in stated_fields.items() if key != ALIAS_KEY}
    own_names = dict.fromkeys(own_values, name)
    base = stated_fields.get(ALIAS_KEY)
    if base is None:
        return ExpandedEntry(own_values, own_names)
    if base in (name, *inheriting_names):
        return ExpandedEntry(own_values, own_names, is_circular=True)
    if not isinstance(entries.get(str(base)), Mapping):
        return ExpandedEntry(own_values, own_names, unknown_base=str(base))
    base_values = expand_entry(str(base), entries, (*inheriting_names, name))
    return ExpandedEntry(
        {**base_values.values, **own_values},
        {**base_values.owner, **own_names},
        base_values.unknown_base,
        base_values.is_circular,
    )


def _merge_mappings(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return `mapping` with the keys of the mappings that its merge key lists.

    The mapping's own keys win, then those of earlier mappings in the list.
    """
    bases = mapping.get(MERGE)
    base_values: dict[str, Any] = {}
    for base in reversed(bases if isinstance(bases, list) else [bases]):
        if isinstance(base, Mapping):
            base_values |= _merge_mappings(base)
    return {**base_values, **{key: value for key, value in mapping.items() if key != MERGE}}


MAX_BYTES: Final = 32 * 1024 * 1024
MAX_VALUES: Final = 2_000_000
# A fault in one of these fields cannot be repaired by removing the field, so the entry is refused.
_REQUIRED_FIELDS: Final = frozenset(
    {"display_name", "categories", "auth_mode", "authorization_url", "token_url", "request_url", "refresh_url"}
    | {"installation_token_url", "additional_steps", "token_params", "token_body", "token_headers", "jwt", "signature"}
    | {"request_signing", "alias", "authorization_params"}
)
_REQUIRED_PROXY_FIELDS: Final = frozenset({"base_url", "body"})
MAX_REPAIRS: Final = 40


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """A note on a field, for the report. `where`: the file and the line."""

    kind: str
    field: str
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class ConvertedEntry:
    """A converted entry. `values`: the values of the new entry file; None if this gateway cannot use the entry."""

    name: str
    values: dict[str, Any] | None
    notes: tuple[ConversionReport, ...]


def convert_catalog(
    path: Path, external_names: ExternalNames, shipped_entries: Mapping[str, Mapping[str, Any]]
) -> list[ConvertedEntry]:
    """Convert every entry of the file `path`, in the order of the file. Raises UnreadableFile, NotACatalog.

    `external_names`: the auth modes and scripts of this gateway. `shipped_entries`: by name; an ``alias`` can also name a
    shipped entry.
    """
    document = read_yaml(path, max_bytes=MAX_BYTES, max_values=MAX_VALUES)
    entries = document.value if isinstance(document.value, Mapping) else {}
    # Names with a leading dot only hold YAML anchors.
    names = [name for name in entries if not name.startswith(".")]
    if not any(isinstance(entries[name], Mapping) for name in names):
        raise NotACatalog(
            CatalogFault(
                document.file_and_line(), "is not a file of entries: write `name:` lines with an entry below each"
            )
        )
    return [_convert_entry(name, entries, path, document, external_names, shipped_entries) for name in names]


class NotACatalog(ValueError):
    """The file is not a catalog. `fault`: the reason."""

    def __init__(self, fault: CatalogFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def _convert_entry(
    name: str,
    entries: Mapping[str, Any],
    path: Path,
    document: CatalogDocument,
    external_names: ExternalNames,
    shipped_entries: Mapping[str, Mapping[str, Any]],
) -> ConvertedEntry:
    if not isinstance(entries[name], Mapping):
        return ConvertedEntry(
            name, None, (ConversionReport("refused", "", document.file_and_line(name), "is not an entry"),)
        )
    expanded_entry = expand_entry(name, entries)
    conversion = EntryConversion(external_names.scripts or ())
    notes = conversion.notes
    if expanded_entry.is_circular:
        notes.add_refused(("alias",), "inherits from itself")
    values = conversion.values(_with_base_fields(expanded_entry, shipped_entries))
    values |= {"provenance": "unconfirmed", "sources": [f"imported from {path.name}"]}
    if expanded_entry.unknown_base is not None:
        if expanded_entry.unknown_base in shipped_entries:
            values = _own_values(values, expanded_entry)
            notes.add_changed(
                ("alias",),
                f"{expanded_entry.unknown_base!r} is the shipped entry, whose mappings are merged with this entry's",
            )
        else:
            notes.add_refused(
                ("alias",), f"there is no entry {expanded_entry.unknown_base!r} in the file or in the shipped catalog"
            )
    if not notes.is_refused:
        values = _repair(name, values, external_names, shipped_entries, notes)
    reports = tuple(
        ConversionReport(
            note.kind, dotted(note.place), _note_location(document, name, expanded_entry, note), note.message
        )
        for note in notes.all
    )
    return ConvertedEntry(name, None if notes.is_refused else values, reports)


def _with_base_fields(expanded: ExpandedEntry, shipped_entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entry's values. If the base entry is a shipped entry, add its auth mode and its base URL."""
    base = shipped_entries.get(expanded.unknown_base or "")
    if base is None:
        return expanded.values
    return {"auth_mode": base["auth_mode"], "proxy": {"base_url": base["proxy"]["base_url"]}, **expanded.values}


def _own_values(values: dict[str, Any], expanded: ExpandedEntry) -> dict[str, Any]:
    """Return the values that the entry sets itself, with an ``alias`` that names its shipped base entry."""
    inherited_fields = {"auth_mode", "proxy", "categories", "display_name"} - set(expanded.values)
    return {
        "alias": expanded.unknown_base,
        **{key: value for key, value in values.items() if key not in inherited_fields},
    }


def _repair(
    name: str,
    values: dict[str, Any],
    external_names: ExternalNames,
    shipped_entries: Mapping[str, Mapping[str, Any]],
    notes: Notes,
) -> dict[str, Any]:
    """Return `values` without the optional fields that the catalog's checks refuse.

    Each removed field is reported as lost. If the checks refuse a required field, the entry is reported as refused.
    """
    for _ in range(MAX_REPAIRS):
        findings = list(_find_faults(name, values, external_names, shipped_entries))
        if not findings:
            return values
        has_dropped = False
        for place, message in findings:
            if place and not _is_required(place, values) and _delete(values, place):
                notes.add_lost(place, message)
                has_dropped = True
        if not has_dropped:
            for place, message in findings:
                notes.add_refused(place, message)
            return values
    for place, message in _find_faults(name, values, external_names, shipped_entries):
        notes.add_refused(place, message)
    return values


def _find_faults(
    name: str, values: dict[str, Any], external_names: ExternalNames, shipped_entries: Mapping[str, Mapping[str, Any]]
) -> Sequence[Finding]:
    try:
        merged_values = InheritedEntries({name: values}, shipped_entries).merged_values(name)
    except CannotInherit as fault:
        return [(("alias",), str(fault))]
    return parse_provider(name, merged_values, external_names)[1]


def _is_required(place: Place, values: Mapping[str, Any]) -> bool:
    if place[0] != "proxy":
        return place[0] in _REQUIRED_FIELDS
    if len(place) < 3 or place[1] not in {"headers", "query"}:
        return len(place) < 2 or place[1] in _REQUIRED_PROXY_FIELDS
    try:
        return carries_credential(str(values["proxy"][place[1]].get(place[2], "")))
    except TemplateError:
        return True


def _delete(values: dict[str, Any], place: Place) -> bool:
    """Delete the value at `place`, or the whole list that contains this value. Return whether the value existed."""
    parent: Any = values
    for index, step in enumerate(place):
        value = parent.get(step) if isinstance(parent, dict) else None
        if value is None:
            return False
        if index == len(place) - 1 or not isinstance(value, dict):
            del parent[step]
            return True
        parent = value
    return False


def _note_location(document: CatalogDocument, name: str, expanded: ExpandedEntry, note: Note) -> str:
    owner = expanded.owner.get(str(note.place[0]), name) if note.place else name
    return document.file_and_line(owner, *note.place)


def report_rows(entries: Sequence[ConvertedEntry]) -> Iterator[dict[str, Any]]:
    """Yield a JSON object for each entry: whether the entry is usable, and the notes on its fields."""
    for entry in entries:
        notes: dict[str, list[dict[str, str]]] = {"lost": [], "changed": [], "refused": []}
        for note in entry.notes:
            notes[note.kind].append({"field": note.field, "where": note.where, "message": note.message})
        yield {"name": entry.name, "usable": entry.values is not None, **notes}


# ── Writing each converted entry to a file of its own.

WIDTH: Final = 120


def write(entries: Sequence[ConvertedEntry], folder: Path, *, source: str, force: bool = False) -> list[str]:
    """Write each of `entries` to ``<name>.yaml``. Return the names of the entries whose file exists already.

    `source`: the name of the converted file, for a comment in each file. `force`: whether to overwrite existing files;
    otherwise an entry with an existing file is not written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    existing_names = []
    for entry in entries:
        path = folder / f"{entry.name}.yaml"
        if path.exists() and not force:
            existing_names.append(entry.name)
            continue
        path.write_text(entry_text(entry, source), encoding="utf-8")
    return existing_names


def entry_text(entry: ConvertedEntry, source: str) -> str:
    """Return the text of an entry's file. Comments at the top list the fields that were lost."""
    body = yaml.dump(entry.values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return "".join(f"# {line}\n" for line in _head_lines(entry, source)) + body


def _head_lines(entry: ConvertedEntry, source: str) -> Iterator[str]:
    yield f"Imported from {source}."
    for note in entry.notes:
        if note.kind == "lost":
            yield f"Lost: {note.field}: {' '.join(note.message.split())}"


class _Dumper(yaml.SafeDumper):
    """A dumper that writes repeated values in full, without YAML anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True
