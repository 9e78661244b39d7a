"""Reads the YAML files of one folder into entries, merges inherited values, and collects the faults of all files."""

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.catalog.checks import ExternalNames, Finding, entry_faults
from gateway.catalog.evidence import inheritable_evidence
from gateway.catalog.provider import Provider
from gateway.catalog.yaml_file import CatalogDocument, CatalogFault, UnreadableFile, read_yaml, shown_path
from gateway.documents.pydantic_messages import keys_at, pydantic_message
from gateway.documents.read_document import dotted
from gateway.text import did_you_mean

# ── Inheritance. An entry with ``alias: base`` inherits the values of the entry ``base``. Mappings are merged at every
# depth. The checks see only the merged values.

ALIAS_KEY: Final = "alias"
EVIDENCE: Final = "evidence"
# Keys that are never inherited.
_NOT_INHERITED: Final = frozenset({"name", ALIAS_KEY})

Values = Mapping[str, Any]


class CannotInherit(ValueError):
    """The base entry does not exist or cannot be used. The message says why and what to do."""


class InheritedEntries:
    """The entries of one folder, with the values that each entry inherits from its base entry.

    A base entry is looked up in the same folder, then in the `earlier` folders. An entry with its own name as ``alias``
    inherits from the earlier entry of this name: an operator can change a shipped entry without repeating all values.
    """

    def __init__(self, own_entries: Mapping[str, Values], earlier: Mapping[str, Values]) -> None:
        self._own_entries = own_entries
        self._earlier_entries = earlier
        self._merged: dict[str, Values] = {}

    def merged_values(self, name: str) -> Values:
        """Return the values of the entry called `name`, including all inherited values. Raises CannotInherit."""
        return self._resolve(name, ())

    def _resolve(self, name: str, inheriting_names: tuple[str, ...]) -> Values:
        if name in inheriting_names:
            cycle = " ▸ ".join((*inheriting_names[inheriting_names.index(name) :], name))
            raise CannotInherit(f"{cycle} is a cycle of aliases; remove the alias from one of them")
        if name not in self._merged:
            own_values = self._own_entries[name]
            base = own_values.get(ALIAS_KEY)
            self._merged[name] = (
                own_values
                if base is None
                else _override_base(self._base_values(name, base, (*inheriting_names, name)), own_values)
            )
        return self._merged[name]

    def _base_values(self, name: str, base: Any, inheriting_names: tuple[str, ...]) -> Values:
        if not isinstance(base, str):
            raise CannotInherit("must be the name of another entry")
        if base != name and base in self._own_entries:
            base_values = self._resolve(base, inheriting_names)
        elif base in self._earlier_entries:
            base_values = self._earlier_entries[base]
        else:
            known_names = sorted({*self._own_entries, *self._earlier_entries} - {name})
            hint = did_you_mean(base, known_names) or "; `gateway catalog list` shows what there is"
            raise CannotInherit(f"there is no entry {base!r} to inherit from{hint}")
        return {key: value for key, value in base_values.items() if key not in _NOT_INHERITED}


def _override_base(base: Values, own_values: Values) -> dict[str, Any]:
    """Return the values of the base entry, overridden by `own_values`, the inheriting entry's own values.

    A group of evidence is inherited unchanged, and only if the inheriting entry sets none of the group's fields.
    """
    merged_values = merge(base, {key: value for key, value in own_values.items() if key != EVIDENCE})
    own_evidence = own_values.get(EVIDENCE)
    if isinstance(base_evidence := base.get(EVIDENCE), Mapping):
        merged_values[EVIDENCE] = inheritable_evidence(base_evidence, own_values)
    if isinstance(own_evidence, Mapping):
        groups = {**merged_values.get(EVIDENCE, {}), **own_evidence}
        merged_values[EVIDENCE] = {name: group for name, group in groups.items() if group is not None}
    elif own_evidence is not None:
        merged_values[EVIDENCE] = own_evidence
    return merged_values


def merge(base: Values, own_values: Values) -> dict[str, Any]:
    """Return `base` overridden by `own_values`. Mappings are merged, other values are replaced, and None removes a key."""
    result = dict(base)
    for key, value in own_values.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            base_value = result.get(key)
            result[key] = merge(base_value if isinstance(base_value, Mapping) else {}, value)
        else:
            result[key] = value
    return result


# ── From the values of one entry to a `Provider`. First pydantic checks the fields, then `catalog.checks` checks the
# rest. A fault is a pair: the place in the file, and a message.

# The later checks read these fields. If one of them is faulty, or its key has a typo, these checks do not run: they would
# report correct placeholders as faulty.
_READ_BY_CHECKS: Final = frozenset(
    {"auth_mode", "authorization_url", "token_url", "connection_config", "connection_configuration", "credentials"}
    | {"token_response_metadata", "redirect_uri_metadata", "assertion_option", "additional_steps", "jwt", "signature"}
    | {"request_signing", "request_url", "installation_token_url"}
)
_REQUIRED_DEFAULTS: Final[dict[str, Any]] = {"display_name": "x", "categories": ["other"]}


def parse_provider(name: str, values: Any, external_names: ExternalNames) -> tuple[Provider | None, list[Finding]]:
    """Return the provider that `values` describe, and all faults. The provider is None if there is any fault."""
    if not isinstance(values, Mapping):
        return None, [((), "an entry must be a mapping: `key: value` lines")]
    faults: list[Finding] = []
    if values.get("name", name) != name:
        faults.append((("name",), f"the file's name says {name!r}; leave `name` out or make them equal"))
    named_values = {**values, "name": name}
    try:
        provider: Provider | None = Provider.model_validate(named_values)
    except ValidationError as fault:
        errors = fault.errors(include_url=False, include_context=True)
        faults += map(_fault, errors)
        provider = _valid_part(named_values, errors)
    if provider is not None:
        faults += entry_faults(provider, external_names)
    return None if faults else provider, faults


def _valid_part(values: Mapping[str, Any], errors: Sequence[ErrorDetails]) -> Provider | None:
    """Return the valid part of a faulty entry, so that the later checks can run too.

    Faulty fields are removed, and missing required fields get default values. Return None if the later checks would
    report false faults, or if the remaining entry is not valid either.
    """
    if any(error["loc"][0] in _READ_BY_CHECKS or error["loc"][0] not in Provider.model_fields for error in errors):
        return None
    valid_values = _REQUIRED_DEFAULTS | copy.deepcopy(dict(values))
    for error in errors:
        _remove(valid_values, error["loc"])
    try:
        return Provider.model_validate(_REQUIRED_DEFAULTS | valid_values)
    except ValidationError:
        return None


def _remove(value: Any, place: Sequence[int | str]) -> None:
    """Remove the value at `place` from `value`. If `place` is inside a list, remove the whole list.

    If there is no value at `place`, do nothing.
    """
    for step in place[:-1]:
        inner = value.get(step) if isinstance(value, dict) else None
        if not isinstance(inner, dict):
            break
        value, place = inner, place[1:]
    if isinstance(value, dict):
        value.pop(place[0], None)


def _fault(error: ErrorDetails) -> Finding:
    path = error["loc"]
    if error["type"] == "missing":
        return path[:-1], f"{_dotted_path(path)} is missing" + _missing_hint(path)
    return path, _fault_text(error, path)


def _fault_text(error: ErrorDetails, path: Sequence[int | str]) -> str:
    if error["type"] == "extra_forbidden":
        hint = _misplaced_key_hint(str(path[0]), error["input"]) if len(path) == 1 else ""
        return f"unknown key {str(path[-1])!r}" + (hint or _did_you_mean(str(path[-1]), keys_at(Provider, path[:-1])))
    colon = ":" if error["type"] == "value_error" else ""
    return f"{_dotted_path(path)}{colon} {pydantic_message(error, 'yaml')}"


_INTEGRATION_KEYS: Final = frozenset(
    {"client_id", "client_secret", "webhook_secret", "app_id", "app_link", "private_key"}
)


def _misplaced_key_hint(key: str, value: object) -> str:
    """Return the end of a message about a top-level key that belongs elsewhere; empty for any other key."""
    if key in _INTEGRATION_KEYS:
        return "; it belongs to an integration in gateway.yaml"
    if isinstance(value, dict) and {"auth_mode", "display_name"} & value.keys():
        return (
            "; the fields of an entry begin at the top level. `gateway catalog import` splits a file with many entries"
        )
    return ""


def _missing_hint(path: Sequence[int | str]) -> str:
    required = "every entry needs display_name, categories, auth_mode and proxy.base_url"
    return f"; {required}" if len(path) == 1 or path == ("proxy", "base_url") else ""


def _did_you_mean(key: str, known_names: Collection[str]) -> str:
    if key == "<<":
        return "; merge keys are not supported, write the values out"
    return did_you_mean(key, known_names)


def _dotted_path(path: Sequence[int | str]) -> str:
    # For a field of type ``str | list[str]``, pydantic adds the name of a type to the path, as if it were a key.
    return dotted([step for step in path if step not in {"str", "list[str]"}])


ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """The result of reading one file: the entry with all inherited values, or the faults of the file."""

    name: str
    path: Path
    content: bytes | None
    """JSON that `Provider` can parse, with inherited values and without default values; None if there is a fault."""
    faults: tuple[CatalogFault, ...]


def read_entries(
    files: Sequence[Path], external_names: ExternalNames, earlier: Mapping[str, Values]
) -> list[CatalogEntry]:
    """Return the entry of each of `files`, in the order of `files`.

    `earlier`: the entries of the folders that were read before this folder. Only the values of a file are kept in
    memory. To find the line of a fault, the file is read again.
    """
    values: dict[str, Any] = {}
    faults: dict[Path, tuple[CatalogFault, ...]] = {}
    for path in files:
        try:
            document = read_yaml(path)
        except UnreadableFile as fault:
            faults[path] = (fault.fault,)
            continue
        values[path.stem] = document.value
        if document.faults:
            faults[path] = tuple(document.faults)
    own_entries = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    reading = _FolderReading(InheritedEntries(own_entries, earlier), external_names, {path.stem for path in faults})
    entries = {
        path: reading.entry(path, values[path.stem], faults.get(path, ()))
        for path in sorted(files, key=lambda path: _inheritance_depth(path.stem, own_entries))
        if path.stem in values
    }
    return [entries.get(path) or CatalogEntry(path.stem, path, None, faults[path]) for path in files]


def _inheritance_depth(name: str, own_entries: Mapping[str, Values]) -> int:
    """Return the length of the chain of entries from which `name` inherits within its folder, `name` included.

    Entries that are sorted by this number come after their base entries.
    """
    chain: list[str] = []
    while name in own_entries and name not in chain:
        chain.append(name)
        name = str(own_entries[name].get(ALIAS_KEY))
    return len(chain)


@dataclass(frozen=True, slots=True)
class _FolderReading:
    inherited_entries: InheritedEntries
    external_names: ExternalNames
    faulty_names: set[str]

    def entry(self, path: Path, value: Any, known_faults: tuple[CatalogFault, ...]) -> CatalogEntry:
        provider, entry_faults = self._checked_provider(path.stem, value)
        if provider is not None and not known_faults:
            return CatalogEntry(path.stem, path, provider_json(provider), ())
        self.faulty_names.add(path.stem)
        try:
            document = read_yaml(path) if entry_faults else None
        except UnreadableFile as unreadable:  # the file was changed or removed after its values were read
            return CatalogEntry(path.stem, path, None, (unreadable.fault,))
        faults = {
            CatalogFault(_fault_location(document, place), message)
            for place, message in entry_faults
            if document is not None
        }
        sorted_faults = sorted({*faults, *known_faults}, key=lambda fault: (fault.line, fault.message))
        return CatalogEntry(path.stem, path, None, tuple(sorted_faults))

    def _checked_provider(self, name: str, value: Any) -> tuple[Provider | None, Sequence[Finding]]:
        if not isinstance(value, Mapping) or value.get(ALIAS_KEY) is None:
            return parse_provider(name, value, self.external_names)
        try:
            merged_values = self.inherited_entries.merged_values(name)
        except CannotInherit as fault:
            return None, [((ALIAS_KEY,), f"{ALIAS_KEY}: {fault}")]
        provider, parse_faults = parse_provider(name, merged_values, self.external_names)
        if parse_faults and value[ALIAS_KEY] in self.faulty_names:
            return None, [
                ((ALIAS_KEY,), f"the entry {value[ALIAS_KEY]!r}, from which this entry inherits, also has faults")
            ]
        return provider, parse_faults


def provider_json(provider: Provider) -> bytes:
    """Return a provider as JSON bytes, with only the fields that the entry sets."""
    return provider.model_dump_json(exclude_unset=True, exclude_none=True).encode()


def _fault_location(document: CatalogDocument, place: Sequence[str | int]) -> str:
    """Return ``file:line`` of `place`. For an inherited value, return the line of ``alias``."""
    if place and isinstance(document.value, Mapping) and place[0] not in document.value and ALIAS_KEY in document.value:
        return document.file_and_line(ALIAS_KEY)
    return document.file_and_line(*place)


def folders_state(folders: Sequence[Path]) -> int:
    """Return a number that changes when an entry file in `folders` is written, added, removed or replaced.

    File contents are not read. Symbolic links are followed, because Kubernetes changes a mounted ConfigMap by switching
    a link. Compare numbers only within one process: the hash of a text differs in another.
    """
    file_states: list[tuple[object, ...]] = []
    for folder in folders:
        files, _ = entry_files(folder)
        file_states.append((str(folder), folder.exists()))
        for path in files:
            try:
                status = path.stat()
            except OSError:
                file_states.append((path.name,))
            else:
                times = (status.st_mtime_ns, status.st_ctime_ns)
                file_states.append((path.name, status.st_dev, status.st_ino, status.st_size, *times))
    return hash(tuple(file_states))


def entry_files(folder: Path) -> tuple[list[Path], list[CatalogFault]]:
    """Return the entry files of a folder, sorted by name, and the faults of the folder.

    The name of an entry file ends in .yaml or .yml and does not begin with ``.`` or ``_``. If `folder` is a file, the
    result is only this file, so that an author can check a single file.
    """
    if folder.is_file():
        return [folder], []
    try:
        names = sorted(path.name for path in folder.iterdir())  # sort names: comparing paths is 20 times slower
    except OSError as fault:
        return [], [CatalogFault(shown_path(folder), f"the catalog folder cannot be read: {fault.strerror}")]
    files = [folder / name for name in names if name.endswith(ENDINGS) and name[0] not in "._"]
    faults = [
        CatalogFault(f"{shown_path(path)}:1", f"{path.stem!r} has two files, .yaml and .yml; keep one")
        for path in files
        if path.suffix == ".yml" and path.with_suffix(".yaml") in files
    ]
    return files, faults
