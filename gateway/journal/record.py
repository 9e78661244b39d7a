"""What a record of the journal holds.

The process that exchanges tokens has no key of the store. It seals each reply under a key of this one attempt; that key
lies in the record's head, itself sealed like a value of the database, so only a process with the store's keys reads it.
"""

import base64
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from multidict import CIMultiDict

from gateway.records.provider_call import ProviderCall, Reply

KEY_BITS: Final = 256
NONCE_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Entry:
    """Where and how the replies of one attempt to refresh a credential are recorded.

    `folder`: of the journal. `about`: whose they are, as JSON (ref, row, version, attempt, and the sealed `key`).
    """

    folder: Path
    attempt: str
    about: str
    key: bytes = field(repr=False)

    def head(self, step: int) -> bytes:
        """The head of the record of the attempt's call number `step`, counted from 0."""
        return json.dumps({**json.loads(self.about), "step": step}).encode()

    def sealed(self, step: int, call: ProviderCall, reply: Reply) -> bytes:
        """`reply` to `call`, bound to the record's head."""
        nonce = os.urandom(NONCE_BYTES)
        plain = {
            "call": call_name(call),
            "status": reply.status,
            "headers": list(reply.headers.items()),
            "body": base64.b64encode(reply.body).decode(),
            "asked_at": reply.asked_at.isoformat(),
        }
        return nonce + AESGCM(self.key).encrypt(nonce, json.dumps(plain).encode(), self.head(step) + b"\n")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A reply that was read from the journal. `call` names the request, as `call_name` does."""

    attempt: str
    step: int
    call: str = field(repr=False)
    reply: Reply


def new_key() -> bytes:
    return AESGCM.generate_key(KEY_BITS)


def new_attempt() -> str:
    return secrets.token_hex(8)


def call_name(call: ProviderCall) -> str:
    return f"{call.method} {call.url}"


def opened(key: bytes, about: Mapping[str, Any], sealed: bytes) -> Recorded | None:
    """The reply that `Entry.sealed` has sealed; None if it was not written whole, or changed."""
    head = json.dumps(about).encode() + b"\n"
    try:
        value = json.loads(AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], head))
    except (InvalidTag, ValueError):
        return None
    asked_at = datetime.fromisoformat(value["asked_at"])
    reply = Reply(value["status"], CIMultiDict(value["headers"]), base64.b64decode(value["body"]), asked_at)
    return Recorded(about["attempt"], about["step"], value["call"], reply)
