"""What goes over the line arrives as it was sent."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

from multidict import CIMultiDict

from gateway.courier.errand import Brought, Errand, Way, framed, received
from gateway.egress.errors import EgressError
from gateway.records.call import Call, ClientIdentity, Reply
from gateway.secret import Secret
from gateway.store.notes import Note, new_key

NOTE = Note(Path("/var/lib/x-pairs"), "a1", '{"row": "u1"}', new_key())
WAY = Way((("10.0.0.0/8", None), ("127.0.0.1/32", 80)), "http://user:secret@proxy:1", 5.0, 10)


def test_an_errand_is_whole_with_its_identity_and_any_bytes() -> None:
    identity = ClientIdentity("certificate", Secret("private key"))
    call = Call("https://a.example/token?x=é", {"X-A": "ü"}, bytes(range(256)), method="PUT", identity=identity)
    errand = Errand(call, WAY, NOTE, 2, 28.0, 1 << 20)
    assert Errand.of_json(json.loads(json.dumps(errand.as_json()))) == errand
    bare = Errand(Call("https://a.example/token"), WAY, NOTE, 0, 28.0, 1 << 20)
    assert Errand.of_json(json.loads(json.dumps(bare.as_json()))) == bare


def test_no_secret_of_it_shows() -> None:
    identity = ClientIdentity("certificate", Secret("private key"))
    call = Call("https://a.example/token", {"Authorization": "Basic old"}, b"refresh_token=old", identity=identity)
    shown = repr(Errand(call, WAY, NOTE, 0, 28.0, 1 << 20))
    assert not [secret for secret in ("old", "private key", "user:secret", str(NOTE.key)) if secret in shown]


def test_what_came_of_it_is_whole() -> None:
    fields = CIMultiDict([("Set-Cookie", "a"), ("Set-Cookie", "b")])
    reply = Reply(200, fields, bytes(range(256)), datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC))
    brought = Brought.of_json(json.loads(json.dumps(Brought(True, reply).as_json())))
    assert (brought.noted, brought.reply) == (True, reply)
    fault = Brought.of_json(Brought(False, fault=EgressError("tls", "no", sent=False)).as_json()).fault
    assert fault is not None
    assert (fault.kind, fault.message, fault.sent) == ("tls", "no", False)


async def test_a_message_that_is_cut_off_is_the_end() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(framed({"id": 1}) + framed({"id": 2})[:-1])
    reader.feed_eof()
    assert await received(reader) == {"id": 1}
    assert await received(reader) is None
