"""The frame of the console's pages: the menu, the signed-in person, and the page's data as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import hdrs, web

from gateway import clock, resources
from gateway.api import providers
from gateway.console.alarms import alarms
from gateway.console.lazy_console import OWN_PORT
from gateway.errors import NotFound
from gateway.pages.frame import PageFile, file_response, read_file
from gateway.pages.templates import page
from gateway.records.console import ConsoleSession
from gateway.runtime import RUNTIME, generation_of
from gateway.secret import Secret

TOTALS_SPAN: Final = timedelta(hours=24)
"""The time span of the totals on pages."""
SECTIONS: Final = {
    "": "Now",
    "connections": "Connections",
    "calls": "Calls",
    "providers": "Providers",
    "integrations": "Integrations",
    "keys": "Keys",
    "events": "Events",
    "audit": "Audit",
    "incident": "Incident",
}
"""The first path segment below an environment, and the name of that page in the menu."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person who is signed in to the console.

    `csrf_token`: the value in this person's forms that protects them (`gateway.console.sign_in`). `new_cookie`: a new
    value for the session cookie, which the response must set; None if the cookie stays.
    """

    session: ConsoleSession
    csrf_token: str
    new_cookie: Secret | None = None

    @property
    def name(self) -> str:
        return self.session.name

    @property
    def is_operator(self) -> bool:
        return self.session.role == "operator"


@dataclass(frozen=True, slots=True)
class View:
    """The content of a page.

    `data`: plain values for the template; they are also the page's JSON. `section`: the page's entry in the menu.
    `live`: the part of the page that updates itself; None: no such part.
    """

    template: str
    data: Mapping[str, Any]
    section: str = ""
    live: "LivePart | None" = None


@dataclass(frozen=True, slots=True)
class LivePart:
    """A part of a page that the browser loads again from `url` every `every_s` seconds.

    `template`: the template of this part. `reloads_whole_page`: whether a browser without JavaScript loads the whole
    page again. `silent_s`: after this many seconds without a response, the page says that its data is old.
    """

    template: str
    url: str
    every_s: int
    reloads_whole_page: bool = False
    silent_s: int = 10


def console_url(request: web.Request) -> str:
    return generation_of(request).config.console_url


def console_path(request: web.Request, /, *parts: str, **query: str) -> str:
    """Return the URL of a page of the console. `parts`: the path segments after ``/console``."""
    path = "/".join((f"{console_url(request)}/console", *parts))
    return f"{path}?{urlencode(query)}" if query else path


def check_enabled(request: web.Request) -> None:
    """Raise NotFound if the console is off, or if it has its own port and the request came to `server.port`."""
    config = generation_of(request).config.console
    if not config.enabled:
        raise NotFound("not_found", "The console is off. To use it, set console.enabled: true in gateway.yaml.")
    if config.port is not None and OWN_PORT not in request:
        raise NotFound("not_found", "No such endpoint. See GET /docs.")


def render(
    request: web.Request,
    signed_in: SignedIn | None,
    view: View,
    *,
    environment: str | None = None,
    status: int = 200,
) -> web.Response:
    """Return the page. For a request from htmx, return only the part of the page that updates itself."""
    generation, runtime = generation_of(request), request.app[RUNTIME]
    live_part = view.live
    is_part = live_part is not None and request.headers.get("HX-Request") == "true"
    response = page(
        request,
        f"console/{live_part.template if live_part is not None and is_part else view.template}",
        status,
        script=live_part is not None,
        **view.data,
        live=live_part,
        who=signed_in,
        environment=environment,
        environments=list(generation.config.environments),
        sections=SECTIONS,
        section=view.section,
        wrong=[]
        if is_part or signed_in is None or "alarms" in view.data
        else [alarm["what"] for alarm in alarms(runtime)],
        logged=runtime.call_queue.stores_calls,
        asset=lambda name: f"{console_path(request, 'assets', name)}?v={_read_asset(name).content_hash}",
        root=lambda *below, **query: console_path(request, *below, **query),
        page_url=lambda section="", /, **query: console_path(
            request, *(part for part in (environment or "", section) if part), **query
        ),
        since=since,
    )
    response.headers["X-Frame-Options"] = "DENY"
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    return response


def as_json(data: Mapping[str, Any]) -> web.Response:
    return web.json_response(dict(data), headers={hdrs.CACHE_CONTROL: "no-store", "X-Content-Type-Options": "nosniff"})


def since(moment: str | None) -> str:
    """Return how far `moment` is from now, in one unit, such as ``3 min ago`` or ``in 2 h``.

    `moment`: an ISO 8601 time. For None, return ``never``.
    """
    if not moment:
        return "never"
    seconds = (clock.now() - datetime.fromisoformat(moment)).total_seconds()
    distance_s = abs(seconds)
    for unit, unit_s in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if distance_s >= unit_s:
            return (
                f"{int(distance_s // unit_s)} {unit} ago" if seconds >= 0 else f"in {int(distance_s // unit_s)} {unit}"
            )
    return "now"


# ── The files that pages load. The paths of files come from a fixed table, never from a request.

ASSETS: Final = {
    "console.css": ("console", "text/css"),
    "htmx.min.js": ("console", "text/javascript"),
    "console.js": ("console", "text/javascript"),
    "icon.svg": ("connect", "image/svg+xml"),
}


@cache
def _read_asset(name: str) -> PageFile:
    return read_file(resources.folder("templates") / ASSETS[name][0] / name)


def asset(request: web.Request) -> web.Response:
    """Handle ``GET /console/assets/{name}``. Raises NotFound."""
    check_enabled(request)
    name = request.match_info["name"]
    if name not in ASSETS:
        raise NotFound("not_found", "There is no such file.")
    return file_response(request, _read_asset(name), ASSETS[name][1])


async def logo(request: web.Request) -> web.Response:
    """Handle ``GET /console/logos/{name}.svg``: a provider's logo from the console's own origin. Raises NotFound."""
    check_enabled(request)
    return await providers.logo(request)
