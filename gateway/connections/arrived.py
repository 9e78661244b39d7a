"""How an authorization ends: with a connection, or with a choice that the end user has yet to make."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from gateway.auth.context import Context
from gateway.auth.mode import GrantingMode
from gateway.catalog.provider import Provider
from gateway.records.connecting import Flow, PendingConnection
from gateway.records.connection import Connection
from gateway.scripts.context import Site
from gateway.secret import Secret

LIFETIME: Final = timedelta(minutes=10)  # of a flow


@dataclass(frozen=True, slots=True)
class Back:
    """The request by which a browser came back, for the log."""

    request_id: str = ""
    query: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """The end user is to choose a site. `token` goes into the page's form, the cookie shows that it is the same browser."""

    token: str
    sites: tuple[Site, ...]
    provider: Provider
    integration_id: str
    session_digest: str
    cookie_name: str
    cookie_value: Secret
    lang: str | None = None


@dataclass(frozen=True, slots=True)
class Arrived:
    """A connection that was just made, or is pending, and whose session it was."""

    connection: Connection | PendingConnection
    session_digest: str
    lang: str | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the application has yet to complete it."""
        return isinstance(self.connection, PendingConnection)


@dataclass(frozen=True, slots=True)
class Returned:
    """A flow that its own browser has come back to, used up by that."""

    flow: Flow
    mode: GrantingMode
    context: Context
    details: Mapping[str, Any] = field(repr=False)
