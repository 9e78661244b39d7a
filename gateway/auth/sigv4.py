"""AWS Signature Version 4: the canonical form of a request, and its signature (AWS General Reference, "SigV4").

The signature covers the path and the query as they are sent, byte for byte; nothing here changes them.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from gateway.secret import Secret

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
EMPTY: Final = hashlib.sha256(b"").hexdigest()
# What a hop on the way may change, what is written after us, or what is the signature itself.
NOT_SIGNED: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "expect",
        "te",
        "transfer-encoding",
        "user-agent",
        "x-amzn-trace-id",
    }
)
_SPACES: Final = re.compile(r" +")
Fields = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Keys:
    """An access key, and the session token that comes with a temporary one."""

    access_key_id: str
    secret_access_key: Secret = field(repr=False)
    session_token: Secret | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Scope:
    """For which region and service a signature holds."""

    region: str
    service: str

    @property
    def is_s3(self) -> bool:
        """S3 encodes paths once, not twice, and takes bodies that are not signed."""
        return self.service in {"s3", "s3-outposts", "s3-object-lambda", "s3express"}


def authorization(
    keys: Keys, scope: Scope, method: str, target: str, fields: Fields, payload_hash: str, at: datetime
) -> str:
    """The value of ``Authorization``. `target` is path and query as sent, `fields` all that are sent, Host among them."""
    lines = _lines(fields)
    names = ";".join(name for name, _ in lines)
    request = canonical_request(method, target, lines, payload_hash, once=scope.is_s3)
    day = f"{at:%Y%m%d}"
    place = f"{day}/{scope.region}/{scope.service}/aws4_request"
    text = "\n".join([ALGORITHM, stamp(at), place, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{keys.secret_access_key.reveal()}".encode()
    for part in (day, scope.region, scope.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return f"{ALGORITHM} Credential={keys.access_key_id}/{place}, SignedHeaders={names}, Signature={signature}"


def canonical_request(
    method: str, target: str, lines: list[tuple[str, str]], payload_hash: str, *, once: bool = False
) -> str:
    """`lines`: lower-case names in order with their values. `once`: the path is encoded once, as S3 has it."""
    path, _, query = target.partition("?")
    names = ";".join(name for name, _ in lines)
    headers = "".join(f"{name}:{value}\n" for name, value in lines)
    return "\n".join([method, _canonical_path(path, once=once), _canonical_query(query), headers, names, payload_hash])


def stamp(at: datetime) -> str:
    """``20150830T123600Z``."""
    return f"{at:%Y%m%dT%H%M%SZ}"


def _lines(fields: Fields) -> list[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for name, value in fields:
        if (lower := name.lower()) not in NOT_SIGNED:
            found.setdefault(lower, []).append(_SPACES.sub(" ", value.strip()))
    return [(name, ",".join(values)) for name, values in sorted(found.items())]


def _canonical_path(path: str, *, once: bool) -> str:
    if once:
        return quote(unquote_to_bytes(path), safe="/~")
    # Each segment is encoded as it stands on the wire, so a second time; empty segments count for nothing.
    segments = [segment for segment in path.split("/") if segment]
    ending = "/" if segments and path.endswith("/") else ""
    return "/" + "/".join(quote(segment, safe="~") for segment in segments) + ending


def _canonical_query(query: str) -> str:
    pairs = []
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        pairs.append((_encoded(name), _encoded(value)))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def _encoded(text: str) -> str:
    return quote(unquote_plus(text, errors="surrogateescape").encode("utf-8", "surrogateescape"), safe="~")
