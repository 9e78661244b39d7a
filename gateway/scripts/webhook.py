"""What a routing script gets and gives: a webhook as it came, and whose it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gateway.catalog.webhook import WebhookSignature
from gateway.secret import Secret

CANNOT_CHECK: Final = (
    "the integration has no secret to check webhooks with: set its webhook_secret, or allow_unsigned_webhooks: true"
)


class SignatureRefused(Exception):
    """The webhook does not prove that it comes from the provider.

    `why` is for the log: it has no signature (`missing`), a wrong one, or there is no secret to check one with.
    """

    def __init__(self, message: str, *, missing: bool = False, no_secret: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.why = CANNOT_CHECK if no_secret else "no signature" if missing else "wrong signature"


@dataclass(frozen=True, slots=True)
class Incoming:
    """A provider's request: `url` is the address as we publish it, `headers` have lower-case names, `body` is its bytes."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Routing:
    """`origins`: the sites of the connections it is for; none: it is for no one in particular. `seen` names this webhook among
    all others, so that a replay is known. `reply`: a JSON answer that the provider waits for, in place of passing it on.
    """

    origins: Sequence[str] = ()
    seen: str | None = None
    reply: Mapping[str, Any] | None = None


# Raises SignatureRefused. The secrets are those of the integration, more than one while a new one is being introduced;
# none where the integration allows unsigned webhooks, or forwards none (`webhooks.receive`).
WebhookRouting = Callable[[Incoming, WebhookSignature | None, Sequence[Secret]], Routing]
