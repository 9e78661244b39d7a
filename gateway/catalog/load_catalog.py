"""Loads folders of YAML files into a catalog: later folders add, replace or inherit entries of earlier folders."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gateway import resources
from gateway.catalog import compiled
from gateway.catalog.api_operations import ProviderOperations, read_operations
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.checks import ExternalNames
from gateway.catalog.evidence import all_sources, overall_provenance
from gateway.catalog.folder import CatalogEntry, entry_files, read_entries
from gateway.catalog.provider import Provider
from gateway.catalog.yaml_file import CatalogFault, CatalogFaults, UnreadableFile, read_yaml

# ── An entry as `/providers` shows it: the file's fields, and two fields that the gateway fills in
# (docs/catalog.md#fields).

LOGO_PATH = "/images/template-logos"
_FORMS = ("connection_config", "credentials", "assertion_option")
_HIDDEN_FIELDS = frozenset({"alias"})  # not shown: the inherited values are merged in already


def entry_json(values: Mapping[str, Any], public_url: str) -> dict[str, Any]:
    """Return an entry (parsed `CatalogEntry.content`) as the JSON that the API shows.

    A field that the file leaves out is absent, never null. Without `logo_url` or `docs` in the entry, the gateway's own
    URLs are shown. `connection_configuration` is an array of names: the entry's own, or the keys of
    `connection_config`.
    """
    entry = dict(values)
    entry.setdefault("logo_url", f"{public_url}{LOGO_PATH}/{values['name']}.svg")
    entry.setdefault("docs", f"{public_url}/providers/{values['name']}/guide")
    if names := values.get("connection_configuration", list(values.get("connection_config", ()))):
        entry["connection_configuration"] = names
    derived = {"provenance": overall_provenance(values), "sources": all_sources(values)}
    entry |= {key: value for key, value in derived.items() if value}
    for key in _FORMS:
        if key in values:
            # Clients that build forms read `type`.
            entry[key] = {name: {"type": "string", **form} for name, form in values[key].items()}
    return {key: entry[key] for key in Provider.model_fields if key in entry and key not in _HIDDEN_FIELDS}


MAX_PARSED: Final = 200  # a gateway uses few providers, and an iteration over all of them must not keep all in memory


class Providers(Mapping[str, Provider]):
    """The providers by name, sorted by name; each is parsed from its JSON on first access.

    A thousand parsed providers would take ten times the memory.
    """

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = dict(sorted(contents.items()))
        self._built: dict[str, Provider] = {}

    def __getitem__(self, name: str) -> Provider:
        found = self._built.get(name)
        if found is None:
            found = Provider.model_validate_json(self.contents[name])
            if len(self._built) >= MAX_PARSED:
                self._built.clear()
            self._built[name] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.contents)

    def __len__(self) -> int:
        return len(self.contents)

    def __contains__(self, name: object) -> bool:
        return name in self.contents


class EntryValues(Mapping[str, Mapping[str, Any]]):
    """The catalog's entries as plain values, parsed at each access."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        values: Mapping[str, Any] = json.loads(self._contents[name])
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)


class Catalog:
    """All providers, sorted by name. A catalog is immutable: a reload creates a new one."""

    def __init__(
        self, contents: Mapping[str, bytes], paths: Mapping[str, str], faulty: Collection[str] = (), seen: int = 0
    ) -> None:
        """Create the catalog.

        `contents`: each entry as JSON. `paths`: the file of each entry. `faulty`: names of existing entries that cannot
        be used. `seen`: the result of `folder.folders_state` for the operator's folders, from just before they were
        read.
        """
        self.providers = Providers(contents)
        self.faulty = frozenset(faulty)
        self.seen = seen
        self._paths = dict(paths)

    def with_entries_from(self, names: Collection[str], other: "Catalog") -> "Catalog":
        """Return this catalog, with the entries called `names` taken from the catalog `other`, as far as `other` has
        them."""
        kept = {name: other.providers.contents[name] for name in names if name in other.providers}
        paths = {name: other._paths[name] for name in kept}
        return Catalog(self.providers.contents | kept, paths | self._paths, self.faulty - set(kept), self.seen)

    def names_in_folders(self, folders: Sequence[Path]) -> frozenset[str]:
        """Return the names of the entries with a file in one of `folders`."""
        return frozenset(name for name, path in self._paths.items() if Path(path).parent in folders)

    def get(self, name: str) -> Provider | None:
        """Return the provider called `name`, or None."""
        return self.providers.get(name)

    def where(self, name: str, *path: str | int) -> str:
        """Return file and line of `path` in a provider's file, for messages: ``catalog/jira.yaml:7``.

        The file is read again.
        """
        try:
            return read_yaml(Path(self._paths[name])).where(*path)
        except UnreadableFile as wrong:
            return wrong.fault.where

    def operations(self, name: str) -> ProviderOperations | None:
        """Return the API operations of a provider, read from the folder of its entry or else from the shipped folder.

        None if neither has them. Reads up to two files of at most 512 KiB on each call and caches nothing. Raises
        UnreadableFile.
        """
        path = self._paths.get(name)
        if path is None or name not in self.providers:
            return None
        folders = (Path(path).parent, resources.folder("catalog"))
        return read_operations(tuple(dict.fromkeys(folders)), name)

    def provider_json(self, name: str, public_url: str) -> dict[str, Any]:
        """Return the provider's JSON in ``GET /providers/{name}``. Raises KeyError."""
        return entry_json(json.loads(self.providers.contents[name]), public_url)


def load_catalog(
    folders: Sequence[Path],
    *,
    scripts: Collection[str] | None = None,
    modes: Collection[str] | None = None,
    seen: int = 0,
) -> Catalog:
    """Load the catalog from `folders`; entries of later folders win.

    `scripts` and `modes`: the names that an entry may use; None: scripts are not checked, and all of `AUTH_MODES` are
    allowed. `seen`: passed to `Catalog`. Raises CatalogFaults with all faults of all files.
    """
    external_names = ExternalNames(AUTH_MODES if modes is None else modes, scripts)
    contents: dict[str, bytes] = {}
    paths: dict[str, str] = {}
    keys: list[str] = []
    faulty: set[str] = set()
    faults: list[CatalogFault] = []
    for folder in folders:
        files, wrong = entry_files(folder)
        faults += wrong
        for name, path, content, found in rows_of_folder(folder, files, external_names, contents, keys):
            paths[name] = path
            faults += found
            if content is None:
                faulty.add(name)
                contents.pop(name, None)
            else:
                faulty.discard(name)
                contents[name] = content
    catalog = Catalog(contents, paths, faulty, seen)
    if faults:
        raise CatalogFaults(faults, catalog)
    return catalog


def read_folders(
    folders: Sequence[Path],
    *,
    scripts: Collection[str] | None = None,
    modes: Collection[str] | None = None,
    base_folders: Sequence[Path] = (),
) -> tuple[list[CatalogEntry], list[CatalogFault]]:
    """Return every entry of `folders` in reading order, and all their faults.

    Entries may inherit from entries in the folders `base_folders`, whose own faults are not reported.
    """
    external_names = ExternalNames(AUTH_MODES if modes is None else modes, scripts)
    whole: dict[str, bytes] = {}
    entries: list[CatalogEntry] = []
    faults: list[CatalogFault] = []
    for folder in (*base_folders, *folders):
        files, wrong = entry_files(folder)
        read_here = read_entries(files, external_names, EntryValues(whole))
        whole |= {entry.name: entry.content for entry in read_here if entry.content is not None}
        if folder in folders:
            faults += wrong
            faults += [fault for entry in read_here for fault in entry.faults]
            entries += read_here
    return entries, faults


EntryRow = tuple[str, str, bytes | None, tuple[CatalogFault, ...]]


def rows_of_folder(
    folder: Path, files: Sequence[Path], external_names: ExternalNames, earlier: Mapping[str, bytes], keys: list[str]
) -> Iterator[EntryRow]:
    """Yield name, path, content and faults of every entry, from the compiled file if it is up to date.

    `earlier`: the content of the entries of the folders before. `keys`: `compiled.cache_key` of these folders; this
    folder's key is appended.
    """
    large = len(files) >= compiled.MIN_FILES
    try:
        keys.append(compiled.cache_key(files, tuple(keys)))
    except OSError:
        large = False  # a file cannot be read; `read_entries` reports it
    known = compiled.load(folder, keys[-1], external_names) if large else None
    if known is not None and set(known) == {path.stem for path in files}:
        yield from ((path.stem, str(path), known[path.stem], ()) for path in files)
        return
    entries = read_entries(files, external_names, EntryValues(dict(earlier)))
    if large and not any(entry.faults for entry in entries):
        compiled.save(folder, keys[-1], {entry.name: entry.content or b"" for entry in entries})
    yield from ((entry.name, str(entry.path), entry.content, entry.faults) for entry in entries)
