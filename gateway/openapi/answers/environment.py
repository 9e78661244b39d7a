"""An environment's own: what signs its events, and its variables."""

from pydantic import RootModel

from gateway.openapi.answers.model import Answer, Moment


class SigningKey(Answer):
    webhook_signing_key: str
    previous_key_retires_at: Moment
    """Until then the former key signs too."""


class SigningKeyAnswer(Answer):
    data: SigningKey


class Variable(Answer):
    name: str
    value: str


class Variables(RootModel[list[Variable]]):
    """A bare array."""
