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
    """A registered application. Its secret is stored as a digest; redirect URIs are compared as whole strings."""

    client_id: str
    name: str
    secret_digest: str
    redirect_uris: tuple[str, ...]

    @classmethod
    def register(
        cls, client_id: str, secret: str, *redirect_uris: str, name: str = "Demo application"
    ) -> "SandboxClient":
        return cls(client_id, name, hashlib.sha256(secret.encode()).hexdigest(), redirect_uris)


Client = SandboxClient  # the name in 0.2


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The state of a running sandbox. `issuer`: its own origin, such as ``http://127.0.0.1:3004``. `counts`: shown by
    ``GET /sandbox/stats``."""

    issuer: str
    clients: Mapping[str, SandboxClient]
    memory: SandboxMemory
    faults: SandboxFaults = field(default_factory=SandboxFaults)
    counts: Counter[str] = field(default_factory=Counter)


SANDBOX: Final = web.AppKey("sandbox", Sandbox)
