"""The input and output of a script, for a new connection and for an incoming webhook."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import WebhookSignature
from gateway.records.connecting import Site
from gateway.secret import Secret

# ── All that a script may do: read the connection's settings, call the provider, set settings, or refuse the connection.


class Refused(Exception):
    """The script refuses this connection. `message`: reason and remedy for the end user. `payload`: details for programs."""

    def __init__(self, message: str, payload: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.payload = dict(payload or {})


class SiteOpen(Exception):
    """Several sites match, and the integration lets the end user choose."""

    def __init__(self, sites: Sequence[Site]) -> None:
        super().__init__(f"{len(sites)} sites fit")
        self.sites = tuple(sites)


class ProviderUnreadable(Exception):
    """The provider could not be reached, or its answer cannot be used. `message` names the address and what happened.

    `refused`: the provider answered, and rejected the credential.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.refused = refused


class ScriptContext(Protocol):
    """The context that a script gets when the credential exists and before anything is stored."""

    @property
    def provider(self) -> Provider: ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings so far: from the caller, the token answer and the callback."""

    @property
    def ask(self) -> bool:
        """Whether the end user must choose if several sites match; the script then raises SiteOpen."""

    async def get_json(self, path: str) -> Any:
        """GET `path` below the entry's `proxy.base_url` with the new credential. Raises ProviderUnreadable."""

    def set_config(self, **settings: str) -> None:
        """Add settings that are stored with the connection."""

    def set_account(self, *, id: str | None, label: str | None) -> None:  # noqa: A002 (as the API names it)
        """Set the account that authorized: `id` is the provider's id of the account, `label` a name for people."""


PostConnection = Callable[[ScriptContext], Awaitable[None]]


# ── Input and output of a routing script: the received webhook, and the connections it is for.

CANNOT_CHECK: Final = (
    "the integration has no secret to check webhooks with: set its webhook_secret, or allow_unsigned_webhooks: true"
)


class SignatureRefused(Exception):
    """The webhook is not proven to come from the provider.

    `why`, for the log: the signature is missing (`missing`) or wrong, or the integration has no secret (`no_secret`).
    """

    def __init__(self, message: str, *, missing: bool = False, no_secret: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.why = CANNOT_CHECK if no_secret else "no signature" if missing else "wrong signature"


@dataclass(frozen=True, slots=True)
class IncomingWebhook:
    """A provider's request: `url` is the gateway's public address for it, `headers` have lower-case names, `body` is raw.

    `public_keys`: the provider's keys that may have signed it, if the entry says where they are published.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    received_at: datetime
    public_keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Routing:
    """The result of a routing script. `origins`: the sites of the connections that the webhook is for; empty: no connection in
    particular. `seen`: a unique name of the webhook, for replay detection. `reply`: a JSON answer for the provider; the webhook
    is then not passed on.
    """

    origins: Sequence[str] = ()
    seen: str | None = None
    reply: Mapping[str, Any] | None = None


# Raises SignatureRefused. The third argument holds the integration's secrets: several during a rotation, none if the
# integration allows unsigned webhooks or forwards no webhooks (`events.receive`).
WebhookRouting = Callable[[IncomingWebhook, WebhookSignature | None, Sequence[Secret]], Routing]
