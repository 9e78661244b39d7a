"""The state that the sandbox's handlers share, under one AppKey."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gateway.sandbox.faults import SandboxFaults
from gateway.sandbox.sandbox_memory import SandboxMemory


@dataclass(frozen=True, slots=True)
class SandboxClient:
    """A registered application. Only a digest of its secret is stored. Redirect URIs are compared as whole strings."""

    client_id: str
    name: str
    secret_digest: str
    redirect_uris: tuple[str, ...]

    @classmethod
    def register(
        cls, client_id: str, secret: str, *redirect_uris: str, name: str = "Demo application"
    ) -> "SandboxClient":
        return cls(client_id, name, hashlib.sha256(secret.encode()).hexdigest(), redirect_uris)


Client = SandboxClient  # the name in release 0.2


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The state of a running sandbox.

    - `issuer`: the sandbox's origin, such as ``http://127.0.0.1:3004``
    - `clients`: the registered applications by client ID
    - `counts`: the counters that ``GET /sandbox/stats`` shows
    """

    issuer: str
    clients: Mapping[str, SandboxClient]
    memory: SandboxMemory
    faults: SandboxFaults = field(default_factory=SandboxFaults)
    counts: Counter[str] = field(default_factory=Counter)


SANDBOX: Final = web.AppKey("sandbox", Sandbox)
