"""How a connection came to be as it is, and what helps."""

from gateway.openapi.answers.model import Answer, Moment


class Change(Answer):
    at: Moment
    state: str
    previous_state: str | None
    reason: str
    detail: str | None


class Cause(Answer):
    cause: str
    why: str


class Action(Answer):
    do: str
    how: str


class Happening(Answer):
    at: Moment
    what: str
    detail: str | None
    ahead: bool
    """Still to come."""


class Diagnosis(Answer):
    """Why it is as it is, and the one action that helps."""

    state: str
    since: Moment
    causes: list[Cause]
    action: Action
    timeline: list[Happening]
