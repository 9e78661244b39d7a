"""The input and output of a script, for a new connection and for an incoming webhook."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import WebhookSignature
from gateway.records.connecting import Site
from gateway.secret import Secret

# ── What a script may do: read the connection's settings, call the provider, add settings, or refuse the connection.


class Refused(Exception):
    """The script refuses this connection.

    `message`: tells the end user why, and what to do. `payload`: details for programs.
    """

    def __init__(self, message: str, payload: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.payload = dict(payload or {})


class SiteChoiceNeeded(Exception):
    """Several sites match, and the integration lets the end user choose."""

    def __init__(self, sites: Sequence[Site]) -> None:
        super().__init__(f"{len(sites)} sites fit")
        self.sites = tuple(sites)


class ProviderUnreadable(Exception):
    """The provider could not be reached, or its response cannot be used. `message` says what happened.

    `status`: the status of the response if it is not 200, else None.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status

    @property
    def refused(self) -> bool:
        """Whether the provider rejected the credential."""
        return self.status in {401, 403}


class ScriptContext(Protocol):
    """What a script can read and call. The script runs after the credential is issued, and before anything is
    stored."""

    @property
    def provider(self) -> Provider: ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings so far: from the caller, the token response, the callback and the script itself."""

    @property
    def must_ask(self) -> bool:
        """Whether the end user must choose if several sites match. The script then raises SiteChoiceNeeded."""

    async def get_json(self, path: str) -> Any:
        """GET `path` below the entry's `proxy.base_url` with the new credential, and return the parsed JSON.

        Raises ProviderUnreadable if there is no response, if the status is not 200, or if the body is not JSON.
        """

    def set_config(self, **settings: str) -> None:
        """Add settings that are stored with the connection."""

    def set_account(self, *, id: str | None, label: str | None) -> None:  # noqa: A002 (as the API names it)
        """Set the account that authorized. `id`: the provider's ID of the account. `label`: a name for people."""


PostConnection = Callable[[ScriptContext], Awaitable[None]]


# ── Input and output of a routing script: the received webhook, and the connections to which the webhook belongs.

CANNOT_CHECK: Final = (
    "the integration has no secret to check webhooks with: set its webhook_secret, or allow_unsigned_webhooks: true"
)


class SignatureRefused(Exception):
    """The webhook does not prove that it comes from the provider.

    - `missing`: whether the webhook has no signature
    - `no_secret`: whether the integration has no secret with which to verify the signature
    - `why`: the reason for the log
    """

    def __init__(self, message: str, *, missing: bool = False, no_secret: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.why = CANNOT_CHECK if no_secret else "no signature" if missing else "wrong signature"


@dataclass(frozen=True, slots=True)
class IncomingWebhook:
    """A provider's request to the webhook URL. `url`: this URL, without the query. `headers`: header fields with
    lower-case names. `body`: the body, exactly as received.

    `public_keys`: the keys that the provider publishes, if the entry says where.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    received_at: datetime
    public_keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Routing:
    """The result of a routing script.

    - `origins`: the sites whose connections the webhook concerns; empty if the webhook concerns no connection in
      particular
    - `webhook_id`: a unique id of the webhook, for replay detection; None: replays are not detected
    - `reply`: the response for the provider, as JSON or as text; None for the usual response. A webhook with a `reply` is
      not forwarded.
    """

    origins: Sequence[str] = ()
    webhook_id: str | None = None
    reply: Mapping[str, Any] | str | None = None


# A function that routes a webhook and raises SignatureRefused. Its third argument is the list of the integration's
# secrets: several during a rotation, none if the integration allows unsigned webhooks or forwards no webhooks
# (`events.receive`).
WebhookRouting = Callable[[IncomingWebhook, WebhookSignature | None, Sequence[Secret]], Routing]
