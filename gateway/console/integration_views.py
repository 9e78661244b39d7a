"""Integrations at the console: how each is set up, how its calls went, and where to read on."""

from typing import Any, Final

from aiohttp import web

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.evidence import in_words
from gateway.catalog.hosts import open_secret_addresses
from gateway.catalog.load_catalog import LOGOS
from gateway.console.console_page import View
from gateway.generation import Generation
from gateway.records.integration import Integration
from gateway.runtime import generation_of

TRUST: Final = {
    "confirmed": "confirmed",
    "sourced": "from named sources",
    "unconfirmed": "not confirmed",
}


async def integrations(request: web.Request, environment: str) -> View:
    generation = generation_of(request)
    data = {
        "title": "Integrations",
        "callback_url": generation.config.callback_url,
        "integrations": [_shown(generation, one) for one in generation.integrations.of(environment)],
    }
    return View("integrations.html", data, "integrations")


def _shown(generation: Generation, one: Integration) -> dict[str, Any]:
    """What is set up and what is missing; of secrets only whether they are there."""
    provider = generation.catalog.get(one.provider)
    shown: dict[str, Any] = {
        "key": one.integration_id,
        "provider": one.provider,
        "name": one.display_name or (provider.display_name if provider else one.provider),
        "made_by": "gateway.yaml" if (one.environment, one.integration_id) in _declared(generation) else "API",
        "auth_mode": provider.auth_mode if provider else None,
        "client_id": one.client_id,
        "has_client_secret": bool(one.client_secret),
        "scopes": list(one.scopes or ()),
        "trust": TRUST.get(provider.trust() or "", "not known") if provider else None,
        "evidence": in_words(provider.evidence) if provider else [],
        "faults": [],
        "logo": f"{generation.public_url}{LOGOS}/{one.provider}.svg" if provider else None,
        "guide": f"{generation.public_url}/providers/{one.provider}/guide" if provider else None,
    }
    if provider is None:
        shown["faults"].append(
            f"The catalog has no provider '{one.provider}' any more: nothing of it can be connected."
        )
    elif AUTH_MODES[provider.auth_mode].needs_client and not one.client_id:
        shown["faults"].append("It has no client_id: register an application at the provider, and name its id.")
    if provider is not None and one.client_secret and not one.allowed_hosts and any(open_secret_addresses(provider)):
        shown["faults"].append("End users type the host that its client secret would go to: set allowed_hosts.")
    return shown


def _declared(generation: Generation) -> set[tuple[str, str]]:
    return {(name, key) for name, one in generation.config.environments.items() for key in one.integrations}
