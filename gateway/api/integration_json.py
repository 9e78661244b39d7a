"""An integration as our API shows it (api-contract 1.3)."""

from typing import Any, Final
from urllib.parse import quote

from gateway.auth.moments import iso
from gateway.records.integration import Integration
from gateway.secret import Secret
from gateway.services import Services

CLIENT: Final = ("client_id", "client_secret", "scopes", "webhook_secret")
APP: Final = ("app_id", "app_link", "private_key")
SHOWN: Final = {
    **dict.fromkeys(("OAUTH1", "OAUTH2", "TBA", "INSTALL_PLUGIN", "MCP_OAUTH2", "MCP_OAUTH2_GENERIC"), CLIENT),
    "APP": APP,
    "CUSTOM": ("client_id", "client_secret", *APP),
}


def shown(services: Services, integration: Integration) -> dict[str, Any]:
    """Without its secrets. Of a provider that the catalog has lost, its name stands for what else the entry told."""
    provider = services.catalog.get(integration.provider)
    public_url = services.config.server.public_url
    made = integration.made
    return {
        "unique_key": integration.integration_id,
        "provider": integration.provider,
        "display_name": integration.display_name or (provider.display_name if provider else integration.provider),
        "logo": services.catalog.shown(provider.name, public_url)["logo_url"]
        if provider
        else f"{public_url}/images/template-logos/{integration.provider}.svg",
        "forward_webhooks": integration.forward_webhooks,
        **({"allowed_hosts": list(integration.allowed_hosts)} if integration.allowed_hosts else {}),
        "allow_unsigned_webhooks": integration.allow_unsigned_webhooks,
        "created_at": iso(made.created_at if made else services.started_at),
        "updated_at": iso(made.updated_at if made else services.started_at),
    }


def credentials(services: Services, integration: Integration) -> dict[str, Any] | None:
    """What ``include=credentials`` adds: the fields of its kind, null where not set; None for kinds that have none."""
    provider = services.catalog.get(integration.provider)
    names = SHOWN.get(provider.auth_mode) if provider else None
    if provider is None or names is None:
        return None
    return {"type": provider.auth_mode, **{name: _plain(getattr(integration, name)) for name in names}}


def webhook_url(services: Services, integration: Integration) -> str | None:
    """What ``include=webhook`` adds: where the provider is to send its webhooks; None where nobody would route them."""
    provider = services.catalog.get(integration.provider)
    if provider is None or not provider.webhook_routing_script:
        return None
    public_url = services.config.server.public_url
    return f"{public_url}/webhook/{integration.environment}/{quote(integration.integration_id, safe='')}"


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    return ",".join(value) if isinstance(value, tuple) else value
