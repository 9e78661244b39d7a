"""Loads folders of YAML files into a catalog.

A later folder can add entries, and replace entries of earlier folders or inherit from them.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gateway import resources
from gateway.catalog import compiled
from gateway.catalog.api_operations import ProviderOperations, read_operations
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.checks import FORM_FIELDS, ExternalNames
from gateway.catalog.evidence import all_sources, overall_provenance
from gateway.catalog.folder import CatalogEntry, entry_files, read_entries
from gateway.catalog.provider import Provider
from gateway.catalog.yaml_file import CatalogFault, CatalogFaults, UnreadableFile, read_yaml
from gateway.text import did_you_mean, nearest

# ── The JSON of an entry in `/providers`: the fields of the file, and fields that the gateway adds
# (docs/catalog.md#fields).

LOGO_PATH = "/images/template-logos"
_HIDDEN_FIELDS = frozenset({"alias"})  # not shown, because the inherited values are shown


def entry_json(values: Mapping[str, Any], public_url: str) -> dict[str, Any]:
    """Return an entry as the JSON object that the API shows.

    `values`: the parsed `CatalogEntry.content`. `public_url`: the base URL of the gateway. A field that the file leaves
    out is absent, never null. If the entry has no `logo_url` or no `docs`, the gateway's own URL is shown. If the entry
    has no `connection_configuration`, the keys of `connection_config` are shown as an array of names.
    """
    entry = dict(values)
    entry.setdefault("logo_url", f"{public_url}{LOGO_PATH}/{values['name']}.svg")
    entry.setdefault("docs", f"{public_url}/providers/{values['name']}/guide")
    if names := values.get("connection_configuration", list(values.get("connection_config", ()))):
        entry["connection_configuration"] = names
    derived_fields = {"provenance": overall_provenance(values), "sources": all_sources(values)}
    entry |= {key: value for key, value in derived_fields.items() if value}
    for key in FORM_FIELDS:
        if key in values:
            # Clients that build forms read `type`, which entries usually leave out.
            entry[key] = {name: {"type": "string", **form} for name, form in values[key].items()}
    return {key: entry[key] for key in Provider.model_fields if key in entry and key not in _HIDDEN_FIELDS}


# A gateway uses few providers, and a loop over all of them must not keep all in memory.
MAX_PARSED: Final = 200


class Providers(Mapping[str, Provider]):
    """The providers by name, sorted by name. A provider is parsed from its JSON when it is first read.

    A thousand parsed providers take ten times the memory of their JSON.
    """

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = dict(sorted(contents.items()))
        self._parsed: dict[str, Provider] = {}

    def __getitem__(self, name: str) -> Provider:
        provider = self._parsed.get(name)
        if provider is None:
            provider = Provider.model_validate_json(self.contents[name])
            if len(self._parsed) >= MAX_PARSED:
                self._parsed.clear()
            self._parsed[name] = provider
        return provider

    def __iter__(self) -> Iterator[str]:
        return iter(self.contents)

    def __len__(self) -> int:
        return len(self.contents)

    def __contains__(self, name: object) -> bool:
        return name in self.contents


class EntryValues(Mapping[str, Mapping[str, Any]]):
    """Entries as plain values, by name. The JSON of an entry is parsed each time the entry is read."""

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
    """All providers, sorted by name. A catalog is immutable: a reload creates a new catalog."""

    def __init__(
        self,
        contents: Mapping[str, bytes],
        paths: Mapping[str, str],
        faulty: Collection[str] = (),
        folders_state: int = 0,
    ) -> None:
        """Create the catalog.

        `contents`: the JSON of each entry, by name. `paths`: the path of each entry's file, by name. `faulty`: the
        names of entries that exist but cannot be used because of faults. `folders_state`: the result of
        `folder.folders_state` for the operator's folders, computed before these folders were read.
        """
        self.providers = Providers(contents)
        self.faulty = frozenset(faulty)
        self.folders_state = folders_state
        self._paths = dict(paths)

    def with_entries_from(self, names: Collection[str], other_catalog: "Catalog") -> "Catalog":
        """Return a copy of this catalog, with the entries called `names` from the catalog `other_catalog`.

        Names that `other_catalog` does not have are ignored.
        """
        other_contents = {
            name: other_catalog.providers.contents[name] for name in names if name in other_catalog.providers
        }
        paths = {name: other_catalog._paths[name] for name in other_contents}
        return Catalog(
            self.providers.contents | other_contents,
            paths | self._paths,
            self.faulty - set(other_contents),
            self.folders_state,
        )

    def names_in_folders(self, folders: Sequence[Path]) -> frozenset[str]:
        """Return the names of the entries with a file in one of `folders`."""
        return frozenset(name for name, path in self._paths.items() if Path(path).parent in folders)

    def get(self, name: str) -> Provider | None:
        """Return the provider called `name`, or None."""
        return self.providers.get(name)

    def suggestion(self, name: str) -> str:
        """Return a text such as ``; did you mean 'google-mail'?`` for a mistyped name, or for a display name such as
        ``gmail``. Return an empty text if nothing is similar.

        The function reads the display name of every provider, so requests must not call it.
        """
        if hint := did_you_mean(name, self.providers):
            return hint
        names = {json.loads(content)["display_name"]: key for key, content in self.providers.contents.items()}
        display_name = nearest(name, names)
        return f"; did you mean '{names[display_name]}'?" if display_name else ""

    def file_and_line(self, name: str, *path: str | int) -> str:
        """Return the file and the line of `path` in a provider's file, for messages: ``catalog/jira.yaml:7``.

        The file is read again to find the line.
        """
        try:
            return read_yaml(Path(self._paths[name])).file_and_line(*path)
        except UnreadableFile as fault:
            return fault.fault.where

    def operations(self, name: str) -> ProviderOperations | None:
        """Return the API operations of the provider `name`; None if there is no file with its operations.

        The file is looked up in the folder of the provider's entry, then in the shipped folder. Each call reads up to
        two files of at most 512 KiB; nothing is cached. Raises UnreadableFile.
        """
        path = self._paths.get(name)
        if path is None or name not in self.providers:
            return None
        folders = (Path(path).parent, resources.folder("catalog"))
        return read_operations(tuple(dict.fromkeys(folders)), name)

    def provider_json(self, name: str, public_url: str) -> dict[str, Any]:
        """Return a provider as ``GET /providers/{name}`` shows it. Raises KeyError if there is no such provider.

        `public_url`: the base URL of the gateway.
        """
        return entry_json(json.loads(self.providers.contents[name]), public_url)


def load_catalog(
    folders: Sequence[Path],
    *,
    scripts: Collection[str] | None = None,
    modes: Collection[str] | None = None,
    folders_state: int = 0,
) -> Catalog:
    """Load the catalog from `folders`. An entry replaces the entry of the same name in an earlier folder.

    `scripts`: the names of scripts that an entry can use; None: names of scripts are not checked. `modes`: the auth
    modes that an entry can use; None: all of `AUTH_MODES`. `folders_state`: the result of `folder.folders_state`, which
    the catalog keeps. Raises CatalogFaults with all faults of all files.
    """
    external_names = ExternalNames(AUTH_MODES if modes is None else modes, scripts)
    contents: dict[str, bytes] = {}
    paths: dict[str, str] = {}
    keys: list[str] = []
    faulty_names: set[str] = set()
    faults: list[CatalogFault] = []
    for folder in folders:
        files, folder_faults = entry_files(folder)
        faults += folder_faults
        for name, path, content, entry_faults in rows_of_folder(folder, files, external_names, contents, keys):
            paths[name] = path
            faults += entry_faults
            if content is None:
                faulty_names.add(name)
                contents.pop(name, None)
            else:
                faulty_names.discard(name)
                contents[name] = content
    catalog = Catalog(contents, paths, faulty_names, folders_state)
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
    """Return all entries of `folders` in reading order, and all faults of `folders`.

    `base_folders`: further folders with entries from which entries in `folders` can inherit. Faults in these folders
    are not reported.
    """
    external_names = ExternalNames(AUTH_MODES if modes is None else modes, scripts)
    contents: dict[str, bytes] = {}
    entries: list[CatalogEntry] = []
    faults: list[CatalogFault] = []
    for folder in (*base_folders, *folders):
        files, folder_faults = entry_files(folder)
        folder_entries = read_entries(files, external_names, EntryValues(contents))
        contents |= {entry.name: entry.content for entry in folder_entries if entry.content is not None}
        if folder in folders:
            faults += folder_faults
            faults += [fault for entry in folder_entries for fault in entry.faults]
            entries += folder_entries
    return entries, faults


EntryRow = tuple[str, str, bytes | None, tuple[CatalogFault, ...]]


def rows_of_folder(
    folder: Path, files: Sequence[Path], external_names: ExternalNames, earlier: Mapping[str, bytes], keys: list[str]
) -> Iterator[EntryRow]:
    """Yield the name, path, content and faults of every entry in `folder`.

    If the folder's cache file is up to date, the entries are read from it and not from `files`. `earlier`: the content
    of each entry in the folders that were read before. `keys`: the `compiled.cache_key` of each of these folders; this
    function appends the key of `folder`.
    """
    is_large = len(files) >= compiled.MIN_FILES
    try:
        keys.append(compiled.cache_key(files, tuple(keys)))
    except OSError:
        is_large = False  # a file cannot be read; `read_entries` reports it
    compiled_entries = compiled.load(folder, keys[-1], external_names) if is_large else None
    if compiled_entries is not None and set(compiled_entries) == {path.stem for path in files}:
        yield from ((path.stem, str(path), compiled_entries[path.stem], ()) for path in files)
        return
    entries = read_entries(files, external_names, EntryValues(dict(earlier)))
    if is_large and not any(entry.faults for entry in entries):
        compiled.save(folder, keys[-1], {entry.name: entry.content or b"" for entry in entries})
    yield from ((entry.name, str(entry.path), entry.content, entry.faults) for entry in entries)
