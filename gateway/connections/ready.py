"""Makes a connection ready for use: fills its settings and its credential into the entry's templates, once for many requests."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from gateway.auth.mode import AuthMode
from gateway.catalog.interpolate import (
    BadValue,
    Moment,
    Unresolved,
    carries_credential,
    differs_each_time,
    render_text,
    render_url,
    setting_values,
)
from gateway.catalog.provider import Provider
from gateway.connections.opened import BaseUrl, Opened, Placement
from gateway.errors import InvalidRequest
from gateway.records.connection import Connection
from gateway.records.integration import Integration
from gateway.secret import Secret

NONE: Final[Mapping[str, str]] = {}
PORTS: Final = {"http": 80, "https": 443}


def ready(
    connection: Connection,
    integration: Integration,
    provider: Provider,
    mode: AuthMode,
    held: Mapping[str, Any],
    secret_config: Mapping[str, Any],
) -> Opened:
    """`held`: the opened credential. Raises InvalidRequest ``unresolved_setting`` where a setting is missing or unfit."""
    config = {**connection.config, **secret_config}
    known = values(provider, integration, config, connection.metadata)
    base = base_url(provider, config, mode, held)
    return Opened(
        connection=connection,
        integration=integration,
        provider=provider,
        base=base,
        allowed_origins=frozenset(_origins(base, integration, provider, config)),
        placement=placement(provider, mode, held, known),
        for_one_request=any(map(differs_each_time, (*provider.proxy.headers.values(), *provider.proxy.query.values()))),
    )


def base_url(provider: Provider, config: Mapping[str, Any], mode: AuthMode, held: Mapping[str, Any]) -> BaseUrl:
    """The address that requests go below, checked again at every use. Some entries have the credential in its path."""
    credential = {name: secret.reveal() for name, secret in mode.values(held).items()}
    parts = urlsplit(filled(provider, provider.proxy.base_url, config, credential))
    return BaseUrl(parts.scheme, parts.hostname or "", parts.port or PORTS[parts.scheme], parts.path.rstrip("/"))


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


def values(
    provider: Provider, integration: Integration, config: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> dict[str, Secret]:
    """What templates outside addresses may name, apart from the credential; settings with their defaults."""
    known = {name: Secret(text) for name, text in setting_values(config, provider.connection_config).items()}
    plain = {name: value for name, value in (metadata or {}).items() if isinstance(value, str | int | float)}
    known |= {f"metadata.{name}": Secret(str(value)) for name, value in plain.items()}
    if integration.client_id:
        known["clientId"] = Secret(integration.client_id)
    if integration.client_secret:
        known["clientSecret"] = integration.client_secret
    return known


def placement(provider: Provider, mode: AuthMode, held: Mapping[str, Any], known: Mapping[str, Secret]) -> Placement:
    """The entry's headers and query, rendered. An entry that names the credential is the slot; others are defaults."""
    credential = mode.values(held)
    everything = {name: secret.reveal() for name, secret in (*known.items(), *credential.items())}
    headers = {name.lower(): template for name, template in provider.proxy.headers.items()}
    secret = {name for name, setting in provider.connection_config.items() if setting.secret}

    def is_slot(template: str) -> bool:
        return carries_credential(template, secret_settings=secret)

    if not any(map(is_slot, (*headers.values(), *provider.proxy.query.values()))):
        headers |= mode.default_headers(provider)
    moment = Moment()
    slots, defaults = _split(headers, is_slot, everything, moment)
    query_slots, query_defaults = _split(provider.proxy.query, is_slot, everything, moment)
    return Placement(
        slots=tuple(slots),
        defaults=tuple(defaults),
        query_slots=tuple((quote(name, safe=""), quote(text, safe="")) for name, text in query_slots),
        query_defaults=tuple((quote(name, safe=""), quote(text, safe="")) for name, text in query_defaults),
    )


def _split(
    templates: Mapping[str, str], is_slot: Callable[[str], bool], everything: Mapping[str, str], moment: Moment
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    slots: list[tuple[str, str]] = []
    defaults: list[tuple[str, str]] = []
    for name, template in templates.items():
        carries = is_slot(template)
        try:
            text = render_text(template, everything, moment=moment)
        except Unresolved as fault:
            if not carries:
                continue  # a header built from a setting that this connection does not have is left out
            missing = ", ".join(sorted(fault.names))
            raise InvalidRequest(
                "unresolved_setting", f"The credential's place '{name}' needs {missing}, which this connection lacks."
            ) from fault
        except BadValue as fault:
            raise InvalidRequest(
                "unresolved_setting", f"The value for '{name}' cannot be sent: {fault.why}."
            ) from fault
        (slots if carries else defaults).append((name, text))
    return slots, defaults


def _origins(base: BaseUrl, integration: Integration, provider: Provider, config: Mapping[str, Any]) -> Iterator[str]:
    yield spelled(base.scheme, base.host, base.port)
    for template in (*provider.proxy.allowed_origins, *integration.allowed_origins):
        parts = urlsplit(filled(provider, template, config) if "${" in template else template)
        if parts.hostname:
            yield spelled(parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme, 0))


def spelled(scheme: str, host: str, port: int) -> str:
    """An origin as `UpstreamRequest.origin` spells it, so that the two can be compared as text."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
