"""Where the secrets of an integration may go: its client secret, and the key that its app signs with.

Hosts that the provider's entry names itself, and those that the integration names in `allowed_hosts`. A host that only a
connection's setting, or a server that such a setting named, has chosen gets neither.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.catalog.hosts import DEFAULT_PORTS, named, open_setting, parse_pattern
from gateway.catalog.places import ADDRESSES
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest, Issue
from gateway.records.integration import Integration

if TYPE_CHECKING:
    from gateway.auth.context import Context


def may_receive(provider: Provider, integration: Integration, url: str) -> bool:
    """Whether a request to `url` may carry a secret of `integration`. The only place where that is decided."""
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
    return f"[{host}]" if ":" in host else host
