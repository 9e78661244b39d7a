"""``GET /providers/{provider}/guide``: how to set up a provider, made from its entry. Open to all: it holds no secret."""

from aiohttp import web

from gateway.catalog.auth_modes import AUTH_MODES, ModeFormat
from gateway.catalog.provider import Provider
from gateway.catalog.setting import Setting, title_from
from gateway.errors import NotFound
from gateway.pages.environment import page
from gateway.pages.failing import failed
from gateway.pages.guide_behaviour import behaviour
from gateway.pages.guide_steps import asked, steps
from gateway.pages.snippets import call_of, curl, node, python
from gateway.services import SERVICES

TRUST = {
    "reviewed": "Reviewed by hand.",
    "sourced": "Taken from named sources, not reviewed by hand.",
    "unconfirmed": "General knowledge, not confirmed: check the addresses before you rely on them.",
}


async def guide(request: web.Request) -> web.Response:
    """The page; 404 as a page for a name that is not in the catalog."""
    services = request.app[SERVICES]
    public_url = services.config.server.public_url
    name = request.match_info["provider"]
    provider = services.catalog.get(name)
    if provider is None:
        missing = NotFound(
            "not_found", f"The catalog has no provider '{name}'. `gateway catalog list` shows what there is."
        )
        return failed(request, missing, 404, title="There is no such provider")
    shared = services.catalog.get(provider.family) if provider.family and provider.family != name else None
    call = call_of(provider)
    return page(
        request,
        "guide.html",
        provider=provider,
        shown=services.catalog.shown(name, public_url),
        trust=TRUST.get(provider.provenance or "", "Nobody says where its facts come from."),
        steps=steps(provider, public_url, shared.display_name if shared else None),
        settings=asked(provider.connection_config),
        automated=[name for name, form in provider.connection_config.items() if form.automated],
        credentials=asked({**_credentials(provider), **provider.assertion_option}),
        behaviour=behaviour(provider),
        snippets=[
            (title, write(public_url, provider.name, call))
            for title, write in (("curl", curl), ("Python", python), ("Node", node))
        ],
    )


def _credentials(provider: Provider) -> dict[str, Setting]:
    """What the user types in: the entry's forms, else what its auth mode asks for."""
    mode = AUTH_MODES.get(provider.auth_mode, ModeFormat(""))
    return provider.credentials or {name: Setting(title=title_from(name)) for name in mode.asks}
