"""Folders of YAML ▸ the catalog: the shipped folder first; a later one adds, replaces or inherits."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gateway import resources
from gateway.catalog import compiled
from gateway.catalog.api_operations import ProviderOperations, read_operations
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.checks import ExternalNames
from gateway.catalog.evidence import provenance_of, sources_of
from gateway.catalog.folder import CatalogEntry, files_in, read_entries
from gateway.catalog.provider import Provider
from gateway.catalog.yaml_file import CatalogFault, CatalogFaults, UnreadableFile, read

# ── What `/providers` shows of an entry: what its file says, and the two fields we fill in (docs/catalog.md#fields).

LOGOS = "/images/template-logos"
_FORMS = ("connection_config", "credentials", "assertion_option")
_OUR_OWN = frozenset({"alias"})  # what it inherits stands in it already


def show(said: Mapping[str, Any], public_url: str) -> dict[str, Any]:
    """Return an entry (`CatalogEntry.content`, read) as the JSON that the API shows.

    A field that its file leaves out is absent, never null.

    `logo_url` and `docs` are ours where the entry has none; `connection_configuration` is always an array of names.
    """
    shown = dict(said)
    shown.setdefault("logo_url", f"{public_url}{LOGOS}/{said['name']}.svg")
    shown.setdefault("docs", f"{public_url}/providers/{said['name']}/guide")
    if names := said.get("connection_configuration", list(said.get("connection_config", ()))):
        shown["connection_configuration"] = names
    found = {"provenance": provenance_of(said), "sources": sources_of(said)}
    shown |= {key: value for key, value in found.items() if value}
    for key in _FORMS:
        if key in said:
            # Form builders read the type.
            shown[key] = {name: {"type": "string", **form} for name, form in said[key].items()}
    return {key: shown[key] for key in Provider.model_fields if key in shown and key not in _OUR_OWN}


MOST_BUILT: Final = (
    200  # a gateway uses a handful of providers; a list of all of them must not keep all of them in memory
)


class Providers(Mapping[str, Provider]):
    """The providers by name, in the order of their names, each made from its JSON when it is first requested.

    A thousand of them, made, would take ten times the memory.
    """

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = dict(sorted(contents.items()))
        self._built: dict[str, Provider] = {}

    def __getitem__(self, name: str) -> Provider:
        found = self._built.get(name)
        if found is None:
            found = Provider.model_validate_json(self.contents[name])
            if len(self._built) >= MOST_BUILT:
                self._built.clear()
            self._built[name] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.contents)

    def __len__(self) -> int:
        return len(self.contents)

    def __contains__(self, name: object) -> bool:
        return name in self.contents


class Values(Mapping[str, Mapping[str, Any]]):
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
    """The providers, by name and in the order of their names. Never changes: a reload makes a new one."""

    def __init__(
        self, contents: Mapping[str, bytes], paths: Mapping[str, str], faulty: Collection[str] = (), seen: int = 0
    ) -> None:
        """`contents`: each entry as JSON; `faulty`: names of entries that are there and cannot be used; `seen`: the
        `folder.state_of` the operator's folders as of just before they were read."""
        self.providers = Providers(contents)
        self.faulty = frozenset(faulty)
        self.seen = seen
        self._paths = dict(paths)

    def keeping(self, names: Collection[str], of: "Catalog") -> "Catalog":
        """Return this catalog, but with the entries called `names` as they are in `of`, as far as it has them."""
        kept = {name: of.providers.contents[name] for name in names if name in of.providers}
        paths = {name: of._paths[name] for name in kept}
        return Catalog(self.providers.contents | kept, paths | self._paths, self.faulty - set(kept), self.seen)

    def of_folders(self, folders: Sequence[Path]) -> frozenset[str]:
        """The names of the entries whose file lies in one of `folders`."""
        return frozenset(name for name, path in self._paths.items() if Path(path).parent in folders)

    def get(self, name: str) -> Provider | None:
        """The provider of that name, or None."""
        return self.providers.get(name)

    def where(self, name: str, *path: str | int) -> str:
        """``catalog/jira.yaml:7``: where a provider's file says something, for messages. Reads the file again."""
        try:
            return read(Path(self._paths[name])).where(*path)
        except UnreadableFile as wrong:
            return wrong.fault.where

    def operations(self, name: str) -> ProviderOperations | None:
        """The API operations of a provider, read from the folder of its entry or else from the shipped one; None: nothing is
        known of them. Reads up to 100 kB each time and holds nothing. Raises UnreadableFile."""
        path = self._paths.get(name)
        if path is None or name not in self.providers:
            return None
        folders = (Path(path).parent, resources.folder("catalog"))
        return read_operations(tuple(dict.fromkeys(folders)), name)

    def provider_json(self, name: str, public_url: str) -> dict[str, Any]:
        """The JSON of ``/providers/{name}``. Raises KeyError."""
        return show(json.loads(self.providers.contents[name]), public_url)


def load_catalog(
    folders: Sequence[Path],
    *,
    scripts: Collection[str] | None = None,
    modes: Collection[str] | None = None,
    seen: int = 0,
) -> Catalog:
    """The catalog in `folders`, later ones winning.

    `scripts` and `modes` are the names an entry may use; None leaves scripts unchecked and takes every auth mode of the
    vocabulary. `seen` is handed on. Raises CatalogFaults with everything that is wrong in any file.
    """
    words = ExternalNames(AUTH_MODES if modes is None else modes, scripts)
    contents: dict[str, bytes] = {}
    paths: dict[str, str] = {}
    keys: list[str] = []
    faulty: set[str] = set()
    faults: list[CatalogFault] = []
    for folder in folders:
        files, wrong = files_in(folder)
        faults += wrong
        for name, path, content, found in rows_of_folder(folder, files, words, contents, keys):
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
    below: Sequence[Path] = (),
) -> tuple[list[CatalogEntry], list[CatalogFault]]:
    """Every entry of `folders` in the order of reading, and the faults of all of them. Entries may inherit from those
    in the folders `below`, whose own faults are not reported."""
    words = ExternalNames(AUTH_MODES if modes is None else modes, scripts)
    whole: dict[str, bytes] = {}
    entries: list[CatalogEntry] = []
    faults: list[CatalogFault] = []
    for folder in (*below, *folders):
        files, wrong = files_in(folder)
        read_here = read_entries(files, words, Values(whole))
        whole |= {entry.name: entry.content for entry in read_here if entry.content is not None}
        if folder in folders:
            faults += wrong
            faults += [fault for entry in read_here for fault in entry.faults]
            entries += read_here
    return entries, faults


Row = tuple[str, str, bytes | None, tuple[CatalogFault, ...]]


def rows_of_folder(
    folder: Path, files: Sequence[Path], words: ExternalNames, earlier: Mapping[str, bytes], keys: list[str]
) -> Iterator[Row]:
    """Name, path, content and faults of every entry, from the compiled file if one fits."""
    large = len(files) >= compiled.FEWEST
    try:
        keys.append(compiled.key_of(files, tuple(keys)))
    except OSError:
        large = False  # a file cannot be read, which is reported when it is read as an entry
    known = compiled.load(folder, keys[-1], words) if large else None
    if known is not None and set(known) == {path.stem for path in files}:
        yield from ((path.stem, str(path), known[path.stem], ()) for path in files)
        return
    entries = read_entries(files, words, Values(dict(earlier)))
    if large and not any(entry.faults for entry in entries):
        compiled.save(folder, keys[-1], {entry.name: entry.content or b"" for entry in entries})
    yield from ((entry.name, str(entry.path), entry.content, entry.faults) for entry in entries)
