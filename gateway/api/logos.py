"""``GET /images/template-logos/{name}.svg``: a logo for each provider. Open to all, since pages embed it."""

from typing import Final

from aiohttp import web

from gateway.catalog.logo import svg
from gateway.errors import NotFound
from gateway.services import SERVICES

# An SVG opened by itself is a document: it gets neither scripts nor anything to load.
HEADERS: Final = {
    "Cache-Control": "public, max-age=86400",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}


async def logo(request: web.Request) -> web.Response:
    """The neutral image of a provider. Raises NotFound for a name that is not in the catalog."""
    provider = request.app[SERVICES].catalog.get(request.match_info["name"])
    if provider is None:
        raise NotFound("not_found", "There is no provider of that name, so it has no logo.")
    image = svg(provider.name, provider.display_name)
    return web.Response(text=image, content_type="image/svg+xml", headers=HEADERS)
