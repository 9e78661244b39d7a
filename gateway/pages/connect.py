"""The plain connect page: the session's integrations, each with a way to begin."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from aiohttp import web

from gateway.auth import modes
from gateway.auth.mode import GrantingMode
from gateway.catalog.provider import Provider
from gateway.errors import Unauthorized
from gateway.pages.environment import failed, page
from gateway.records.connecting import ConnectSession
from gateway.records.integration import Integration
from gateway.services import SERVICES, Services

# How far the addresses that a user is sent to can be trusted, for those who look.
TRUST: Final = {
    "reviewed": "Its entry in the catalog was reviewed by hand.",
    "sourced": "Its entry in the catalog is taken from named sources.",
    "unconfirmed": "Its entry in the catalog is not confirmed: look at the address before you sign in.",
}
NO_SESSION: Final = "This link is not complete or has expired. Ask the application you came from for a new link."


async def connect_page(request: web.Request) -> web.Response:
    """What `connect_link` opens. Without a session that lives it says so, with 401."""
    services = request.app[SERVICES]
    token = request.query.get("session_token", "")
    try:
        session = await services.sessions.find(token)
    except Unauthorized as fault:
        return failed(request, fault, 401, title="This link does not work", message=NO_SESSION)
    return page(
        request,
        "connect/index.html",
        token=token,
        who=_who(session),
        until=session.expires_at.strftime("%H:%M UTC"),
        choices=[_choice(services, session, integration) for integration in offered(services, session)],
    )


def offered(services: Services, session: ConnectSession) -> list[Integration]:
    """What the session allows, in the order it was named; without a list, all of the environment."""
    there = services.integrations.of(session.environment)
    if not session.allowed_integrations:
        return list(there)
    by_key = {one.integration_id: one for one in there}
    return [by_key[key] for key in session.allowed_integrations if key in by_key]


def _who(session: ConnectSession) -> str | None:
    user = session.end_user
    return (user.display_name or user.email or user.id) if user else None


def _choice(services: Services, session: ConnectSession, integration: Integration) -> dict[str, Any]:
    provider = services.creator.provider_of(integration)
    public_url = services.config.server.public_url
    fixed = session.defaults.get(integration.integration_id, {}).get("connection_config") or {}
    return {
        "key": integration.integration_id,
        "name": integration.display_name or provider.display_name,
        "logo": services.catalog.shown(provider.name, public_url)["logo_url"],
        "oauth": isinstance(modes()[provider.auth_mode], GrantingMode),
        "host": urlsplit(provider.authorization_url or "").hostname or provider.display_name,
        "action": f"{public_url}/oauth/connect/{quote(integration.integration_id, safe='')}",
        "settings": _settings(provider, fixed),
        "trust": TRUST.get(provider.provenance or "", ""),
    }


def _settings(provider: Provider, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields to ask for: not those the service sets itself, nor those the back end has fixed."""
    known = {name.casefold() for name in fixed}
    return [
        {
            "name": name,
            "title": setting.title,
            "optional": setting.optional or setting.default_value is not None,
            "example": setting.example,
            "pattern": setting.pattern,
            "value": setting.default_value,
        }
        for name, setting in provider.connection_config.items()
        if not (setting.automated or setting.hidden or name.casefold() in known)
    ]
