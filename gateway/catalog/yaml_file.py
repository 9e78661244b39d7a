"""Reads a catalog file into plain values with their line numbers, and defines the faults of catalog files.

``no`` and ``2024-01-31`` stay text: only true, false, null and numbers are converted. Merge keys (``<<``) are not
supported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from gateway.config import document as config_faults
from gateway.documents.nodes import UnreadableText
from gateway.documents.read_document import Dialect, Document, decode_utf8, read_document

if TYPE_CHECKING:
    from gateway.catalog.load_catalog import Catalog

# ── Faults of catalog files. All faults are reported together, each as ``file:line: what is wrong, and what to do``.


@dataclass(frozen=True, slots=True)
class CatalogFault(config_faults.Fault):
    """A fault in a catalog file or folder. `where`: ``file:line``, or the folder.

    `level`: ``fault`` if the entry cannot be loaded; ``warning`` if only `lint` reports the finding.
    """

    level: Literal["fault", "warning"] = "fault"

    @property
    def line(self) -> int:
        """The line number in `where`; 0 for a folder."""
        _, _, line = self.where.rpartition(":")
        return int(line) if line.isdigit() else 0


class CatalogFaults(config_faults.Faults):
    """The catalog has faults. `faults`: all faults. `catalog`: a catalog of the entries that have no faults."""

    faults: tuple[CatalogFault, ...]

    def __init__(self, faults: Sequence[CatalogFault], catalog: "Catalog") -> None:
        super().__init__(faults)
        self.catalog = catalog


MAX_FILE_BYTES: Final = 256 * 1024
MAX_VALUES: Final = 20_000  # each use of a YAML alias counts, which stops a "billion laughs" attack


class UnreadableFile(Exception):
    """The file cannot be parsed into values. `fault`: the reason."""

    def __init__(self, fault: CatalogFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class CatalogDocument:
    """A parsed file. `value`: the content. `faults`: YAML faults that do not prevent reading the rest of the file."""

    def __init__(self, shown_path: str, document: Document) -> None:
        self._path = shown_path
        self._document = document
        self.value: Any = document.tree
        self.faults = [CatalogFault(f"{shown_path}:{fault.line}", fault.message) for fault in document.faults]

    def file_and_line(self, *path: str | int) -> str:
        """Return the file and the line of `path`, or of its nearest parent in the file: ``catalog/jira.yaml:7``."""
        return f"{self._path}:{self._document.line(tuple(map(str, path)))}"


def read_yaml(path: Path, *, max_bytes: int = MAX_FILE_BYTES, max_values: int = MAX_VALUES) -> CatalogDocument:
    """Read the YAML file at `path`. The default limits are the limits of one catalog entry.

    Raises UnreadableFile if the file is missing, not UTF-8, not YAML, too large or empty.
    """
    path_text = shown_path(path)
    try:
        raw = path.read_bytes()
    except OSError as fault:
        raise UnreadableFile(CatalogFault(f"{path_text}:1", f"cannot be read: {fault.strerror}")) from None
    if len(raw) > max_bytes:
        raise UnreadableFile(
            CatalogFault(f"{path_text}:1", f"is larger than {max_bytes // 1024} KiB, too large for one entry")
        )
    try:
        # ``no`` stays text, because it can mean Norway. Merge keys are off: `authoring.conversion` expands ``<<`` itself.
        document = read_document(decode_utf8(raw), Dialect(max_values, yes_is_true=False, merges=False))
    except UnreadableText as fault:
        raise UnreadableFile(CatalogFault(f"{path_text}:{fault.line}", fault.message)) from None
    if document.tree is None:
        raise UnreadableFile(
            CatalogFault(f"{path_text}:1", "is empty; write display_name, categories, auth_mode and proxy")
        )
    return CatalogDocument(path_text, document)


def shown_path(path: Path) -> str:
    """Return `path` for display: relative if it is below the current folder, else absolute."""
    absolute_path = path.absolute()
    folder = Path.cwd()
    return str(absolute_path.relative_to(folder) if absolute_path.is_relative_to(folder) else absolute_path)
