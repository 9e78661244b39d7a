"""Signs each request for AWS over the bytes that are forwarded.

What becomes of a body: a caller who knows its SHA-256 sends it as ``x-amz-content-sha256``, and the body streams, signed.
S3 over https takes bodies that are not signed (``UNSIGNED-PAYLOAD``), as its own clients send them, so these stream too.
All other services want the hash, which is known only when the last byte has come: such a body is held until then, up to
a limit.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from gateway import clock
from gateway.auth.sigv4 import UNSIGNED, Keys, Scope, authorization, stamp
from gateway.records.upstream import UpstreamRequest

HASH: Final = "x-amz-content-sha256"
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class SigV4Signer:
    """Writes ``Authorization``, ``X-Amz-Date`` and, with temporary keys, ``X-Amz-Security-Token``."""

    keys: Keys
    scope: Scope

    @property
    def fields(self) -> tuple[str, ...]:
        return ("authorization", "x-amz-date", "x-amz-security-token")

    @property
    def query_fields(self) -> tuple[str, ...]:
        return ()

    def wants_body(self, request: UpstreamRequest) -> bool:
        return HASH not in request.headers and not self._streams(request)

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        payload = request.headers.get(HASH) or self._hash(request, body)
        at = clock.now()
        for name in self.fields:
            request.headers.popall(name, None)
        request.headers["X-Amz-Date"] = stamp(at)
        if self.keys.session_token is not None:
            request.headers["X-Amz-Security-Token"] = self.keys.session_token.reveal()
        if self.scope.is_s3:
            request.headers["X-Amz-Content-Sha256"] = payload
        sent = [("host", host_of(request)), *request.headers.items()]
        request.headers["Authorization"] = authorization(
            self.keys, self.scope, request.method, request.target, sent, payload, at
        )

    def _streams(self, request: UpstreamRequest) -> bool:
        return self.scope.is_s3 and request.scheme == "https"

    def _hash(self, request: UpstreamRequest, body: bytes | None) -> str:
        if body is None:
            return UNSIGNED
        return hashlib.sha256(body).hexdigest()


def host_of(request: UpstreamRequest) -> str:
    """What ``Host`` will say."""
    host = f"[{request.host}]" if ":" in request.host else request.host
    return host if request.port == DEFAULT_PORTS[request.scheme] else f"{host}:{request.port}"
