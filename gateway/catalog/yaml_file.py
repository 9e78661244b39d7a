"""A catalog file as plain values, every value's line still known, and what is wrong with catalog files.

``no`` and ``2024-01-31`` stay text here (only true, false, null and numbers are not), and there are no merge keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from gateway.config import document as config_faults
from gateway.documents.nodes import UnreadableText
from gateway.documents.read_document import Dialect, Document, decoded, read_document

if TYPE_CHECKING:
    from gateway.catalog.load_catalog import Catalog

# ── What is wrong with catalog files, all of it at once, each as ``file:line: what, and what to do``.


@dataclass(frozen=True, slots=True)
class CatalogFault(config_faults.Fault):
    """`where` is ``file:line`` (or a folder). A ``fault`` stops loading; a ``warning`` is only said by `lint`."""

    level: Literal["fault", "warning"] = "fault"

    @property
    def line(self) -> int:
        """The line that `where` names; 0 for a folder."""
        _, _, line = self.where.rpartition(":")
        return int(line) if line.isdigit() else 0


class CatalogFaults(config_faults.Faults):
    """The catalog cannot be used as it is; `faults` names every reason, `catalog` holds what is right in it."""

    faults: tuple[CatalogFault, ...]

    def __init__(self, faults: Sequence[CatalogFault], catalog: "Catalog") -> None:
        super().__init__(faults)
        self.catalog = catalog


LARGEST_BYTES: Final = 256 * 1024
MOST_VALUES: Final = 20_000  # aliases count each time they are used, so a "billion laughs" stops here


class UnreadableFile(Exception):
    """The file has no values to look at; `fault` says why."""

    def __init__(self, fault: CatalogFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class CatalogDocument:
    """`value` is the file's content; `faults` what is wrong with it as YAML, which leaves the rest readable."""

    def __init__(self, shown_path: str, document: Document) -> None:
        self._path = shown_path
        self._document = document
        self.value: Any = document.tree
        self.faults = [CatalogFault(f"{shown_path}:{fault.line}", fault.message) for fault in document.faults]

    def where(self, *path: str | int) -> str:
        """``catalog/jira.yaml:7`` for the place of `path`, or of the nearest part of it that the file has."""
        return f"{self._path}:{self._document.line(tuple(map(str, path)))}"


def read(path: Path, *, largest_bytes: int = LARGEST_BYTES, most_values: int = MOST_VALUES) -> CatalogDocument:
    """The YAML file at `path`, one entry unless the limits say otherwise.

    Raises UnreadableFile if it is missing, no UTF-8, no YAML, too large or empty.
    """
    shown = shown_path(path)
    try:
        raw = path.read_bytes()
    except OSError as wrong:
        raise UnreadableFile(CatalogFault(f"{shown}:1", f"cannot be read: {wrong.strerror}")) from None
    if len(raw) > largest_bytes:
        raise UnreadableFile(
            CatalogFault(f"{shown}:1", f"is larger than {largest_bytes // 1024} KiB, too large for one entry")
        )
    try:
        # ``no`` is Norway in an entry, and a ``<<`` of another gateway's file is expanded by its reader.
        document = read_document(decoded(raw), Dialect(most_values, yes_is_true=False, merges=False))
    except UnreadableText as wrong:
        raise UnreadableFile(CatalogFault(f"{shown}:{wrong.line}", wrong.message)) from None
    if document.tree is None:
        raise UnreadableFile(
            CatalogFault(f"{shown}:1", "is empty; write display_name, categories, auth_mode and proxy")
        )
    return CatalogDocument(shown, document)


def shown_path(path: Path) -> str:
    """`path` as people will read it: from the current folder where it lies below that, else in full."""
    full = path.absolute()
    here = Path.cwd()
    return str(full.relative_to(here) if full.is_relative_to(here) else full)
