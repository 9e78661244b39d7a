"""The frame of the console's pages: who looks, where they are, and the same data as JSON."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import hdrs, web

from gateway import clock, resources
from gateway.pages.templates import page
from gateway.records.console import ConsoleSession
from gateway.runtime import generation_of
from gateway.secret import Secret

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
"""The first of each address below an environment, and its name in the menu."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Somebody at the console. `form`: what a form of theirs holds (`gateway.console.sign_in`). `fresh`: a token that the
    browser does not hold yet."""

    session: ConsoleSession
    form: str
    fresh: Secret | None = None

    @property
    def name(self) -> str:
        return self.session.name

    @property
    def may_act(self) -> bool:
        return self.session.role == "operator"


@dataclass(frozen=True, slots=True)
class View:
    """What a page shows: `data` holds plain values only, and is the page's JSON. `refresh_s`: it is loaded again so often."""

    template: str
    data: Mapping[str, Any]
    section: str = ""
    refresh_s: int | None = None


def console_path(request: web.Request, /, *below: str, **query: str) -> str:
    """The address of a page of the console."""
    path = "/".join((f"{generation_of(request).public_url}/console", *below))
    return f"{path}?{urlencode(query)}" if query else path


def render(
    request: web.Request,
    who: SignedIn | None,
    view: View,
    *,
    environment: str | None = None,
    status: int = 200,
) -> web.Response:
    generation = generation_of(request)
    answer = page(
        request,
        f"console/{view.template}",
        status,
        **view.data,
        who=who,
        environment=environment,
        environments=list(generation.config.environments),
        sections=SECTIONS,
        section=view.section,
        css=f"{generation.public_url}/console/console.css?v={_style()[1]}",
        icon=f"{generation.public_url}/connect/assets/icon.svg",
        root=lambda *below, **query: console_path(request, *below, **query),
        here=lambda section="", /, **query: console_path(
            request, *(part for part in (environment or "", section) if part), **query
        ),
        since=since,
    )
    if view.refresh_s is not None:
        answer.headers["Refresh"] = str(view.refresh_s)
    answer.headers["X-Frame-Options"] = "DENY"
    answer.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    return answer


def as_json(data: Mapping[str, Any]) -> web.Response:
    return web.json_response(dict(data), headers={hdrs.CACHE_CONTROL: "no-store", "X-Content-Type-Options": "nosniff"})


def since(moment: str | None) -> str:
    """How long ago, or ahead, in one unit: ``3 min ago``."""
    if not moment:
        return "never"
    seconds = (clock.now() - datetime.fromisoformat(moment)).total_seconds()
    size = abs(seconds)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if size >= length:
            return f"{int(size // length)} {unit} ago" if seconds >= 0 else f"in {int(size // length)} {unit}"
    return "now"


@cache
def _style() -> tuple[bytes, str]:
    content = (resources.folder("templates") / "console" / "console.css").read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:16]


def style(request: web.Request) -> web.Response:
    """GET /console/console.css"""
    content, mark = _style()
    kept = "public, max-age=31536000, immutable" if request.query.get("v") == mark else "no-cache"
    headers = {
        hdrs.CACHE_CONTROL: kept,
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return web.Response(body=content, content_type="text/css", charset="utf-8", headers=headers)
