"""Renders Jinja templates under the gateway's own application key, so that a host application that uses aiohttp-jinja2
keeps its own templates."""

import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from gateway import resources

if TYPE_CHECKING:  # imported at the first page: most workers never serve a page, and the module costs 3 MB per worker
    import jinja2


class Templates:
    """The template environment for aiohttp-jinja2, created when it is first used."""

    def __init__(self) -> None:
        self._cache: dict[str, tuple[Mapping[str, Any], str]] = {}

    @cached_property
    def environment(self) -> "jinja2.Environment":
        """The Jinja environment.

        An undefined name in a template raises an error, so that a test finds a missing value.
        """
        import jinja2

        loader = jinja2.FileSystemLoader(resources.folder("templates"))
        return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)

    def get_template(self, name: str) -> "jinja2.Template":
        return self.environment.get_template(name)

    def render_once(self, name: str, context: Mapping[str, Any], nonce: str) -> str:
        """Return the page of the template `name` with this `nonce`.

        The page is rendered again only if `context` differs from that of the last call.
        """
        cached = self._cache.get(name)
        if cached is None or cached[0] != context:
            cached = context, self.get_template(name).render({**context, "nonce": _NONCE_PLACEHOLDER})
            self._cache[name] = cached
        return cached[1].replace(_NONCE_PLACEHOLDER, nonce)


_NONCE_PLACEHOLDER: Final = secrets.token_urlsafe(16)  # stands for the nonce in a page that is kept
TEMPLATES: Final = web.AppKey("gateway_templates", Templates)


def setup_templates(app: web.Application) -> None:
    app[TEMPLATES] = Templates()


def page(
    request: web.Request,
    template: str,
    status: int = 200,
    *,
    script: bool = False,
    ancestors: Sequence[str] = (),
    once: bool = False,
    **context: Any,
) -> web.Response:
    """Return the page of `template`, with the security headers that every page has.

    Browsers do not cache the page and send no referrer from it. `script`: whether the gateway's script may run in the
    page and send requests to the gateway's origin. `ancestors`: the origins that may show the page in a frame. `once`:
    whether to keep the rendered page for further requests with an equal `context`, because rendering takes long.
    """
    import aiohttp_jinja2

    nonce = secrets.token_urlsafe(16)
    if once:
        text = request.config_dict[TEMPLATES].render_once(template, context, nonce)
        response = web.Response(text=text, status=status, content_type="text/html", charset="utf-8")
    else:
        response = aiohttp_jinja2.render_template(
            template,
            request,
            {**context, "nonce": nonce},
            app_key=TEMPLATES,  # type: ignore[arg-type]
            status=status,
        )
    response.headers.update(
        {
            "Content-Security-Policy": _policy(nonce, script, ancestors),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
    )
    return response


def _policy(nonce: str, script: bool, ancestors: Sequence[str]) -> str:
    scripts = f"script-src 'nonce-{nonce}'; connect-src 'self'; " if script else ""
    return (
        f"default-src 'none'; style-src 'nonce-{nonce}'; {scripts}img-src 'self'; form-action 'self'; "
        f"frame-ancestors {' '.join(ancestors) or chr(39) + 'none' + chr(39)}; base-uri 'none'"
    )
