"""Connecting an end user: sessions, and what comes of them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gateway.openapi.answers.common import EndUser
from gateway.openapi.answers.model import Absent, Answer, Moment


class ConnectSession(Answer):
    session_id: str
    """By which the application completes it, and which the result of a return names; no secret."""
    token: str
    connect_link: str
    """The page to open for the end user."""
    expires_at: Moment
    poll_url: str
    """Where the key learns what became of it."""


class ConnectSessionAnswer(Answer):
    data: ConnectSession


class SessionConnection(Answer):
    provider_config_key: str
    connection_id: str
    is_pending: bool


class SessionError(Answer):
    type: str
    """As the browser's library names it."""
    code: str
    message: str
    provider_config_key: str


class SessionOutcome(Answer):
    status: Literal["pending", "connected", "expired"]
    connections: list[SessionConnection]
    error: SessionError | Absent = None
    """Of the last attempt, if that failed; the end user may try again while the session lives."""
    expires_at: Moment | Absent = None


class SessionResult(Answer):
    data: SessionOutcome


class CompletedSession(Answer):
    status: Literal["connected"]
    connections: list[SessionConnection]


class CompletionAnswer(Answer):
    data: CompletedSession


class Session(Answer):
    """As the published page reads it."""

    endUser: EndUser | None  # noqa: N815
    connectUISettings: dict[str, Any]  # noqa: N815
    websocketsPath: str  # noqa: N815
    allowed_integrations: list[str] | Absent = None
    integrations_config_defaults: dict[str, Any] | Absent = None
    overrides: dict[str, Any] | Absent = None
    isReconnecting: Literal[True] | Absent = None  # noqa: N815


class SessionAnswer(Answer):
    data: Session


class Connected(Answer):
    connectionId: str  # noqa: N815 (as the browser's library reads it)
    providerConfigKey: str  # noqa: N815
    isPending: Literal[True] | Absent = None  # noqa: N815
    """The application has yet to complete it."""


class ClientMetadata(BaseModel):
    """RFC 7591 §2."""

    model_config = ConfigDict(extra="allow")

    client_id: str
    redirect_uris: list[str]
