"""The errors on the way to a provider, before they become the caller's error."""

from typing import Literal

EgressErrorKind = Literal["refused", "unreachable", "tls", "timeout", "protocol", "too_large", "busy"]


class EgressError(Exception):
    """An error on the way to a provider.

    `kind` is for programs. `message` names the origin and the cause, never a path, a query or a header. `sent` False:
    no byte of the request was sent, so any request may be sent again.
    """

    def __init__(self, kind: EgressErrorKind, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.kind: EgressErrorKind = kind
        self.message = message
        self.sent = sent


class CallNotAttempted(EgressError):
    """The call was not attempted: too many calls wait for this provider, or its circuit breaker is open.

    `reason` is for programs. `retry_after_s`: when the caller may retry.
    """

    def __init__(self, message: str, *, reason: str, retry_after_s: int) -> None:
        super().__init__("busy", message, sent=False)
        self.reason = reason
        self.retry_after_s = retry_after_s


class AddressRefused(PermissionError):
    """The check at the socket refused the IP address. An OSError, so the dialler treats it as a failed attempt."""
