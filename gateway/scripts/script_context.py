"""The input and output of a script: after a connection was made, and for a webhook that came."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import WebhookSignature
from gateway.records.connecting import Site
from gateway.secret import Secret

# ── All that a script may do: read the connection's settings, ask the provider, set settings, or refuse.


class Refused(Exception):
    """The script refuses this connection. `message` is for the end user: why, and what would work. `payload` is for programs."""

    def __init__(self, message: str, payload: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.payload = dict(payload or {})


class SiteOpen(Exception):
    """Several sites fit, and the integration wants the end user to choose."""

    def __init__(self, sites: Sequence[Site]) -> None:
        super().__init__(f"{len(sites)} sites fit")
        self.sites = tuple(sites)


class ProviderUnreadable(Exception):
    """The provider could not be asked, or its answer cannot be used. `message` names the address and what happened.

    `refused`: it was asked, and does not take this credential.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.refused = refused


class ScriptContext(Protocol):
    """Given to a script once the credential is there and before anything is stored."""

    @property
    def provider(self) -> Provider: ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings so far: the caller's, the token answer's, the callback's."""

    @property
    def ask(self) -> bool:
        """Whether the end user is to choose where several sites fit: then raise SiteOpen."""

    async def get_json(self, path: str) -> Any:
        """GET `path` below the entry's `proxy.base_url` with the new credential. Raises ProviderUnreadable."""

    def set_config(self, **settings: str) -> None:
        """Settings to be stored with the connection."""

    def set_account(self, *, id: str | None, label: str | None) -> None:  # noqa: A002 (as the API names it)
        """Set the account that authorized: `id` as the provider numbers accounts, `label` for people."""


PostConnection = Callable[[ScriptContext], Awaitable[None]]


# ── What a routing script gets and gives: a webhook as it came, and whose it is.

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
class IncomingWebhook:
    """A provider's request: `url` is the address as we publish it, `headers` have lower-case names, `body` is its bytes.

    `public_keys`: those of the provider that may have signed it, where its entry says where they are.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    received_at: datetime
    public_keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Routing:
    """`origins`: the sites of the connections it is for; none: it is for no one in particular. `seen` names this webhook among
    all others, so that a replay is known. `reply`: a JSON answer that the provider waits for, in place of passing it on.
    """

    origins: Sequence[str] = ()
    seen: str | None = None
    reply: Mapping[str, Any] | None = None


# Raises SignatureRefused. The secrets are those of the integration, more than one while a new one is being introduced;
# there are none if the integration allows unsigned webhooks, or forwards no webhooks (`events.receive`).
WebhookRouting = Callable[[IncomingWebhook, WebhookSignature | None, Sequence[Secret]], Routing]
