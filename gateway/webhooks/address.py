"""Where a provider is told to send its webhooks (api-contract 1.9)."""

from urllib.parse import quote


def webhook_address(public_url: str, environment: str, integration_id: str) -> str:
    """The address to paste at the provider."""
    return f"{public_url}/webhook/{quote(environment, safe='')}/{quote(integration_id, safe='')}"
