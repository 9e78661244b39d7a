"""One folder of YAML ▸ its entries, each whole with what it inherits, and everything that is wrong with its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.catalog.checks import Finding, Words
from gateway.catalog.document import Document, Unreadable, read, shown_path
from gateway.catalog.entry import provider_in
from gateway.catalog.faults import Fault
from gateway.catalog.inherit import KEY, CannotInherit, Heirs
from gateway.catalog.provider import Provider

Values = Mapping[str, Any]

ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as read: what it says in full, or what is wrong with it."""

    name: str
    path: Path
    content: bytes | None
    """The provider as JSON, with what it inherits and without defaults; `Provider` reads it. None with a fault."""
    faults: tuple[Fault, ...]


def read_entries(files: Sequence[Path], words: Words, earlier: Mapping[str, Values]) -> list[Entry]:
    """The entry in each of `files`, in their order. `earlier`: the whole entries of folders before this one.

    Nothing of a file is kept but its values; a fault's line is looked up by reading that file once more.
    """
    values: dict[str, Any] = {}
    faults: dict[Path, tuple[Fault, ...]] = {}
    for path in files:
        try:
            document = read(path)
        except Unreadable as wrong:
            faults[path] = (wrong.fault,)
            continue
        values[path.stem] = document.value
        if document.faults:
            faults[path] = tuple(document.faults)
    own = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    reading = _Reading(Heirs(own, earlier), words, {path.stem for path in faults})
    made = {
        path: reading.entry(path, values[path.stem], faults.get(path, ()))
        for path in sorted(files, key=lambda path: _generation(path.stem, own))
        if path.stem in values
    }
    return [made.get(path) or Entry(path.stem, path, None, faults[path]) for path in files]


def _generation(name: str, own: Mapping[str, Values]) -> int:
    """How many bases lie before an entry in its folder, so that a base is looked at before its heirs."""
    chain: list[str] = []
    while name in own and name not in chain:
        chain.append(name)
        name = str(own[name].get(KEY))
    return len(chain)


@dataclass(frozen=True, slots=True)
class _Reading:
    heirs: Heirs
    words: Words
    broken: set[str]

    def entry(self, path: Path, value: Any, known: tuple[Fault, ...]) -> Entry:
        provider, found = self._whole(path.stem, value)
        if provider is not None and not known:
            return Entry(path.stem, path, content_of(provider), ())
        self.broken.add(path.stem)
        document = read(path) if found else None
        told = {Fault(_where(document, place), message) for place, message in found if document is not None}
        return Entry(
            path.stem, path, None, tuple(sorted({*told, *known}, key=lambda fault: (fault.line, fault.message)))
        )

    def _whole(self, name: str, value: Any) -> tuple[Provider | None, Sequence[Finding]]:
        if not isinstance(value, Mapping) or value.get(KEY) is None:
            return provider_in(name, value, self.words)
        try:
            whole = self.heirs.whole(name)
        except CannotInherit as wrong:
            return None, [((KEY,), f"{KEY}: {wrong}")]
        provider, found = provider_in(name, whole, self.words)
        if found and value[KEY] in self.broken:
            return None, [((KEY,), f"the entry {value[KEY]!r}, which this one inherits from, has faults of its own")]
        return provider, found


def content_of(provider: Provider) -> bytes:
    """What is kept of a provider: what was said, as JSON."""
    return provider.model_dump_json(exclude_unset=True, exclude_none=True).encode()


def _where(document: Document, place: Sequence[str | int]) -> str:
    """``file:line`` of `place`; of the ``alias`` where the value is inherited."""
    if place and isinstance(document.value, Mapping) and place[0] not in document.value and KEY in document.value:
        return document.where(KEY)
    return document.where(*place)


def state_of(folders: Sequence[Path]) -> int:
    """A number that is another one once a file of `folders` was written, came, went or was replaced. Reads no content.

    What a link leads to counts, not the link: a mounted ConfigMap changes by turning one. For comparison in one process.
    """
    seen: list[tuple[object, ...]] = []
    for folder in folders:
        files, _ = files_in(folder)
        seen.append((str(folder), folder.exists()))
        for path in files:
            try:
                status = path.stat()
            except OSError:
                seen.append((path.name,))
            else:
                times = (status.st_mtime_ns, status.st_ctime_ns)
                seen.append((path.name, status.st_dev, status.st_ino, status.st_size, *times))
    return hash(tuple(seen))


def files_in(folder: Path) -> tuple[list[Path], list[Fault]]:
    """The entries of a folder. Names that begin with ``.`` or ``_`` are no entries, nor is what is not YAML.

    A path to a file is that one entry, so that an author can check what is being written.
    """
    if folder.is_file():
        return [folder], []
    try:
        names = sorted(path.name for path in folder.iterdir())  # as text: paths compare twenty times as slowly
    except OSError as wrong:
        return [], [Fault(shown_path(folder), f"the catalog folder cannot be read: {wrong.strerror}")]
    found = [folder / name for name in names if name.endswith(ENDINGS) and name[0] not in "._"]
    faults = [
        Fault(f"{shown_path(path)}:1", f"{path.stem!r} has two files, .yaml and .yml; keep one")
        for path in found
        if path.suffix == ".yml" and path.with_suffix(".yaml") in found
    ]
    return found, faults
