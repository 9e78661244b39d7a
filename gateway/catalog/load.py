"""Folders of YAML ▸ the catalog: the shipped folder first, a later one adds entries or replaces them whole."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.checks import Words
from gateway.catalog.document import Unreadable, read, shown_path
from gateway.catalog.entry import Entry, read_entry
from gateway.catalog.faults import CatalogFaults, Fault
from gateway.catalog.provider import Provider
from gateway.catalog.show import show

ENDINGS = frozenset({".yaml", ".yml"})


class Catalog:
    """The providers, by name and in the order of their names. Never changes: a reload makes a new one."""

    def __init__(
        self, providers: Mapping[str, Provider], paths: Mapping[str, Path], faulty: Collection[str] = ()
    ) -> None:
        """`faulty`: names of entries that are there and cannot be used."""
        self.providers: Mapping[str, Provider] = MappingProxyType(dict(sorted(providers.items())))
        self.faulty = frozenset(faulty)
        self._paths = dict(paths)

    def get(self, name: str) -> Provider | None:
        """The provider of that name, or None."""
        return self.providers.get(name)

    def where(self, name: str, *path: str | int) -> str:
        """``catalog/jira.yaml:7``: where a provider's file says something, for messages. Reads the file again."""
        try:
            return read(self._paths[name]).where(*path)
        except Unreadable as wrong:
            return wrong.fault.where

    def shown(self, name: str, public_url: str) -> dict[str, Any]:
        """The JSON of ``/providers/{name}``. Raises KeyError."""
        return show(self.providers[name], public_url)


def load_catalog(
    folders: Sequence[Path], *, scripts: Collection[str] | None = None, modes: Collection[str] | None = None
) -> Catalog:
    """The catalog in `folders`, later ones winning.

    `scripts` and `modes` are the names an entry may use; None leaves scripts unchecked and takes every auth mode of the
    vocabulary. Raises CatalogFaults with everything that is wrong in any file.
    """
    entries, faults = read_folders(folders, scripts=scripts, modes=modes)
    latest = {entry.name: entry for entry in entries}
    providers = {name: entry.provider for name, entry in latest.items() if entry.provider is not None}
    catalog = Catalog(
        providers,
        {name: entry.path for name, entry in latest.items()},
        faulty=[name for name, entry in latest.items() if entry.provider is None],
    )
    if faults:
        raise CatalogFaults(faults, catalog)
    return catalog


def read_folders(
    folders: Sequence[Path], *, scripts: Collection[str] | None = None, modes: Collection[str] | None = None
) -> tuple[list[Entry], list[Fault]]:
    """Every entry in the order of reading, and the faults of all of them."""
    words = Words(AUTH_MODES if modes is None else modes, scripts)
    entries: list[Entry] = []
    faults: list[Fault] = []
    for folder in folders:
        files, wrong = _files(folder)
        read_here = [read_entry(path, words) for path in files]
        faults += wrong
        faults += [fault for entry in read_here for fault in entry.faults]
        entries += read_here
    return entries, faults


def _files(folder: Path) -> tuple[list[Path], list[Fault]]:
    """The entries of a folder. Names that begin with ``.`` or ``_`` are no entries, nor is what is not YAML.

    A path to a file is that one entry, so that an author can check what is being written.
    """
    if folder.is_file():
        return [folder], []
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix in ENDINGS and path.name[0] not in "._")
    except OSError as wrong:
        return [], [Fault(shown_path(folder), f"the catalog folder cannot be read: {wrong.strerror}")]
    faults = [
        Fault(f"{shown_path(path)}:1", f"{path.stem!r} has two files, .yaml and .yml; keep one")
        for path in found
        if path.suffix == ".yml" and path.with_suffix(".yaml") in found
    ]
    return found, faults
