"""What can go wrong on the way to a provider, before anyone decides what the caller shall hear of it."""

from typing import Literal

Kind = Literal["refused", "unreachable", "tls", "timeout", "protocol", "too_large", "busy"]


class EgressError(Exception):
    """`kind` is for programs; `message` names the origin and the cause, never a path, a query or a header."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message


class AddressRefused(PermissionError):
    """The last check, at the socket, said no. An OSError, so that a dialler treats it as a failed attempt."""
