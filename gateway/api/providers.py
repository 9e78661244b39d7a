"""The read-only catalog: providers and their logos."""

import colorsys
import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from typing import Final

from aiohttp import web
from multidict import MultiMapping

from gateway.api.request_body import require_empty_body
from gateway.catalog.brand_icons import BrandIcon, brand_icon, own_logo
from gateway.catalog.checks import PROVIDER_NAME
from gateway.catalog.listing import Listing, ListingBody, Query, get_listing, name_in
from gateway.errors import InvalidRequest, Issue, NotFound
from gateway.middleware.key_limits import needs
from gateway.runtime import generation_of
from gateway.text import close_matches, did_you_mean

# ── Logos: the brand's icon on the brand's color, or initials if the catalog has no icon. No image is fetched.

MIN_CONTRAST: Final = 4.5  # contrast of white letters on the color, required by WCAG 2.2 §1.4.3
MIN_ICON_CONTRAST: Final = (
    2.2  # if the color's contrast with white is lower, the icon is dark. WCAG has no minimum for logos (§1.4.11)
)
DARK_INK: Final = "#1a1a1a"


@lru_cache(maxsize=2048)
def initials_svg(name: str, display_name: str) -> str:
    """Return an SVG image of 64 by 64 pixels with the initials of `display_name`. The color of the image depends only
    on `name`."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" height="64" role="img">'
        f"<title>{escape(display_name)}</title>"
        f'<rect width="64" height="64" rx="14" fill="{color(name)}"/>'
        '<text x="32" y="33" fill="#ffffff" font-family="system-ui, sans-serif" font-size="26" font-weight="600" '
        f'text-anchor="middle" dominant-baseline="central">{escape(initials(display_name))}</text>'
        "</svg>"
    )


def brand_svg(icon: BrandIcon, display_name: str) -> str:
    """Return an SVG image with the brand's icon on its color."""
    rgb = tuple(int(icon.color[index : index + 2], 16) / 255 for index in (1, 3, 5))
    ink = "#ffffff" if contrast_with_white((rgb[0], rgb[1], rgb[2])) >= MIN_ICON_CONTRAST else DARK_INK
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" height="64" role="img">'
        f"<title>{escape(display_name)}</title>"
        f'<rect width="64" height="64" rx="14" fill="{icon.color}"/>'
        f'<path transform="translate(14 14) scale(1.5)" fill="{ink}" d="{icon.path}"/>'
        "</svg>"
    )


def initials(display_name: str) -> str:
    """Return one or two capital letters: the first letters of the first two words or, for a single word, its first
    letter and its next capital (``GitHub`` ▸ ``GH``)."""
    words = ["".join(c for c in word if c.isalnum()) for word in display_name.split()]
    words = [word for word in words if word]
    if not words:
        return "?"
    if len(words) > 1:
        return (words[0][0] + words[1][0]).upper()
    capitals = [c for c in words[0][1:] if c.isupper()]
    return words[0][0].upper() + (capitals[0] if capitals and not words[0].isupper() else "")


def color(name: str) -> str:
    """Return a color as ``#rrggbb``, which depends only on `name` and is dark enough for white letters."""
    digest = hashlib.sha256(name.encode()).digest()
    hue, saturation = digest[0] / 256, 0.45 + digest[1] / 256 * 0.25
    lightness = 0.5
    while contrast_with_white(rgb := colorsys.hls_to_rgb(hue, lightness, saturation)) < MIN_CONTRAST:
        lightness -= 0.02
    return "#" + "".join(f"{int(part * 255):02x}" for part in rgb)


def contrast_with_white(rgb: tuple[float, float, float]) -> float:
    """Return the contrast ratio of WCAG 2.2 between white and `rgb`. `rgb`: red, green and blue, from 0 to 1."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb)
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


# ── ``GET /images/template-logos/{name}.svg``: a logo for each provider. No key is needed, because pages embed logos.

# A browser that opens an SVG directly treats it as a document. These headers forbid scripts and requests.
LOGO_HEADERS: Final = {
    "Cache-Control": "public, max-age=86400",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}


async def logo(request: web.Request) -> web.Response:
    """Return a provider's logo. An image of the operator comes first, then the icon of the provider, of its base entry
    or of its family. Without any of these, the logo shows the provider's initials.

    Raises NotFound for a name that is not in the catalog.
    """
    generation = generation_of(request)
    provider = generation.catalog.get(request.match_info["name"])
    if provider is None:
        raise NotFound("not_found", "There is no provider with this name. GET /providers lists the providers.")
    custom_logo = own_logo(generation.config.catalog, provider.name)
    if custom_logo is not None:
        return web.Response(body=custom_logo.content, content_type=custom_logo.media_type, headers=LOGO_HEADERS)
    logo_names = filter(None, (provider.name, provider.alias, provider.family))
    icon = next(filter(None, map(brand_icon, logo_names)), None)
    image = (
        initials_svg(provider.name, provider.display_name) if icon is None else brand_svg(icon, provider.display_name)
    )
    return web.Response(text=image, content_type="image/svg+xml", headers=LOGO_HEADERS)


# ── ``GET /providers`` and ``GET /providers/{provider}``: the read-only catalog (docs/http-api.md#endpoints).

QUERY_NAMES: Final = ("search", "category", "auth_mode", "limit", "cursor")
MAX_VALUE_LENGTH: Final = 255

_LIMIT_FORM = re.compile(r"0*[1-9][0-9]{0,8}")


@needs(limits=True)
async def list_providers(request: web.Request) -> web.Response:
    """List providers in the order of their names.

    ``search``: words to find in the name, display name and categories. ``category``, ``auth_mode``: exact values,
    ignoring case. ``limit``: maximum number of providers, 1 or more; absent: no maximum. ``cursor``: ``next_cursor`` of
    the previous response. Raises InvalidRequest.
    """
    provider_listing = listing(request)
    query = read_list_query(request.query)
    require_empty_body(request)
    _check_filters(provider_listing, query)
    return listing_response(request, provider_listing.page(query))


@needs(limits=True)
async def get_provider(request: web.Request) -> web.Response:
    """Return one provider. Raises NotFound, InvalidRequest."""
    if request.query:
        raise _invalid_query(
            [Issue("unrecognized_keys", f"Unrecognized key: {key!r}", (key,)) for key in request.query]
        )
    require_empty_body(request)
    return listing_response(request, provider_in_path(request))


def provider_in_path(request: web.Request) -> ListingBody:
    """Return the provider that the path names. Raises NotFound, InvalidRequest."""
    name = request.match_info["provider"]
    if not PROVIDER_NAME.fullmatch(name):
        issue = Issue("invalid_format", "A provider's name has letters, digits, '_' and '-' only.", ("provider",))
        raise InvalidRequest("invalid_uri_params", "The provider's name is malformed.", errors=[issue])
    body = listing(request).provider_body(name)
    if body is None:
        suggestion = did_you_mean(name, generation_of(request).catalog.providers)
        raise NotFound(
            "not_found",
            f"There is no provider '{name}'{suggestion or '.'} GET /providers?search=… finds the right name.",
        )
    return body


def listing(request: web.Request) -> Listing:
    """Return the listing of the current catalog."""
    generation = generation_of(request)
    return get_listing(generation.catalog, generation.public_url)


def read_list_query(parameters: MultiMapping[str]) -> Query:
    """Parse the query parameters of ``GET /providers``. Raises InvalidRequest with all faults."""
    issues = list(_query_issues(parameters))
    if issues:
        raise _invalid_query(issues)
    limit, cursor = parameters.get("limit"), parameters.get("cursor")
    return Query(
        search=" ".join(parameters.get("search", "").split()),
        category=parameters.get("category") or None,
        auth_mode=parameters.get("auth_mode") or None,
        limit=None if limit is None else int(limit),
        after="" if not cursor else name_in(cursor),
    )


def _check_filters(listing: Listing, query: Query) -> None:
    """Raise InvalidRequest for an unknown auth mode or category: an empty list would hide the mistake."""
    issues = []
    if query.auth_mode is not None and query.auth_mode.upper() not in listing.auth_modes:
        known_modes = ", ".join(sorted(listing.auth_modes))
        issues.append(
            Issue("invalid_value", f"No provider has that auth_mode. The auth modes are {known_modes}.", ("auth_mode",))
        )
    if query.category is not None and query.category.casefold() not in listing.categories:
        similar_categories = close_matches(query.category.casefold(), listing.categories, 3) or sorted(
            listing.categories
        )
        ellipsis = " …" if len(similar_categories) > 40 else ""
        message = f"No provider is in that category. The categories are {', '.join(similar_categories[:40])}{ellipsis}."
        issues.append(Issue("invalid_value", message, ("category",)))
    if issues:
        raise InvalidRequest("invalid_query_params", " ".join(issue.message for issue in issues), errors=issues)


def _query_issues(parameters: MultiMapping[str]) -> Iterator[Issue]:
    for key in dict.fromkeys(parameters):
        values = parameters.getall(key)
        if key not in QUERY_NAMES:
            yield Issue(
                "unrecognized_keys", f"Unrecognized key: {key!r}. Known keys: {', '.join(QUERY_NAMES)}.", (key,)
            )
        elif len(values) > 1:
            yield Issue("invalid_type", f"{key} is given {len(values)} times; give it once.", (key,))
        elif len(values[0]) > MAX_VALUE_LENGTH * 2:
            yield Issue("too_big", f"{key} is longer than {MAX_VALUE_LENGTH * 2} characters.", (key,))
        elif key == "limit" and not (values[0].isascii() and _LIMIT_FORM.fullmatch(values[0])):
            yield Issue("invalid_type", "limit must be a whole number, 1 or more.", ("limit",))
        elif key == "cursor" and values[0] and not _is_cursor(values[0]):
            yield Issue("invalid_format", "Invalid cursor: send next_cursor unchanged.", ("cursor",))


def _is_cursor(text: str) -> bool:
    try:
        name_in(text)
    except ValueError:
        return False
    return True


def _invalid_query(issues: list[Issue]) -> InvalidRequest:
    names = ", ".join(dict.fromkeys(".".join(issue.path) for issue in issues))
    return InvalidRequest("invalid_query_params", f"These query parameters are wrong: {names}.", errors=issues)


def listing_response(request: web.Request, body: ListingBody) -> web.Response:
    """Return `body` with its ETag, or 304 if the caller already has this version of `body` (RFC 9110 §13.1.2)."""
    headers = {"ETag": f'"{body.etag}"', "Cache-Control": "private, no-cache"}
    etags = request.if_none_match or ()
    if any(tag.value in {body.etag, "*"} for tag in etags):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body.content, content_type="application/json", charset="utf-8", headers=headers)
