"""The frame of every page for end users: language, brand, theme, and the headers that keep others out."""

from dataclasses import dataclass
from typing import Any, Final

from aiohttp import hdrs, web

from gateway.connections.origins import is_registered, trusts_loopback
from gateway.pages.assets import logo_mark, own
from gateway.pages.environment import page
from gateway.pages.words import Words
from gateway.services import SERVICES, Services

THEMES: Final = ("light", "dark")
LOOPBACK: Final = ("http://localhost:*", "http://127.0.0.1:*", "https://localhost:*", "https://127.0.0.1:*")


@dataclass(frozen=True, slots=True)
class Color:
    """A brand's colour, and what is read on it: white or black, whichever stands out more."""

    ground: str
    ink: str


def connect_page(
    request: web.Request, template: str, words: Words, status: int = 200, *, framed: bool = False, **context: Any
) -> web.Response:
    """`template` in the frame. `framed`: registered origins may embed it; else nobody may."""
    services = request.app[SERVICES]
    config, branding = services.config, services.config.branding
    public_url = config.server.public_url
    mark = logo_mark(branding.logo)
    theme = request.query.get("theme", "")
    app = branding.name
    return page(
        request,
        template,
        status,
        script=True,
        ancestors=embedders(services) if framed else (),
        t=words,
        lang=words.lang,
        app=app or words.plain("the_app"),
        brand=app,
        logo=f"{public_url}/connect/assets/logo?v={mark}" if mark else None,
        css=f"{public_url}/connect/assets/connect.css?v={own('connect.css').mark}",
        icon=f"{public_url}/connect/assets/icon.svg?v={own('icon.svg').mark}",
        js=f"{public_url}/connect/assets/connect.js?v={own('connect.js').mark}",
        light=color(branding.color),
        dark=color(branding.color_dark),
        theme=theme if theme in THEMES else None,
        **context,
    )


def see_other(address: str) -> web.Response:
    """303: the page at `address`, got afresh. The address we come from may hold a token, so that it goes along nowhere."""
    return web.Response(
        status=303,
        headers={hdrs.LOCATION: address, hdrs.CACHE_CONTROL: "no-store", "Referrer-Policy": "no-referrer"},
    )


def embedders(services: Services) -> tuple[str, ...]:
    """The origins whose pages may embed ours, of all environments: which one a session is of is checked when it shows."""
    named = {origin for one in services.config.environments.values() for origin in one.connect_origins}
    return (*sorted(named), *(LOOPBACK if trusts_loopback(services.config) else ()))


def openers(request: web.Request, environment: str | None) -> str:
    """Where the last page of a window posts its result: to the origins registered for `environment` (None: it is not known,
    so for any) and to our own; to any page where none is registered."""
    config = request.app[SERVICES].config
    known = config.environments.get(environment) if environment is not None else None
    named = config.environments.values() if known is None else [known]
    registered = sorted({origin for one in named for origin in one.connect_origins})
    return " ".join([*registered, origin_of(config.server.public_url)] if registered else ["*"])


def origin_of(public_url: str) -> str:
    scheme, _, rest = public_url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def may_embed(services: Services, environment: str, origin: str) -> bool:
    """Whether a page of `origin` may show a session of `environment`."""
    return is_registered(services.config, environment, origin)


def color(ground: str) -> Color:
    red, green, blue = (_linear(int(ground[at : at + 2], 16) / 255) for at in (1, 3, 5))
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return Color(ground, "#ffffff" if 1.05 / (light + 0.05) >= (light + 0.05) / 0.05 else "#000000")


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
