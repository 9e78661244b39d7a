"""A message of the token exchange contains the same values after it was encoded and decoded."""

import asyncio
import json
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from gateway.egress.egress_errors import EgressError
from gateway.journal import Entry, new_key
from gateway.process.channel import Channel
from gateway.process.handshake import frame_message, receive_now, send_now
from gateway.records.provider_call import ClientIdentity, ProviderCall, Reply
from gateway.refresh.exchange_message import EgressRoute, ExchangeRequest, fault_as_json, reply_as_json, reply_of_json
from gateway.secret import Secret

ENTRY = Entry(Path("/var/lib/x-refresh-journal"), "a1", {"row": "u1"}, new_key())
ROUTE = EgressRoute((("10.0.0.0/8", None), ("127.0.0.1/32", 80)), "http://user:secret@proxy:1", 5.0, 10)
AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_request_is_decoded_completely() -> None:
    identity = ClientIdentity("certificate", Secret("private key"))
    call = ProviderCall("https://a.example/token?x=é", {"X-A": "ü"}, bytes(range(256)), method="PUT", identity=identity)
    request = ExchangeRequest(call, ROUTE, ENTRY, 2, 28.0, 1 << 20, AT)
    assert ExchangeRequest.from_json(json.loads(json.dumps(request.as_json()))) == request
    bare = ExchangeRequest(ProviderCall("https://a.example/token"), ROUTE, None, 0, 28.0, 1 << 20, AT)
    assert ExchangeRequest.from_json(json.loads(json.dumps(bare.as_json()))) == bare


def test_request_prints_no_secret() -> None:
    identity = ClientIdentity("certificate", Secret("private key"))
    call = ProviderCall(
        "https://a.example/token", {"Authorization": "Basic spent"}, b"refresh_token=spent", identity=identity
    )
    text = repr(ExchangeRequest(call, ROUTE, ENTRY, 0, 28.0, 1 << 20, AT))
    assert not [secret for secret in ("spent", "private key", "user:secret", str(ENTRY.key)) if secret in text]


def test_outcome_is_decoded_completely() -> None:
    fields = CIMultiDict([("Set-Cookie", "a"), ("Set-Cookie", "b")])
    reply = Reply(200, fields, bytes(range(256)), AT)
    assert reply_of_json(json.loads(json.dumps(reply_as_json(reply)))) == reply
    with pytest.raises(EgressError) as raised:
        reply_of_json(json.loads(json.dumps(fault_as_json(EgressError("tls", "no", sent=False)))))
    assert (raised.value.kind, raised.value.message, raised.value.sent) == ("tls", "no", False)


async def test_truncated_message_ends_the_channel() -> None:
    own_end, other_end = socket.socketpair()
    received, lost = list[dict[str, Any]](), asyncio.Event()
    channel = Channel(received.append, lost.set)
    await channel.open(own_end)
    other_end.sendall(frame_message({"id": 1}) + frame_message({"id": 2})[:-1])
    other_end.close()
    await lost.wait()
    assert (received, channel.is_open) == ([{"id": 1}], False)
    channel.send({"nobody": "reads it"})
    await channel.close()


def test_message_carries_open_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("open")
    own_end, other_end = socket.socketpair()
    with own_end, (tmp_path / "file").open() as file:
        send_now(own_end, {"id": 1, "long": "x" * 10_000}, [file.fileno()])
        send_now(own_end, {"id": 2})
    with other_end:
        message, (descriptor,) = receive_now(other_end)
        with open(descriptor) as same:  # noqa: PTH123 (opens a descriptor by its number)
            assert (message["id"], same.read()) == (1, "open")
        assert receive_now(other_end) == ({"id": 2}, [])
        with pytest.raises(EOFError):
            receive_now(other_end)
