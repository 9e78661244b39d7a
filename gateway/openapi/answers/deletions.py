"""What became of something that was deleted, and of its tokens."""

from typing import Literal

from gateway.openapi.answers.common import Success
from gateway.openapi.answers.model import Absent, Answer


class Revocation(Answer):
    """What became of one token at the provider."""

    token: str
    outcome: Literal["revoked", "already_invalid", "unsupported", "failed", "unavailable", "not_offered"]
    detail: str | Absent | None = None


class DeletedConnection(Success):
    at_provider: bool
    """Whether its tokens were ended at the provider; if not, they live on there until they expire or are revoked."""
    revocation: list[Revocation] | Absent = None
    """Absent if the provider offers no revocation, or `revoke=false` was sent."""


class DeletedConnections(Answer):
    deleted: int
    revocation: dict[str, int]
    """How many tokens had which outcome."""


class DeletedIntegration(Success):
    connections: DeletedConnections | Absent = None
    """Those that went along; absent where there were none."""
