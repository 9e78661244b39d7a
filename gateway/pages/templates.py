"""Jinja under an application key of our own, so that a host which uses aiohttp-jinja2 itself is not disturbed."""

import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from gateway import resources

if TYPE_CHECKING:  # loaded with the first page: most workers never serve one, and it costs each 3 MB
    import jinja2


class Templates:
    """The template environment for aiohttp-jinja2, made when it is first needed."""

    @cached_property
    def environment(self) -> "jinja2.Environment":
        """Undefined names raise, so that a page with a hole in it is a failed test and not a page."""
        import jinja2

        loader = jinja2.FileSystemLoader(resources.folder("templates"))
        return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)

    def get_template(self, name: str) -> "jinja2.Template":
        return self.environment.get_template(name)


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
    **context: Any,
) -> web.Response:
    """The page with the headers that every page of ours has: nothing may cache or leak it, and nobody but `ancestors` may
    frame it. `script`: whether our own script runs, which may ask our own origin.
    """
    import aiohttp_jinja2

    nonce = secrets.token_urlsafe(16)
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
