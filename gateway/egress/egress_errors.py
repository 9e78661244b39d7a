"""Defines the errors of calls to providers. Other packages turn them into errors for the caller."""

from typing import Literal

EgressErrorKind = Literal["refused", "unreachable", "tls", "timeout", "protocol", "too_large", "busy"]


class EgressError(Exception):
    """An error of a call to a provider.

    `kind`: a name of the error for programs. `message`: a text with the origin and the cause, without paths, queries
    and header fields. `sent`: False if no byte of the request was sent, so that any request may be sent again.
    `status`: the status of a response that cannot be read because its head is too large; None in all other cases.
    """

    def __init__(self, kind: EgressErrorKind, message: str, *, sent: bool = True, status: int | None = None) -> None:
        super().__init__(message)
        self.kind: EgressErrorKind = kind
        self.message = message
        self.sent = sent
        self.status = status

    @property
    def is_provider_failure(self) -> bool:
        """Whether the error counts as a failure of the provider: the circuit breaker counts it, and a retry can help."""
        return self.kind in ("unreachable", "timeout")


class CallNotAttempted(EgressError):
    """The gateway did not send the call: too many calls wait for this provider, or its circuit breaker is open.

    `reason`: a name of the reason for programs. `retry_after_s`: seconds after which the caller may retry.
    """

    def __init__(self, message: str, *, reason: str, retry_after_s: int) -> None:
        super().__init__("busy", message, sent=False)
        self.reason = reason
        self.retry_after_s = retry_after_s


class AddressRefused(PermissionError):
    """The guard refused the IP address of a new socket.

    The error is an OSError, so that the code that connects treats it as a failed attempt and tries the next address.
    """
