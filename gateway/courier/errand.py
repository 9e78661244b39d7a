"""What goes between a gateway and its courier: errands one way, what came of them the other; JSON, after its length."""

import asyncio
import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from multidict import CIMultiDict

from gateway.egress.errors import EgressError
from gateway.records.call import Call, ClientIdentity, Reply
from gateway.secret import Secret
from gateway.store.notes import Note

RELEASE: Final = 1  # of what these messages look like: a courier is started from the files as they are by then
LENGTH: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Way:
    """How a call leaves. `allow`: the operator's openings, a network and a port each; `proxy` may hold a password."""

    allow: tuple[tuple[str, int | None], ...]
    proxy: str | None = field(repr=False)
    connect_s: float
    connections: int


@dataclass(frozen=True, slots=True)
class Errand:
    """One call. `step`: which of its attempt's calls, counted from 0."""

    call: Call
    way: Way
    note: Note
    step: int
    timeout_s: float
    limit_bytes: int

    def as_json(self) -> dict[str, Any]:
        call, identity = self.call, self.call.identity
        return {
            "url": call.url,
            "method": call.method,
            "headers": dict(call.headers),
            "body": None if call.body is None else base64.b64encode(call.body).decode(),
            "identity": None if identity is None else [identity.certificate, identity.private_key.reveal()],
            "way": [self.way.allow, self.way.proxy, self.way.connect_s, self.way.connections],
            "note": [
                str(self.note.place),
                self.note.attempt,
                self.note.about,
                base64.b64encode(self.note.key).decode(),
            ],
            "step": self.step,
            "timeout_s": self.timeout_s,
            "limit_bytes": self.limit_bytes,
        }

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> "Errand":
        body, identity = told["body"], told["identity"]
        call = Call(
            told["url"],
            told["headers"],
            None if body is None else base64.b64decode(body),
            method=told["method"],
            identity=None if identity is None else ClientIdentity(identity[0], Secret(identity[1])),
        )
        allow, proxy, connect_s, connections = told["way"]
        way = Way(tuple((network, port) for network, port in allow), proxy, connect_s, connections)
        place, attempt, about, key = told["note"]
        note = Note(Path(place), attempt, about, base64.b64decode(key))
        return cls(call, way, note, told["step"], told["timeout_s"], told["limit_bytes"])


@dataclass(frozen=True, slots=True)
class Brought:
    """What came back. `noted`: whether it outlives us; a fault is nothing that would."""

    noted: bool
    reply: Reply | None = None
    fault: EgressError | None = None

    def as_json(self) -> dict[str, Any]:
        if self.fault is not None:
            return {"fault": [self.fault.kind, self.fault.message, self.fault.sent]}
        assert self.reply is not None
        return {
            "noted": self.noted,
            "status": self.reply.status,
            "headers": list(self.reply.headers.items()),
            "body": base64.b64encode(self.reply.body).decode(),
            "asked_at": self.reply.asked_at.isoformat(),
        }

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> "Brought":
        if "fault" in told:
            kind, message, sent = told["fault"]
            return cls(False, fault=EgressError(kind, message, sent=sent))
        asked_at = datetime.fromisoformat(told["asked_at"])
        body = base64.b64decode(told["body"])
        return cls(told["noted"], Reply(told["status"], CIMultiDict(told["headers"]), body, asked_at))


def framed(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message).encode()
    return LENGTH.pack(len(text)) + text


async def received(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; None when the other end is gone."""
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        message: dict[str, Any] = json.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, OSError):
        return None
    return message
