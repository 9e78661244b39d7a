"""What a routing script gets and gives: a webhook as it came, and whose it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gateway.catalog.webhook import WebhookSignature
from gateway.secret import Secret


class SignatureRefused(Exception):
    """The webhook does not prove that it comes from the provider. `missing`: it does not even try."""

    def __init__(self, why: str, *, missing: bool = False) -> None:
        super().__init__(why)
        self.missing = missing


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


# Raises SignatureRefused. The secrets are those of the integration, more than one while a new one is being introduced.
WebhookRouting = Callable[[Incoming, WebhookSignature | None, Sequence[Secret]], Routing]
