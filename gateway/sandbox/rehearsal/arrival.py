"""A request as it reached the sandbox."""

import base64
import binascii
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus

from gateway.records.call import scrubbed

_OURS: Final = frozenset({"host", "user-agent", "accept-encoding", "connection", "content-length", "via", "date"})
LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Arrival:
    """`role` is what the entry calls the address it came to: ``token_url``, ``proxy`` …; `target` is as sent."""

    role: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @property
    def kind(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def params(self, body_format: str | None) -> dict[str, Any]:
        """Its parameters, read as `body_format` says; empty where they are not to be found there."""
        if body_format == "query" or self.method in {"GET", "HEAD"}:
            return self.query
        if body_format == "json":
            try:
                found = json.loads(self.body or b"{}")
            except ValueError:
                return {}
            return found if isinstance(found, dict) else {}
        return dict(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))

    def basic(self) -> tuple[str, str] | None:
        """User name and password of Basic authentication, as they are and not percent-decoded."""
        scheme, _, text = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return name, password

    def shown(self, secrets: Collection[str]) -> list[str]:
        """A line for the request and one for each field that says something, credentials masked."""
        known = tuple(secrets)
        lines = [f"{self.method} {scrubbed(self.target, known)}"]
        for name, value in self.headers.items():
            folded = name.lower()
            if folded == "authorization":
                lines.append(f"{name}: {value.partition(' ')[0]} ***")
            elif folded not in _OURS:
                lines.append(f"{name}: {scrubbed(value, known)}")
        if self.body:
            text = self.body.decode("utf-8", "replace")
            lines.append(re.sub(r"\s+", " ", scrubbed(text, known))[:LONGEST])
        return lines


def decoded(text: str) -> str:
    """RFC 6749 §2.3.1 has client ID and secret form-encoded before they go into Basic."""
    return unquote_plus(text)
