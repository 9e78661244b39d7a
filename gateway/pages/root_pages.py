"""The pages at the gateway's own URL: the start page, the guides, and the page for unknown URLs."""

import json
from typing import Final

from aiohttp import web

from gateway.api.health import readiness
from gateway.catalog.listing import Query, get_listing, name_in
from gateway.errors import GatewayError
from gateway.middleware.facts import REQUEST_ID
from gateway.middleware.response_shape import ERROR_HEADER
from gateway.pages.templates import page
from gateway.runtime import RUNTIME, generation_of

ROWS_PER_PAGE: Final = 60
MAX_SEARCH_CHARS: Final = 100  # maximum length of a search or a category

# The text for people for each member of `/ready` and its value.
STATE_TEXTS: Final = {
    ("store", "away"): "Its database cannot be reached; it serves calls from memory.",
    ("store", "damaged"): "Its database is damaged; it serves calls whose data can still be read.",
    ("store", "full"): "The disk of its database is full; it does not refresh tokens.",
    ("store", "read-only"): "Its database is read-only; it does not refresh tokens.",
    ("clock", "off"): "Its clock differs from the database's by seconds.",
    ("clock", "refused"): "Its clock differs so much from the database's that it does not refresh tokens.",
    ("journal", "unwritable"): "Its refresh journal cannot be written.",
    ("failover", "reconciling"): "Its database has failed over; tokens are not refreshed until its data is compared.",
}


async def start_page(request: web.Request) -> web.Response:
    """Serve ``GET /`` for a browser: the gateway's state and links.

    The page is public, so it shows nothing about the gateway's state that ``/ready`` does not show.
    """
    generation = generation_of(request)
    status, body = await readiness(request.app[RUNTIME], required=False)
    return page(
        request,
        "start.html",
        script=True,
        name=generation.config.branding.name,
        public_url=generation.public_url,
        serves=status == 200,
        states=[text for (member, value), text in STATE_TEXTS.items() if body.get(member) == value],
        console=f"{generation.config.console_url}/console" if generation.config.console.enabled else None,
        oidc=generation.config.console.oidc.issuer is not None,
        providers=len(generation.catalog.providers),
    )


def missing_page(request: web.Request, fault: GatewayError) -> web.Response:
    """Return the page for an unknown URL or for a method that is not allowed. `fault`: the error."""
    titles = {404: "Page not found", 405: "Method not allowed"}
    response = page(
        request,
        "missing.html",
        fault.status,
        title=titles.get(fault.status, "Request refused"),
        message=fault.message if fault.status != 404 else None,
        code=fault.code,
        request_id=request[REQUEST_ID],
        public_url=generation_of(request).public_url,
    )
    response.headers.update(fault.headers or {})
    response.headers[ERROR_HEADER] = fault.code
    if not request.content.is_eof():
        response.force_close()
    return response


def guides(request: web.Request) -> web.Response:
    """Serve ``GET /guides``: a searchable list of providers with links to their guides. The page is public."""
    generation = generation_of(request)
    search = " ".join(request.query.get("search", "")[:MAX_SEARCH_CHARS].split())
    category = request.query.get("category", "")[:MAX_SEARCH_CHARS] or None
    last_name = ""
    if cursor := request.query.get("cursor", ""):
        try:
            last_name = name_in(cursor)
        except ValueError:
            cursor = ""
    listing = get_listing(generation.catalog, generation.public_url)
    page_json = json.loads(listing.page(Query(search, category, limit=ROWS_PER_PAGE, after=last_name)).content)
    return page(
        request,
        "guides.html",
        public_url=generation.public_url,
        search=search,
        category=category or "",
        categories=sorted(listing.categories),
        providers=page_json["data"],
        following=page_json.get("next_cursor"),
        provider_count=len(generation.catalog.providers),
        first=not cursor,
    )
