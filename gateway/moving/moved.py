"""A connection on its way, whatever it comes from, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gateway.records.connection import EndUser
from gateway.records.past import Past


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """`provider`: its catalog entry there, where that is known. `own`: it was written by one of our gateways, so credential
    and settings are as they are stored and need no reading anew. `shown`: it is what another gateway shows of it, which is
    more than an auth mode asks for. `line`: of the file that it was read from.
    """

    integration_id: str
    connection_id: str | None
    credentials: Mapping[str, Any] = field(repr=False)
    provider: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, Any] | None = None
    tags: Mapping[str, str] | None = None
    end_user: EndUser | None = None
    webhook_url_override: str | None = None
    past: Past = field(default_factory=Past)
    own: bool = False
    shown: bool = False
    line: int | None = None


class Result(StrEnum):
    """`refused`: doing the same again ends the same. `failed`: trying again may help."""

    IMPORTED = "imported"
    REPLACED = "replaced"
    SKIPPED = "skipped"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one connection. `reason` is for programs, `detail` for people; neither holds a secret. `renewed`: what came of the
    test refresh, None where none was asked for. `notes`: what was changed on the way."""

    integration_id: str
    connection_id: str
    result: Result
    reason: str = ""
    detail: str = ""
    renewed: str | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told = {
            "integration": self.integration_id,
            "connection_id": self.connection_id,
            "result": self.result.value,
            "reason": self.reason,
            "detail": self.detail,
            "renewed": self.renewed,
            "notes": list(self.notes),
        }
        return {name: value for name, value in told.items() if value not in ("", None, [])}


class Unusable(Exception):
    """A connection that cannot even be tried, for a reason that lies in its source."""

    def __init__(
        self, integration_id: str, connection_id: str, reason: str, detail: str, *, again: bool = False
    ) -> None:
        super().__init__(detail)
        self.outcome = Outcome(
            integration_id=integration_id,
            connection_id=connection_id,
            result=Result.FAILED if again else Result.REFUSED,
            reason=reason,
            detail=detail,
        )


class SourceRefused(Exception):
    """The source as a whole cannot be read: a wrong key, a cut bundle. The text says what to do."""
