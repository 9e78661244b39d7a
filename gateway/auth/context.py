"""What an auth mode works for: a provider's entry, the integration's client, and the settings of one connection."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.auth.filling import chosen, filled, filled_json, revealed, texts, values
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
    """`config` holds all settings, the secret ones too; `public_url` is our own address, empty where none is needed."""

    provider: Provider
    integration: Integration
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, Any] | None = None
    public_url: str = ""

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
        return {**values(self.provider, self.integration, self.config, self.metadata), **credential}

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
        return chosen(self.provider, key, getattr(self.provider, key), self.config) or ""

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
        """The client a connection was granted to: its own where it brought one, else the integration's."""
        if override and override.get("client_id"):
            secret = override.get("client_secret")
            return Client(override["client_id"], Secret(secret) if secret else None)
        if not self.integration.client_id:
            raise InvalidRequest(
                "invalid_auth_mode",
                f"Integration '{self.integration.integration_id}' has no client_id. Set it and client_secret in "
                "gateway.yaml.",
            )
        return Client(self.integration.client_id, self.integration.client_secret)
