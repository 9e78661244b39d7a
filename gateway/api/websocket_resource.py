"""An address for WebSockets alone: whatever else is asked for there belongs to others, a host's own page for example."""

from aiohttp import hdrs, web


class WebsocketResource(web.PlainResource):
    """A resource that is not there for requests without ``Upgrade: websocket`` (RFC 6455 §4.1)."""

    async def resolve(self, request: web.Request) -> "tuple[web.UrlMappingMatchInfo | None, set[str]]":
        if request.headers.get(hdrs.UPGRADE, "").strip().lower() != "websocket":
            return None, set()
        return await super().resolve(request)

    def raw_match(self, _path: str) -> bool:
        """Never: a route that is added for the same path afterwards gets a resource of its own."""
        return False
