"""What an auth mode works for: a provider's entry, the integration's client, and the settings of one connection."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.auth.filling import chosen, filled, filled_json, revealed, texts, values
from gateway.auth.secret_hosts import authority, may_receive, not_allowed, withheld
from gateway.catalog.hosts import open_addresses
from gateway.catalog.interpolate import Moment
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest
from gateway.oauth.client_auth import Client
from gateway.records.call import Call, ClientIdentity
from gateway.records.integration import Integration
from gateway.secret import Secret

NOTHING: Final[Mapping[str, Secret]] = {}


@dataclass(frozen=True, slots=True)
class Context:
    """`config` holds all settings, the secret ones too; `public_url` is our own address, empty where none is needed.

    The integration's secrets are there for the destinations that `toward` names, as far as those may have them; without
    one, where the entry leaves no host open. `entry`: the entry as the catalog has it, where `provider` was completed with
    what a server said. `registered`: a client that the server itself registered, in place of the integration's.
    """

    provider: Provider
    integration: Integration
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, Any] | None = None
    public_url: str = ""
    entry: Provider | None = None
    registered: Client | None = field(default=None, repr=False)
    destinations: tuple[str, ...] = field(default=(), repr=False)
    of_our_own: bool = False

    def toward(self, *urls: str, of_our_own: bool = False) -> "Context":
        """The same for requests to `urls`, with the integration's secrets if each of their hosts may have them.

        `of_our_own`: the address stands in our code, so no setting chose it.
        """
        return replace(self, destinations=urls, of_our_own=of_our_own)

    @property
    def _withheld_from(self) -> str | None:
        """The first address that may not have the integration's secrets; None where all may."""
        if self.of_our_own:
            return None
        entry, integration = self.entry or self.provider, self.integration
        if not self.destinations:
            return next((f"{place} of '{entry.name}'" for place, _ in open_addresses(entry)), None)
        return next((authority(url) for url in self.destinations if not may_receive(entry, integration, url)), None)

    @property
    def redirect_uri(self) -> str:
        """The one callback address (requirement 1)."""
        return f"{self.public_url}/oauth/callback"

    @property
    def scopes(self) -> tuple[str, ...]:
        """The integration's exactly; the entry's default ones only where it names none."""
        own = self.integration.scopes
        return own if own is not None else tuple(self.provider.default_scopes or ())

    def values(self, credential: Mapping[str, Secret] = NOTHING) -> dict[str, Secret]:
        """What templates outside addresses may name; `credential` are the mode's own values."""
        return {**values(self.provider, self._known_client(), self.config, self.metadata), **credential}

    def address(self, template: str | None, credential: Mapping[str, Secret] = NOTHING) -> str:
        """An address of the entry, filled in and checked for where in it a value lands. It may name ``${clientId}``, which
        is no secret, besides `credential`.

        Raises InvalidRequest, also where the entry has no such address.
        """
        if not template:
            raise InvalidRequest(
                "unresolved_setting", f"The entry of provider '{self.provider.name}' lacks an address that is needed."
            )
        plain = {"clientId": self.integration.client_id} if self.integration.client_id else {}
        plain |= {name: secret.reveal() for name, secret in credential.items()}
        return filled(self.provider, template, self.config, plain)

    def url(self, key: str, credential: Mapping[str, Secret] = NOTHING) -> str:
        """The entry's address `key`, in the form that `template` chooses. Raises InvalidRequest."""
        return self.address(self.template(key), credential)

    def template(self, key: str) -> str:
        """The entry's address `key` as it stands, in the first of its `alternatives` whose settings were given."""
        own = self.provider.proxy.base_url if key == "proxy.base_url" else getattr(self.provider, key)
        return chosen(self.provider, key, own, self.config) or ""

    def told(self, call: Call, *, identity: ClientIdentity | None = None, secrets: Iterable[Secret] = ()) -> Call:
        """`call` with the certificate to show, and with all that its answer may quote and nobody may see."""
        known = (*call.secrets, *(secret.reveal() for secret in secrets))
        return replace(call, identity=identity, secrets=known)

    def texts(
        self,
        templates: Mapping[str, str],
        credential: Mapping[str, Secret] = NOTHING,
        *,
        moment: Moment | None = None,
    ) -> dict[str, str]:
        """Parameters or header fields of the entry; one whose setting is missing is left out. Raises InvalidRequest."""
        return texts(templates, self.values(credential), moment=moment)

    def json(self, value: Any, credential: Mapping[str, Secret], moment: Moment) -> Any:
        """A JSON body of the entry, filled in; members whose values are not there are left out."""
        return filled_json(value, revealed(self.values(credential)), moment)

    def has_client(self, held: Mapping[str, Any]) -> bool:
        """Whether `client` would find one for this credential."""
        return bool(self.integration.client_id or (held.get("config_override") or {}).get("client_id"))

    def client(self, override: Mapping[str, str] | None = None) -> Client:
        """The client a connection was granted to: its own where it brought one, else the integration's.

        Raises InvalidRequest where the integration's secret may not go where the request does.
        """
        if override and override.get("client_id"):
            secret = override.get("client_secret")
            return Client(override["client_id"], Secret(secret) if secret else None)
        if self.registered is not None:
            return self.registered
        client_id, secret_of_ours = self.client_id(), self.integration.client_secret
        if secret_of_ours is not None and (host := self._withheld_from) is not None:
            raise withheld(self.integration, host)
        return Client(client_id, secret_of_ours)

    def public_client(self) -> dict[str, str]:
        """As an override: the integration's client without its secret, where that may not go; empty where it may.

        Raises InvalidRequest where the integration names its hosts, and this is none of them.
        """
        secret = self.integration.client_secret
        if self.registered is not None or secret is None or (host := self._withheld_from) is None:
            return {}
        if self.integration.allowed_hosts:
            raise not_allowed(self.integration, host)
        return {"client_id": self.client_id()}

    def app_key(self) -> Secret:
        """What the integration's app signs with. Raises InvalidRequest where there is none, or it may not be used there."""
        key = self.integration.private_key or self.integration.client_secret
        if key is None:
            raise InvalidRequest(
                "invalid_auth_mode",
                f"Integration '{self.integration.integration_id}' has no private_key. Set app_id, app_link and "
                "private_key in gateway.yaml.",
            )
        if (host := self._withheld_from) is not None:
            raise withheld(self.integration, host)
        return key

    def _known_client(self) -> Client | None:
        """What ``${clientId}`` and ``${clientSecret}`` stand for."""
        if self.registered is not None:
            return self.registered
        if not self.integration.client_id:
            return None
        secret = self.integration.client_secret
        released = secret is not None and self._withheld_from is None
        return Client(self.integration.client_id, secret if released else None)

    def client_id(self, override: Mapping[str, str] | None = None) -> str:
        """The same client's ID alone, which is no secret."""
        if override and override.get("client_id"):
            return override["client_id"]
        if self.registered is not None:
            return self.registered.client_id
        if not self.integration.client_id:
            raise InvalidRequest(
                "invalid_auth_mode",
                f"Integration '{self.integration.integration_id}' has no client_id. Set it and client_secret in "
                "gateway.yaml.",
            )
        return self.integration.client_id
