"""Minted keys."""

from typing import Any, Literal

from gateway.openapi.answers.common import Success
from gateway.openapi.answers.model import Absent, Answer, Moment


class Key(Answer):
    """A minted key without the key itself."""

    id: int
    display_name: str
    kind: Literal["key", "capability"]
    last_four: str
    scopes: list[str]
    limits: list[dict[str, Any]]
    """Its own, and those of the keys that minted it; all of them hold."""
    rate: int | Absent = None
    """Calls a minute."""
    budget: int | Absent = None
    """Calls at all."""
    calls: int | Absent = None
    """Of the budget, so many are used."""
    created_at: Moment
    created_by: str
    expires_at: Moment | Absent = None
    revoked_at: Moment | Absent = None
    last_used_at: Moment | Absent = None


class NewKey(Key):
    secret: str
    """The key itself, shown this once."""
    base_url: str | Absent = None
    """Of a capability: what an SDK takes as the provider's address."""


class NewKeyAnswer(Answer):
    data: NewKey


class KeyList(Answer):
    data: list[Key]
    next_cursor: str | Absent = None


class RevokedKeys(Success):
    revoked: int
    """How many: those that it minted end with it."""
