"""Writes and reads bundles. A bundle has one line of JSON for the head, each integration, each connection, and the end.

The end line has the numbers of integrations and connections. `check_bundle` compares them before an import.
``gateway connections export --plain`` writes the same lines without encryption. An import reads such a file as JSON
Lines, and reports wrong numbers after it has imported the lines.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, Final, Protocol

from gateway.api.integration_shapes import credentials_json
from gateway.errors import GatewayError
from gateway.http.strict_json import parse
from gateway.moving.moved_connection import SourceRefused, body_of, parse_connection
from gateway.moving.peer import PeerIntegration
from gateway.moving.sealed_stream import decrypt
from gateway.records.connection import Connection
from gateway.records.integration import Integration
from gateway.runtime import Runtime
from gateway.secret import Secret
from gateway.timestamps import iso

KIND_MEMBER: Final = "kind"
VERSION: Final = 1
LINE_LIMIT_BYTES: Final = 16 << 20


class BundleSink(Protocol):
    def write(self, plain: bytes) -> object: ...


@dataclass(slots=True)
class Counts:
    integrations: int = 0
    connections: int = 0

    def add(self, kind: Any) -> None:
        """Count a line of the kind `kind`. Only integrations and connections are counted."""
        self.integrations += kind == "integration"
        self.connections += kind == "connection"


async def write_lines(
    runtime: Runtime,
    sink: BundleSink,
    integrations: list[Integration],
    connections: AsyncIterator[Connection],
    *,
    environment: str,
    now: datetime,
    step: Callable[[int], None],
) -> Counts:
    """Write all lines of a bundle to `sink`, with only one connection at a time in memory. Return the counts.

    `step`: called after each connection with the number of connections so far. Raises VaultError if a credential cannot
    be decrypted.
    """
    counts = Counts()

    def write_line(kind: str, record: dict[str, Any]) -> None:
        sink.write(
            json.dumps({KIND_MEMBER: kind, **record}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        )

    write_line("bundle", {"version": VERSION, "environment": environment, "made_at": iso(now)})
    for integration in integrations:
        write_line("integration", _integration_json(runtime, integration))
        counts.integrations += 1
    async for connection in connections:
        write_line("connection", body_of(runtime.store, connection))
        counts.connections += 1
        step(counts.connections)
    write_line("end", {"integrations": counts.integrations, "connections": counts.connections})
    return counts


def parse_lines(chunks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield every line as a JSON object. Raises SourceRefused if a line is too long or is not a JSON object."""
    incomplete_line, line_number = b"", 0
    for chunk in chunks:
        *complete_lines, incomplete_line = (incomplete_line + chunk).split(b"\n")
        if len(incomplete_line) > LINE_LIMIT_BYTES:
            raise SourceRefused(
                f"Line {line_number + len(complete_lines) + 1} is longer than {LINE_LIMIT_BYTES >> 20} MiB."
            )
        for line in complete_lines:
            line_number += 1
            if line.strip():
                yield _parse_line(line, line_number)
    if incomplete_line.strip():
        yield _parse_line(incomplete_line, line_number + 1)


def check_bundle(source: IO[bytes], passphrase: Secret) -> Counts:
    """Read the whole bundle and return its counts. Raises SourceRefused if the bundle is incomplete or unreadable.

    This check runs before an import, so that a faulty bundle is not imported in part.
    """
    counts = Counts()
    end_record: Mapping[str, Any] | None = None
    unreadable_reason: str | None = None
    for line in parse_lines(decrypt(source, passphrase)):
        end_record, kind = line, line.get(KIND_MEMBER)
        counts.add(kind)
        if kind == "bundle":
            check_version(line)
        elif unreadable_reason is None:
            unreadable_reason = _import_fault(line, kind)
    written_counts = (counts.integrations, counts.connections)
    if (
        end_record is None
        or end_record.get(KIND_MEMBER) != "end"
        or written_counts != (end_record.get("integrations"), end_record.get("connections"))
    ):
        raise SourceRefused("The bundle is incomplete: its export was interrupted. Export it again.")
    if unreadable_reason is not None:
        raise SourceRefused(f"The bundle cannot be read by this version: {unreadable_reason} Nothing was imported.")
    return counts


def check_version(head: Mapping[str, Any]) -> None:
    """Raise SourceRefused if the export has another version than this gateway reads."""
    if (version := head.get("version", VERSION)) != VERSION:
        raise SourceRefused(f"The export has version {version}, and this gateway reads {VERSION}. Update the gateway.")


def _import_fault(line: dict[str, Any], kind: Any) -> str | None:
    """Return why a line cannot be imported; None if the line can be imported."""
    try:
        if kind == "integration":
            peer_integration_of(line)
        elif kind == "connection":
            parse_connection({name: value for name, value in line.items() if name != KIND_MEMBER})
        elif kind != "end":
            return f"it has a line of kind '{kind}'."
    except SourceRefused as fault:
        return str(fault)
    except GatewayError as fault:
        return f"{line.get('provider_config_key')}/{line.get('connection_id')}: {fault.message}"
    return None


def _parse_line(line: bytes, line_number: int) -> dict[str, Any]:
    try:
        value = parse(line)
    except GatewayError as fault:
        raise SourceRefused(f"Line {line_number}: {fault.message.replace('The body', 'it')}") from None
    if not isinstance(value, dict):
        raise SourceRefused(f"Line {line_number} is not a JSON object.")
    return value


def peer_integration_of(line: dict[str, Any]) -> PeerIntegration:
    """Return the integration that a line of kind ``integration`` describes. Raises SourceRefused."""
    if not isinstance(line.get("credentials", {}), dict | None):
        raise SourceRefused("The credentials of an integration are not a JSON object.")
    try:
        return PeerIntegration(
            integration_id=line["unique_key"],
            provider=line["provider"],
            display_name=line.get("display_name"),
            forward_webhooks=line.get("forward_webhooks", True),
            allowed_hosts=line.get("allowed_hosts") or (),
            allow_unsigned_webhooks=line.get("allow_unsigned_webhooks") is True,
            credentials=line.get("credentials"),
        )
    except KeyError as fault:
        raise SourceRefused(f"An integration of the bundle has no {fault}.") from None


def _integration_json(runtime: Runtime, integration: Integration) -> dict[str, Any]:
    body = {
        "unique_key": integration.integration_id,
        "provider": integration.provider,
        "display_name": integration.display_name,
        "forward_webhooks": integration.forward_webhooks,
        "allowed_hosts": list(integration.allowed_hosts) or None,
        "allow_unsigned_webhooks": integration.allow_unsigned_webhooks,
        "credentials": credentials_json(runtime.generation, integration),
    }
    return {name: value for name, value in body.items() if value is not None}
