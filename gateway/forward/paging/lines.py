"""The lines of a list: records as they came, and ours, which no record can be taken for.

A line of ours begins with the very bytes ``{"gateway_``; a record that would begin so gets a blank behind its brace, which
means nothing to JSON. The trailer is the last line, always; a stream without one was cut.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.errors import GatewayError
from gateway.forward.passed import PassedAnswer
from gateway.wire.browser import NOT_RENDERED
from gateway.wire.paging.records import Records

OURS: Final = b'{"gateway_'
TRAILER: Final = "gateway_trailer"
MARK: Final = "gateway_page"
BATCH_BYTES: Final = 64 * 1024


def page_stream() -> PassedAnswer:
    """The head of the answer, before anyone has said how it is paged."""
    fields = [
        ("Content-Type", "application/x-ndjson"),
        ("Cache-Control", "no-store"),
        ("X-Accel-Buffering", "no"),  # nginx in front of us would hold records back
        *NOT_RENDERED,
    ]
    return PassedAnswer(200, "OK", fields, None)


def batches(records: Records) -> Iterator[bytes]:
    """Whole lines, some `BATCH_BYTES` at a time."""
    batch = bytearray()
    for record in records:
        batch += b"{ " + record[1:] if record.startswith(OURS) else record
        batch += b"\n"
        if len(batch) >= BATCH_BYTES:
            yield bytes(batch)
            batch.clear()
    if batch:
        yield bytes(batch)


def line_of(name: str, told: Mapping[str, Any]) -> bytes:
    """One of ours, ASCII throughout."""
    return json.dumps({name: told}, separators=(",", ":")).encode() + b"\n"


def error_of(fault: GatewayError) -> dict[str, Any]:
    """As the body of an error has it, with the status that it would have had."""
    return {"status": fault.status, **fault.as_json()}
