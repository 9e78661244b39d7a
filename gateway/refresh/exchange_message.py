"""Converts a token exchange into a message from a worker to its parent, and its result into the message back."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from multidict import CIMultiDict

from gateway.egress.egress_errors import EgressError
from gateway.journal import Entry
from gateway.records.provider_call import ClientIdentity, ProviderCall, Reply
from gateway.refresh.token_exchange import ExchangeLost
from gateway.secret import Secret


@dataclass(frozen=True, slots=True)
class EgressRoute:
    """The network settings for a call.

    - `allow`: the internal networks that the operator allows, each with its port; None means all ports
    - `proxy`: the URL of the outbound proxy, which can contain a password; None means no proxy
    - `connect_s`: the timeout for connecting, in seconds
    - `connections`: the maximum number of connections per host
    """

    allow: tuple[tuple[str, int | None], ...]
    proxy: str | None = field(repr=False)
    connect_s: float
    connections: int


@dataclass(frozen=True, slots=True)
class ExchangeRequest:
    """A worker's request to its parent to run one token exchange.

    `asked_at`: the worker's time when it sends the request. The parent only adds the elapsed time to it, because only
    workers know the database's time.
    """

    call: ProviderCall
    route: EgressRoute
    entry: Entry | None
    step: int
    timeout_s: float
    limit_bytes: int
    asked_at: datetime

    def as_json(self) -> dict[str, Any]:
        call, identity, entry = self.call, self.call.identity, self.entry
        return {
            "url": call.url,
            "method": call.method,
            "headers": dict(call.headers),
            "body": None if call.body is None else base64.b64encode(call.body).decode(),
            "identity": None if identity is None else [identity.certificate, identity.private_key.reveal()],
            "route": [self.route.allow, self.route.proxy, self.route.connect_s, self.route.connections],
            "entry": None
            if entry is None
            else [str(entry.folder), entry.attempt, json.dumps(entry.about), base64.b64encode(entry.key).decode()],
            "step": self.step,
            "timeout_s": self.timeout_s,
            "limit_bytes": self.limit_bytes,
            "asked_at": self.asked_at.isoformat(),
        }

    @classmethod
    def from_json(cls, message: Mapping[str, Any]) -> "ExchangeRequest":
        body, identity, entry = message["body"], message["identity"], message["entry"]
        call = ProviderCall(
            message["url"],
            message["headers"],
            None if body is None else base64.b64decode(body),
            method=message["method"],
            identity=None if identity is None else ClientIdentity(identity[0], Secret(identity[1])),
        )
        allow, proxy, connect_s, connections = message["route"]
        route = EgressRoute(tuple((network, port) for network, port in allow), proxy, connect_s, connections)
        return cls(
            call,
            route,
            None
            if entry is None
            else Entry(Path(entry[0]), entry[1], json.loads(entry[2]), base64.b64decode(entry[3])),
            message["step"],
            message["timeout_s"],
            message["limit_bytes"],
            datetime.fromisoformat(message["asked_at"]),
        )


def reply_as_json(reply: Reply) -> dict[str, Any]:
    return {
        "status": reply.status,
        "headers": list(reply.headers.items()),
        "body": base64.b64encode(reply.body).decode(),
        "asked_at": reply.asked_at.isoformat(),
    }


def fault_as_json(fault: EgressError) -> dict[str, Any]:
    return {"fault": [fault.kind, fault.message, fault.sent], "lost": isinstance(fault, ExchangeLost)}


def reply_of_json(message: Mapping[str, Any]) -> Reply:
    """Return the reply in the message. If the exchange failed with an EgressError, raise that error."""
    if "fault" in message:
        kind, text, was_sent = message["fault"]
        raise (ExchangeLost if message["lost"] else EgressError)(kind, text, sent=was_sent)
    asked_at = datetime.fromisoformat(message["asked_at"])
    return Reply(message["status"], CIMultiDict(message["headers"]), base64.b64decode(message["body"]), asked_at)
