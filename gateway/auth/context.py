"""The context of an auth mode: the provider's entry, the integration's client, the connection's settings, filled templates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.authority import DEFAULT_PORTS, bracketed
from gateway.catalog.hosts import named, open_addresses, open_setting, parse_pattern
from gateway.catalog.provider import Provider
from gateway.catalog.render import Moment, Unresolved, render_text, render_url
from gateway.catalog.template import placeholders
from gateway.catalog.template_places import ADDRESSES
from gateway.catalog.value import BadValue, flat_values, setting_values
from gateway.errors import InvalidRequest, Issue
from gateway.oauth.token_requests import OAuthClient
from gateway.records.integration import Integration
from gateway.records.provider_call import ClientIdentity, ProviderCall
from gateway.secret import Secret

# ── Templates of the entry, filled with one connection's settings: addresses, parameters, header fields.

NONE: Final[Mapping[str, str]] = {}
_GONE: Final = object()


def filled(provider: Provider, template: str, config: Mapping[str, Any], credential: Mapping[str, str] = NONE) -> str:
    """An address of the entry with this connection's settings in it. Raises InvalidRequest naming the setting."""
    try:
        return render_url(template, config, provider.connection_config, credential)
    except Unresolved as fault:
        names = ", ".join(sorted(fault.names))
        raise InvalidRequest(
            "unresolved_setting",
            f"Provider '{provider.name}' needs the connection's setting {names}. Connect again with it, "
            "or import the connection with it in connection_config.",
        ) from fault
    except BadValue as fault:
        raise InvalidRequest(
            "unresolved_setting", f"The connection's setting '{fault.name}' cannot be used: {fault.why}."
        ) from fault


def chosen(provider: Provider, key: str, template: str | None, config: Mapping[str, Any]) -> str | None:
    """`template`, or the first of the entry's `alternatives` for `key` whose settings were all given."""
    given = {f"connectionConfig.{name}" for name, text in flat_values(config).items() if text}
    forms = ((form, placeholders(form)) for form in provider.alternatives.get(key, ()))
    return next((form for form, needed in forms if needed and needed <= given), template)


def values(
    provider: Provider, client: OAuthClient | None, config: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> dict[str, Secret]:
    """Return the values that templates may name outside addresses and beside the credential; settings with their defaults."""
    known = {name: Secret(text) for name, text in setting_values(config, provider.connection_config).items()}
    plain = {name: value for name, value in (metadata or {}).items() if isinstance(value, str | int | float)}
    known |= {f"metadata.{name}": Secret(str(value)) for name, value in plain.items()}
    if client is not None:
        known["clientId"] = Secret(client.client_id)
        if client.client_secret:
            known["clientSecret"] = client.client_secret
    return known


def revealed(values: Mapping[str, Secret]) -> dict[str, str]:
    """`values` as plain text, for the moment in which a template is filled."""
    return {name: secret.reveal() for name, secret in values.items()}


def texts(templates: Mapping[str, str], known: Mapping[str, Secret], *, moment: Moment | None = None) -> dict[str, str]:
    """`templates` filled in; one whose setting is missing is left out. Raises InvalidRequest for what cannot be sent."""
    plain = revealed(known)
    moment = moment or Moment()
    filled_in: dict[str, str] = {}
    for name, template in templates.items():
        try:
            filled_in[name] = render_text(template, plain, moment=moment)
        except Unresolved:
            continue
        except BadValue as fault:
            raise InvalidRequest("unresolved_setting", f"Parameter '{name}' cannot be sent: {fault.why}.") from fault
    return filled_in


def filled_json(value: Any, known: Mapping[str, str], moment: Moment) -> Any:
    """JSON with templates in its texts, filled in. A member whose values are not there is left out, and so is an object or
    a list of which nothing is left; a text without placeholders stays as it is.
    """
    match value:
        case str():
            return render_text(value, known, moment=moment, breaks=True)
        case Mapping():
            return {
                name: filled for name, inner in value.items() if (filled := _kept(inner, known, moment)) is not _GONE
            }
        case list():
            return [filled for inner in value if (filled := _kept(inner, known, moment)) is not _GONE]
        case _:
            return value


def _kept(value: Any, known: Mapping[str, str], moment: Moment) -> Any:
    try:
        filled = filled_json(value, known, moment)
    except Unresolved:
        return _GONE
    return _GONE if value and filled in ({}, []) else filled


# ── Where the secrets of an integration may go: its client secret, and the key that its app signs with.
#
# Hosts that the provider's entry names itself, and those that the integration names in `allowed_hosts`. A host that
# only a connection's setting, or a server that such a setting named, has chosen gets neither.


def may_receive(provider: Provider, integration: Integration, url: str) -> bool:
    """Return whether a request to `url` may carry a secret of `integration`. The only place where that is decided."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), _host(url)
    if scheme not in DEFAULT_PORTS:
        return False
    port = parts.port or DEFAULT_PORTS[scheme]
    allowed = (parse_pattern(text) for text in integration.allowed_hosts)
    return any(one.fits(host, port, scheme) for one in allowed) or named(provider, scheme, host, port)


def withheld(integration: Integration, host: str) -> InvalidRequest:
    """The refusal of a request that would have to carry a secret to a host that nobody named."""
    return InvalidRequest(
        "unresolved_setting",
        f"The client secret of integration '{integration.integration_id}' is withheld from {host}, a host that "
        "neither its provider's entry nor its allowed_hosts names. Nothing was sent; add the host to allowed_hosts of the "
        "integration if it is yours.",
    )


def not_allowed(integration: Integration, host: str, path: Sequence[str] = ()) -> InvalidRequest:
    """The refusal of settings that lead to a host which the integration does not name."""
    message = (
        f"Integration '{integration.integration_id}' does not allow the host {host}. Give one of "
        f"{', '.join(integration.allowed_hosts)}, or have the host added to allowed_hosts of the integration."
    )
    return InvalidRequest("connection_validation_failed", message, errors=[Issue("custom", message, tuple(path))])


def check_settings(context: "Context", path: Sequence[str]) -> None:
    """Refuse settings that name a host outside the integration's `allowed_hosts`, where it has any.

    Raises InvalidRequest. Without `allowed_hosts` any host may be named, and gets no secret of the integration.
    """
    integration, provider = context.integration, context.provider
    if not integration.allowed_hosts:
        return
    for key in (*ADDRESSES, "proxy.base_url"):
        template = context.template(key)
        setting = open_setting(provider, template) if template else None
        if not setting:
            continue
        try:
            url = context.address(template)
        except InvalidRequest:
            continue  # reported where the address is used
        if not may_receive(provider, integration, url):
            raise not_allowed(integration, authority(url), (*path, setting))


def authority(url: str) -> str:
    """Host, and port where it is not the default one, as `allowed_hosts` spells it."""
    parts = urlsplit(url)
    default = DEFAULT_PORTS.get(parts.scheme.lower())
    return _host(url) if parts.port in {None, default} else f"{_host(url)}:{parts.port}"


def _host(url: str) -> str:
    host = (urlsplit(url).hostname or "").lower()
    return bracketed(host)


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
    registered: OAuthClient | None = field(default=None, repr=False)
    destinations: tuple[str, ...] = field(default=(), repr=False)
    of_our_own: bool = False

    def toward(self, *urls: str, of_our_own: bool = False) -> "Context":
        """Return this context for requests to `urls`, with the integration's secrets if each of their hosts may have them.

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
        """The one callback address."""
        return f"{self.public_url}/oauth/callback"

    @property
    def scopes(self) -> tuple[str, ...]:
        """The integration's exactly; the entry's default ones only where it names none."""
        own = self.integration.scopes
        return own if own is not None else tuple(self.provider.default_scopes or ())

    def values(self, credential: Mapping[str, Secret] = NOTHING) -> dict[str, Secret]:
        """Return the values that templates outside addresses may name; `credential` are the mode's own."""
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

    def with_secrets(
        self, call: ProviderCall, *, identity: ClientIdentity | None = None, secrets: Iterable[Secret] = ()
    ) -> ProviderCall:
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
        """Return whether `client` would find a client for this credential."""
        return bool(self.integration.client_id or (held.get("config_override") or {}).get("client_id"))

    def client(self, override: Mapping[str, str] | None = None) -> OAuthClient:
        """The client a connection was granted to: its own where it brought one, else the integration's.

        Raises InvalidRequest where the integration's secret may not go where the request does.
        """
        if override and override.get("client_id"):
            secret = override.get("client_secret")
            return OAuthClient(override["client_id"], Secret(secret) if secret else None)
        if self.registered is not None:
            return self.registered
        client_id, secret_of_ours = self.client_id(), self.integration.client_secret
        if secret_of_ours is not None and (host := self._withheld_from) is not None:
            raise withheld(self.integration, host)
        return OAuthClient(client_id, secret_of_ours)

    def public_client(self) -> dict[str, str]:
        """Return an override: the integration's client without its secret, if the secret may not be sent there; else an empty
        one.

        Raises InvalidRequest where the integration names its hosts, and this is none of them.
        """
        secret = self.integration.client_secret
        if self.registered is not None or secret is None or (host := self._withheld_from) is None:
            return {}
        if self.integration.allowed_hosts:
            raise not_allowed(self.integration, host)
        return {"client_id": self.client_id()}

    def app_key(self) -> Secret:
        """Return the key that the integration's app signs with.

        Raises InvalidRequest where there is none, or it may not be used there.
        """
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

    def _known_client(self) -> OAuthClient | None:
        """Return the client of ``${clientId}`` and ``${clientSecret}``, with its secret only if the provider may receive it."""
        if self.registered is not None:
            return self.registered
        if not self.integration.client_id:
            return None
        secret = self.integration.client_secret
        released = secret is not None and self._withheld_from is None
        return OAuthClient(self.integration.client_id, secret if released else None)

    def client_id(self, override: Mapping[str, str] | None = None) -> str:
        """Return the ID of that client alone, which is no secret."""
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
