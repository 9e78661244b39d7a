"""What a token endpoint answered, as it is noted by another process than the one that asked for it (ADR 33).

That process has no key of the store. It seals under a key of this one attempt, which lies beside the note, sealed itself like
any value of the database.
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

from gateway.records.call import Call, Reply

KEY_BITS: Final = 256
NONCE_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Note:
    """Where and how the answers of one attempt are to be noted.

    `place`: what the file's name begins with. `about`: whose they are, as JSON, with the sealed `key` in it.
    """

    place: Path
    attempt: str
    about: str
    key: bytes = field(repr=False)

    def head(self, step: int) -> bytes:
        """The line that a record of the attempt's `step`, counted from 0, begins with. Alone it says: under way."""
        return json.dumps({**json.loads(self.about), "step": step}).encode() + b"\n"

    def record(self, step: int, call: Call, reply: Reply) -> bytes:
        """`reply` to `call`, sealed."""
        head, nonce = self.head(step), os.urandom(NONCE_BYTES)
        plain = {
            "call": named(call),
            "status": reply.status,
            "headers": list(reply.headers.items()),
            "body": base64.b64encode(reply.body).decode(),
            "asked_at": reply.asked_at.isoformat(),
        }
        return head + nonce + AESGCM(self.key).encrypt(nonce, json.dumps(plain).encode(), head)


@dataclass(frozen=True, slots=True)
class Noted:
    """An answer that was found. `call` names the request, as `named` does."""

    call: str = field(repr=False)
    reply: Reply


def new_key() -> bytes:
    return AESGCM.generate_key(KEY_BITS)


def new_attempt() -> str:
    return secrets.token_hex(8)


def named(call: Call) -> str:
    return f"{call.method} {call.url}"


def opened(key: bytes, about: Mapping[str, Any], sealed: bytes) -> Noted | None:
    """What `record` has sealed; None where it was not written whole, or changed."""
    head = json.dumps(about).encode() + b"\n"
    try:
        value = json.loads(AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], head))
    except (InvalidTag, ValueError):
        return None
    headers = CIMultiDict(value["headers"])
    asked_at = datetime.fromisoformat(value["asked_at"])
    return Noted(value["call"], Reply(value["status"], headers, base64.b64decode(value["body"]), asked_at))
