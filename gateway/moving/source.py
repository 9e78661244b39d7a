"""A file ▸ what it holds: which kind it is, and its connections one after the other."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final, Literal

from gateway.errors import GatewayError
from gateway.moving.body import moved_of
from gateway.moving.bundle import KIND, integration_of, lines_of
from gateway.moving.moved import SourceRefused
from gateway.moving.sealed_stream import MAGIC, read
from gateway.moving.tables import Found, json_lines, rows
from gateway.secret import Secret

Kind = Literal["bundle", "jsonl", "csv"]
KINDS: Final = ("bundle", "jsonl", "csv")


def kind_of(path: Path, source: IO[bytes]) -> Kind:
    """By its first bytes, else by its name; it is read from its beginning afterwards."""
    begins = source.read(len(MAGIC))
    source.seek(0)
    if begins == MAGIC:
        return "bundle"
    return "csv" if path.suffix.lower() == ".csv" else "jsonl"


def of_bundle(source: IO[bytes], passphrase: Secret) -> Iterator[Found]:
    """Of one that was `bundle.checked`. Raises SourceRefused."""
    for line in lines_of(read(source, passphrase)):
        kind = line.pop(KIND, None)
        if kind == "integration":
            yield integration_of(line)
        elif kind == "connection":
            try:
                yield moved_of(line)
            except GatewayError as fault:
                raise SourceRefused(f"The bundle holds what this gateway does not read: {fault.message}") from None


def of_table(source: IO[bytes], kind: Kind, integration: str | None, renamed: Mapping[str, str]) -> Iterator[Found]:
    """Of JSON Lines or CSV."""
    return rows(source, integration, renamed) if kind == "csv" else json_lines(source, integration)
