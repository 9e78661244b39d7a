"""The context of an auth mode: the provider's entry, the integration's client, the settings, the filled templates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.catalog.hosts import fixes_host, open_setting, open_urls, parse_pattern
from gateway.catalog.provider import Provider
from gateway.catalog.render import Moment, Unresolved, render_text, render_url
from gateway.catalog.template import placeholders
from gateway.catalog.template_places import URL_FIELDS
from gateway.catalog.value import BadValue, flat_values, setting_values
from gateway.errors import InvalidRequest, Issue
from gateway.oauth.token_requests import OAuthClient
from gateway.origin import DEFAULT_PORTS, bracketed
from gateway.records.integration import Integration
from gateway.records.provider_call import ClientIdentity, ProviderCall
from gateway.secret import Secret

# ── Templates of the entry, filled with one connection's settings: URLs, parameters, header fields.

NO_VALUES: Final[Mapping[str, str]] = {}
_MISSING: Final = object()


def fill_url(
    provider: Provider, template: str, config: Mapping[str, Any], credential: Mapping[str, str] = NO_VALUES
) -> str:
    """Fill `template`, a URL of the entry, and return the URL. `config`: the connection's settings. `credential`:
    further values by placeholder name. Raises InvalidRequest, which names the setting, if a setting is missing or
    invalid."""
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


def chosen_alternative(provider: Provider, key: str, template: str | None, config: Mapping[str, Any]) -> str | None:
    """Return the first of the entry's `alternatives` for `key` that the settings in `config` fill completely. If there
    is no such alternative, return `template`."""
    filled_settings = {f"connectionConfig.{name}" for name, text in flat_values(config).items() if text}
    alternatives = ((alternative, placeholders(alternative)) for alternative in provider.alternatives.get(key, ()))
    return next(
        (
            alternative
            for alternative, needed_settings in alternatives
            if needed_settings and needed_settings <= filled_settings
        ),
        template,
    )


def template_values(
    provider: Provider, client: OAuthClient | None, config: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> dict[str, Secret]:
    """Return the values for templates outside URLs: settings, metadata and the client, without the credential. A
    setting that is not given has its default value."""
    settings = {name: Secret(text) for name, text in setting_values(config, provider.connection_config).items()}
    metadata_values = {name: value for name, value in (metadata or {}).items() if isinstance(value, str | int | float)}
    settings |= {f"metadata.{name}": Secret(str(value)) for name, value in metadata_values.items()}
    if client is not None:
        settings["clientId"] = Secret(client.client_id)
        if client.client_secret:
            settings["clientSecret"] = client.client_secret
    return settings


def plain_values(values: Mapping[str, Secret]) -> dict[str, str]:
    """Return `values` as plain text. Use this function only to fill a template."""
    return {name: secret.reveal() for name, secret in values.items()}


def fill_texts(
    templates: Mapping[str, str], values: Mapping[str, Secret], *, moment: Moment | None = None
) -> dict[str, str]:
    """Fill `templates` and return the resulting texts. A template with a missing value is left out. Raises
    InvalidRequest if a value cannot be sent. `moment`: the time and the random value for the templates, None for new
    values."""
    plain_texts = plain_values(values)
    moment = moment or Moment()
    filled_texts: dict[str, str] = {}
    for name, template in templates.items():
        try:
            filled_texts[name] = render_text(template, plain_texts, moment=moment)
        except Unresolved:
            continue
        except BadValue as fault:
            raise InvalidRequest("unresolved_setting", f"Parameter '{name}' cannot be sent: {fault.why}.") from fault
    return filled_texts


def fill_json(value: Any, values: Mapping[str, str], moment: Moment) -> Any:
    """Return the JSON `value` with the templates in its texts filled in. Members with a missing value are left out, and
    so are objects and lists that become empty. A text without placeholders stays as it is.
    """
    match value:
        case str():
            return render_text(value, values, moment=moment, breaks=True)
        case Mapping():
            return {
                name: filled_member
                for name, member in value.items()
                if (filled_member := _fill_member(member, values, moment)) is not _MISSING
            }
        case list():
            return [
                filled_member
                for member in value
                if (filled_member := _fill_member(member, values, moment)) is not _MISSING
            ]
        case _:
            return value


def _fill_member(value: Any, values: Mapping[str, str], moment: Moment) -> Any:
    try:
        filled_value = fill_json(value, values, moment)
    except Unresolved:
        return _MISSING
    return _MISSING if value and filled_value in ({}, []) else filled_value


# ── Decides which hosts may receive an integration's secrets: its client secret, and the key that its app signs with.
#
# The hosts are those that the provider's entry names, and those in the integration's `allowed_hosts`. A host that is
# named only by a connection's setting, or by a server that such a setting names, gets no secret.


def may_receive(provider: Provider, integration: Integration, url: str) -> bool:
    """Return whether a request to `url` may carry a secret of `integration`. No other function makes this decision."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), _host(url)
    if scheme not in DEFAULT_PORTS:
        return False
    port = parts.port or DEFAULT_PORTS[scheme]
    allowed_patterns = (parse_pattern(text) for text in integration.allowed_hosts)
    return any(allowed_host.matches(host, port, scheme) for allowed_host in allowed_patterns) or fixes_host(
        provider, scheme, host, port
    )


def secret_withheld_error(integration: Integration, host: str) -> InvalidRequest:
    """Return the error for a request that would send a secret to a host that is named neither by the entry nor by the
    integration."""
    return InvalidRequest(
        "unresolved_setting",
        f"The client secret or key of integration '{integration.integration_id}' was not sent to {host}: the host is "
        "neither in the provider's catalog entry nor in the integration's allowed_hosts. If you trust the host, add it to "
        "allowed_hosts.",
    )


def host_not_allowed_error(integration: Integration, host: str, path: Sequence[str] = ()) -> InvalidRequest:
    """Return the error for settings that name a host outside the integration's `allowed_hosts`."""
    message = (
        f"Integration '{integration.integration_id}' does not allow the host {host}. Give one of "
        f"{', '.join(integration.allowed_hosts)}, or have the host added to allowed_hosts of the integration."
    )
    return InvalidRequest("connection_validation_failed", message, errors=[Issue("custom", message, tuple(path))])


def check_settings(context: "AuthContext", path: Sequence[str]) -> None:
    """Raise InvalidRequest if settings name a host outside the integration's `allowed_hosts`.

    If the integration has no `allowed_hosts`, settings may name any host, but such a host gets no secret of the
    integration.
    """
    integration, provider = context.integration, context.provider
    if not integration.allowed_hosts:
        return
    for key in (*URL_FIELDS, "proxy.base_url"):
        template = context.template(key)
        setting = open_setting(provider, template) if template else None
        if not setting:
            continue
        try:
            url = context.fill_url(template)
        except InvalidRequest:
            continue  # the code that uses the URL reports this error
        if not may_receive(provider, integration, url):
            raise host_not_allowed_error(integration, authority(url), (*path, setting))


def authority(url: str) -> str:
    """Return the host and port of `url` in the format of `allowed_hosts`. A default port is left out."""
    parts = urlsplit(url)
    default_port = DEFAULT_PORTS.get(parts.scheme.lower())
    return _host(url) if parts.port in {None, default_port} else f"{_host(url)}:{parts.port}"


def _host(url: str) -> str:
    host = (urlsplit(url).hostname or "").lower()
    return bracketed(host)


NO_CREDENTIAL: Final[Mapping[str, Secret]] = {}


@dataclass(frozen=True, slots=True)
class AuthContext:
    """The input of an auth mode for one connection.

    `config`: all settings, including secret ones. `public_url`: the gateway's own URL, empty if the mode does not need
    it. `entry`: the catalog's entry, if `provider` was completed with data from a server; else None. `registered`: the
    client that the server registered, which replaces the integration's client; else None.

    `for_destinations` sets the destinations of a request. The context releases the integration's secrets only if all
    destinations may receive secrets. Without destinations, the context releases secrets only if the entry fixes every
    host.
    """

    provider: Provider
    integration: Integration
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, Any] | None = None
    public_url: str = ""
    entry: Provider | None = None
    registered: OAuthClient | None = field(default=None, repr=False)
    destinations: tuple[str, ...] = field(default=(), repr=False)
    fixed_in_code: bool = False

    def for_destinations(self, *urls: str, fixed_in_code: bool = False) -> "AuthContext":
        """Return this context for requests to `urls`. The returned context contains the integration's secrets only if
        every host may receive them.

        `fixed_in_code`: whether the gateway's code fixes the URL, so that no setting can change it.
        """
        return replace(self, destinations=urls, fixed_in_code=fixed_in_code)

    toward = for_destinations  # former name, which modes of other packages may still use

    @property
    def _untrusted_destination(self) -> str | None:
        """The first host or URL field that may not receive the integration's secrets, or None if every host may receive
        them."""
        if self.fixed_in_code:
            return None
        entry, integration = self.entry or self.provider, self.integration
        if not self.destinations:
            return next((f"{place} of '{entry.name}'" for place, _ in open_urls(entry)), None)
        return next((authority(url) for url in self.destinations if not may_receive(entry, integration, url)), None)

    @property
    def redirect_uri(self) -> str:
        """The gateway's callback URL, which is the same for every provider."""
        return f"{self.public_url}/oauth/callback"

    @property
    def scopes(self) -> tuple[str, ...]:
        """The integration's scopes, or the entry's default scopes if the integration sets none."""
        integration_scopes = self.integration.scopes
        return integration_scopes if integration_scopes is not None else tuple(self.provider.default_scopes or ())

    def values(self, credential: Mapping[str, Secret] = NO_CREDENTIAL) -> dict[str, Secret]:
        """Return the values that templates outside URLs can use. `credential`: the values that the mode adds."""
        return {**template_values(self.provider, self._known_client(), self.config, self.metadata), **credential}

    def fill_url(self, template: str | None, credential: Mapping[str, Secret] = NO_CREDENTIAL) -> str:
        """Fill `template`, a URL of the entry, with this connection's settings, and return the URL. Each value must be
        valid at its place in the URL. The template can also use ``${clientId}``, which is not secret, and the values in
        `credential`.

        Raises InvalidRequest if `template` is empty, or if a setting is missing or invalid.
        """
        if not template:
            raise InvalidRequest(
                "unresolved_setting",
                f"The catalog entry of provider '{self.provider.name}' has no URL for this request. Add it to the "
                "entry.",
            )
        plain_texts = {"clientId": self.integration.client_id} if self.integration.client_id else {}
        plain_texts |= {name: secret.reveal() for name, secret in credential.items()}
        return fill_url(self.provider, template, self.config, plain_texts)

    def url(self, key: str, credential: Mapping[str, Secret] = NO_CREDENTIAL) -> str:
        """Return the URL in the entry's field `key`, filled with this connection's settings. If the field has
        alternatives, `template` chooses one of them. Raises InvalidRequest if there is no URL, or if a setting is
        missing or invalid."""
        return self.fill_url(self.template(key), credential)

    def template(self, key: str) -> str:
        """Return the template of the URL in the entry's field `key`: the first alternative that the settings fill
        completely, else the field's own template. Return an empty text if the entry has no such URL.
        """
        entry_template = self.provider.proxy.base_url if key == "proxy.base_url" else getattr(self.provider, key)
        return chosen_alternative(self.provider, key, entry_template, self.config) or ""

    def with_secrets(
        self, call: ProviderCall, *, identity: ClientIdentity | None = None, secrets: Iterable[Secret] = ()
    ) -> ProviderCall:
        """Return `call` with the client certificate `identity`. If the response quotes one of `secrets`, the secret is
        masked in error messages."""
        all_secrets = (*call.secrets, *(secret.reveal() for secret in secrets))
        return replace(call, identity=identity, secrets=all_secrets)

    def texts(
        self,
        templates: Mapping[str, str],
        credential: Mapping[str, Secret] = NO_CREDENTIAL,
        *,
        moment: Moment | None = None,
    ) -> dict[str, str]:
        """Fill the entry's parameters or header fields, and return the resulting texts. A template that lacks a setting
        is left out. Raises InvalidRequest if a value cannot be sent."""
        if not templates:
            return {}
        return fill_texts(templates, self.values(credential), moment=moment)

    def json(self, value: Any, credential: Mapping[str, Secret], moment: Moment) -> Any:
        """Fill the templates in `value`, a JSON body of the entry, and return the result. Members that lack a value are
        left out. Raises InvalidRequest if a value cannot be used."""
        try:
            return fill_json(value, plain_values(self.values(credential)), moment)
        except BadValue as fault:
            raise InvalidRequest("unresolved_setting", f"A value in the request's body {fault.why}.") from fault

    def has_client(self, credential: Mapping[str, Any]) -> bool:
        """Return whether `client` finds a client: the integration's, or the credential's own."""
        return bool(self.integration.client_id or (credential.get("config_override") or {}).get("client_id"))

    def client(self, override: Mapping[str, str] | None = None) -> OAuthClient:
        """Return the OAuth client of a connection: its own in `override`, else the one that the server registered, else
        the integration's.

        Raises InvalidRequest if the integration has no client, or if a destination of the request may not receive its
        secret.
        """
        if override and override.get("client_id"):
            secret = override.get("client_secret")
            return OAuthClient(override["client_id"], Secret(secret) if secret else None)
        if self.registered is not None:
            return self.registered
        client_id, integration_secret = self.client_id(), self.integration.client_secret
        if integration_secret is not None and (host := self._untrusted_destination) is not None:
            raise secret_withheld_error(self.integration, host)
        return OAuthClient(client_id, integration_secret)

    def public_client(self) -> dict[str, str]:
        """Return an override for `client`. If the destination may not receive the integration's secret, the override
        contains the integration's client ID without the secret. Otherwise the override is empty.

        Raises InvalidRequest if the integration has `allowed_hosts` and the destination is not in `allowed_hosts`.
        """
        secret = self.integration.client_secret
        if self.registered is not None or secret is None or (host := self._untrusted_destination) is None:
            return {}
        if self.integration.allowed_hosts:
            raise host_not_allowed_error(self.integration, host)
        return {"client_id": self.client_id()}

    def app_key(self) -> Secret:
        """Return the key with which the integration's app signs.

        Raises InvalidRequest if the integration has no key, or if the destination may not receive the key.
        """
        key = self.integration.private_key or self.integration.client_secret
        if key is None:
            raise InvalidRequest(
                "invalid_auth_mode",
                f"Integration '{self.integration.integration_id}' has no private_key. Set app_id, app_link and "
                "private_key in gateway.yaml.",
            )
        if (host := self._untrusted_destination) is not None:
            raise secret_withheld_error(self.integration, host)
        return key

    def _known_client(self) -> OAuthClient | None:
        """Return the client that fills ``${clientId}`` and ``${clientSecret}``, or None if there is no client. The
        client's secret is included only if the destinations may receive the secret."""
        if self.registered is not None:
            return self.registered
        if not self.integration.client_id:
            return None
        secret = self.integration.client_secret
        may_use_secret = secret is not None and self._untrusted_destination is None
        return OAuthClient(self.integration.client_id, secret if may_use_secret else None)

    def client_id(self, override: Mapping[str, str] | None = None) -> str:
        """Return the ID of the client that `client` returns. The ID is not secret, so the destination does not
        matter."""
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


Context = AuthContext  # former name, which modes of other packages may still use
