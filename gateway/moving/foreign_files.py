"""Reads connections and integrations from a file: a bundle, JSON Lines or CSV."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final, Literal

from gateway.errors import GatewayError
from gateway.http.strict_json import parse
from gateway.moving.bundle import KIND_MEMBER, LINE_LIMIT_BYTES, Counts, check_version, parse_lines, peer_integration_of
from gateway.moving.moved_connection import (
    CONNECTION_MEMBERS,
    MovedConnection,
    SourceRefused,
    UnusableConnection,
    parse_connection,
)
from gateway.moving.peer import PeerIntegration
from gateway.moving.sealed_stream import MAGIC, decrypt
from gateway.secret import Secret

# ── Connections in JSON Lines and CSV. A row that cannot be read is reported with its line number, and the import
# continues.

SourceItem = MovedConnection | PeerIntegration | UnusableConnection
COLUMN_ALIASES: Final[Mapping[str, str]] = {
    "integration": "provider_config_key",
    "integration_id": "provider_config_key",
    "end_user_id": "end_user.id",
    "end_user_email": "end_user.email",
    "end_user_display_name": "end_user.display_name",
    "api_key": "credentials.apiKey",
}
_KIND: Final = re.compile(rb'\s*\{"kind":\s*"(\w+)"')
MEMBER_GROUPS: Final = ("credentials", "connection_config", "metadata", "tags", "end_user")


def json_lines(source: IO[bytes], integration: str | None) -> Iterator[SourceItem]:
    """Yield a connection for each line, which is the body of ``POST /connections`` or a flat object.

    The lines of ``export --plain`` are also accepted; an incomplete export is reported after all its lines were read.
    `integration`: the key of the integration for lines that name none; None: each line must name its integration.
    Raises SourceRefused for a line that is too long, and for an export of another version.
    """
    line_number = 0
    export = PlainExport()
    while line := source.readline(LINE_LIMIT_BYTES + 1):
        line_number += 1
        if len(line) > LINE_LIMIT_BYTES:
            raise SourceRefused(f"Line {line_number} is longer than {LINE_LIMIT_BYTES >> 20} MiB.")
        if not line.strip():
            continue
        try:
            value = parse(line)
        except GatewayError as fault:
            yield UnusableConnection(
                "", "", "invalid_json", f"line {line_number}: {fault.message.replace('The body', 'it')}"
            )
            continue
        kind = value.pop(KIND_MEMBER, "connection") if isinstance(value, dict) else "connection"
        if export.ends_incomplete(kind, value):
            yield _incomplete(line_number)
        if kind == "connection":
            yield _connection_of(value, line_number, integration)
        elif kind == "integration":
            yield _integration_of(value, line_number)
        elif kind not in ("bundle", "end"):
            problem = f"line {line_number}: 'kind' must be connection or integration, or be left out"
            yield UnusableConnection("", "", "invalid_row", problem)
    if export.is_open:
        yield _incomplete(line_number)


class PlainExport:
    """Compares the lines of a plain export with the numbers in its end line.

    Only lines after a head line are counted, so a file without a head is accepted with any number of lines.
    """

    def __init__(self) -> None:
        self._counts: Counts | None = None

    @property
    def is_open(self) -> bool:
        """Whether there was a head line without an end line after it."""
        return self._counts is not None

    def ends_incomplete(self, kind: Any, line: Mapping[str, Any]) -> bool:
        """Count the line. Return whether an incomplete export ends with this line, or directly before it.

        Raises SourceRefused for a head of another version.
        """
        counts = self._counts
        if kind == "bundle":
            check_version(line)
            self._counts = Counts()
            return counts is not None
        if counts is None:
            return False
        if kind != "end":
            counts.add(kind)
            return False
        self._counts = None
        return counts != Counts(
            line.get("integrations", counts.integrations), line.get("connections", counts.connections)
        )


def _incomplete(line_number: int) -> UnusableConnection:
    problem = (
        f"line {line_number}: the export that ends here is incomplete: it was interrupted, or lines are missing. Import a "
        "complete export; if you have removed lines yourself, remove those of kind bundle and end too"
    )
    return UnusableConnection("", "", "incomplete", problem)


def csv_rows(source: IO[bytes], integration: str | None, column_names: Mapping[str, str]) -> Iterator[SourceItem]:
    """Yield a connection for each row. Raises SourceRefused for faulty columns.

    `integration`: the key of the integration for rows that name none; None: the file must have a column with the key.
    `column_names`: maps the name of a column in the file to the gateway's name for this column.
    """
    text = io.TextIOWrapper(source, encoding="utf-8-sig", newline="")
    reader = csv.reader(text)
    try:
        columns = [_path_of(column_names.get(name.strip(), name.strip())) for name in next(reader, [])]
        _check_columns(columns, integration)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            line_number = reader.line_num
            if len(cells) != len(columns):
                problem = f"line {line_number}: it has {len(cells)} cells, but the first line has {len(columns)}"
                yield UnusableConnection("", "", "invalid_row", problem)
                continue
            yield _connection_of(_row(columns, cells), line_number, integration)
    except (csv.Error, UnicodeDecodeError) as fault:
        raise SourceRefused(f"Line {reader.line_num + 1} is not CSV in UTF-8: {fault}.") from None
    finally:
        text.detach()


def count_connections(source: IO[bytes], kind: str) -> int:
    """Read `source` to its end and return the number of connections, for the progress bar. Return 0 for invalid CSV."""
    if kind != "csv":
        return sum(_is_connection(line) for line in source if line.strip())
    text = io.TextIOWrapper(source, encoding="utf-8-sig", newline="")
    try:
        return max(0, sum(any(cell.strip() for cell in cells) for cells in csv.reader(text)) - 1)
    except (csv.Error, UnicodeDecodeError):
        return 0  # `csv_rows` reports the line
    finally:
        text.detach()


def _is_connection(line: bytes) -> bool:
    """Return whether a line is a connection. A line of an export begins with its ``kind``; other lines have none."""
    match = _KIND.match(line)
    return match is None or match[1] == b"connection"


def _integration_of(value: dict[str, Any], line_number: int) -> SourceItem:
    try:
        return peer_integration_of(value)
    except SourceRefused as fault:
        return UnusableConnection("", "", "invalid_row", f"line {line_number}: {fault}")


def _connection_of(value: Any, line_number: int, integration: str | None) -> SourceItem:
    try:
        return replace(parse_connection(value, default_integration=integration), line=line_number)
    except GatewayError as fault:
        key = value.get("provider_config_key") if isinstance(value, dict) else None
        name = value.get("connection_id") if isinstance(value, dict) else None
        return UnusableConnection(_text(key), _text(name), fault.code, f"line {line_number}: {fault.message}")


def _text(value: Any) -> str:
    return value[:255] if isinstance(value, str) else ""


def _path_of(column: str) -> tuple[str, ...]:
    """Return the path of a column's values in a connection, such as ``("credentials", "access_token")``."""
    column = COLUMN_ALIASES.get(column, column)
    group, dot, name = column.partition(".")
    if dot and group in MEMBER_GROUPS:
        return (group, *name.split(".")) if (group, name) == ("end_user", "organization.id") else (group, name)
    if column in CONNECTION_MEMBERS and column not in MEMBER_GROUPS:
        return (column,)
    return ("credentials", column)


def _check_columns(columns: list[tuple[str, ...]], integration: str | None) -> None:
    if not columns:
        raise SourceRefused("The file is empty. Its first line must name the columns.")
    repeated = {".".join(column) for column in columns if columns.count(column) > 1}
    if repeated:
        raise SourceRefused(f"Two columns stand for {', '.join(sorted(repeated))}. Remove one.")
    if ("provider_config_key",) not in columns and integration is None:
        raise SourceRefused("There is no column 'provider_config_key'. Name the integration with --into.")


def _row(columns: list[tuple[str, ...]], cells: list[str]) -> dict[str, Any]:
    """Return a row as a nested object. Empty cells are left out."""
    row: dict[str, Any] = {"credentials": {}}
    for path, cell in zip(columns, cells, strict=True):
        if cell == "":
            continue
        inner = row
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = cell
    return row


# ── Detecting the kind of a file, and reading the file.

Kind = Literal["bundle", "jsonl", "csv"]
KINDS: Final = ("bundle", "jsonl", "csv")


def kind_of(path: Path, source: IO[bytes]) -> Kind:
    """Return the kind of a file: a bundle by its first bytes, CSV by its ending .csv, otherwise JSON Lines.

    Reads nothing from `source`, which can be a pipe.
    """
    if isinstance(source, io.BufferedReader) and source.peek(len(MAGIC)).startswith(MAGIC):
        return "bundle"
    return "csv" if path.suffix.lower() == ".csv" else "jsonl"


def read_bundle(source: IO[bytes], passphrase: Secret) -> Iterator[SourceItem]:
    """Yield the contents of a bundle that `bundle.check_bundle` has accepted."""
    for line in parse_lines(decrypt(source, passphrase)):
        kind = line.pop(KIND_MEMBER, None)
        if kind == "integration":
            yield peer_integration_of(line)
        elif kind == "connection":
            yield parse_connection(line)


def read_table(
    source: IO[bytes], kind: Kind, integration: str | None, column_names: Mapping[str, str]
) -> Iterator[SourceItem]:
    """Yield the contents of a file in JSON Lines or CSV."""
    return csv_rows(source, integration, column_names) if kind == "csv" else json_lines(source, integration)
