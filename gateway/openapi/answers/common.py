"""What answers of several areas have in common."""

from typing import Any, Literal

from pydantic import RootModel

from gateway.openapi.answers.model import Answer


class Success(Answer):
    success: Literal[True]


class Result(Answer):
    result: str


class AnyJson(RootModel[dict[str, Any]]):
    """A JSON object."""


class Organization(Answer):
    id: str
    display_name: str | None


class EndUser(Answer):
    """Whose connection it is, in the customer's own words."""

    id: str
    display_name: str | None
    email: str | None
    tags: dict[str, str] | None
    organization: Organization | None
