"""Jinja under an application key of our own, so that a host which uses aiohttp-jinja2 itself is not disturbed."""

import secrets
from typing import Any, Final

import aiohttp_jinja2
import jinja2
from aiohttp import web

from gateway import resources

TEMPLATES: Final = web.AppKey("gateway_templates", jinja2.Environment)


def setup_templates(app: web.Application) -> None:
    """Undefined names raise, so that a page with a hole in it is a failed test and not a page."""
    aiohttp_jinja2.setup(
        app,
        app_key=TEMPLATES,
        loader=jinja2.FileSystemLoader(resources.folder("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )


def page(request: web.Request, template: str, status: int = 200, **context: Any) -> web.Response:
    """The page with the headers that every page of ours has: nothing may frame, script, cache or leak it."""
    nonce = secrets.token_urlsafe(16)
    response = aiohttp_jinja2.render_template(
        template, request, {**context, "nonce": nonce}, app_key=TEMPLATES, status=status
    )
    response.headers.update(
        {
            "Content-Security-Policy": (
                f"default-src 'none'; style-src 'nonce-{nonce}'; img-src 'self'; form-action *; "
                "frame-ancestors 'none'; base-uri 'none'"
            ),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
    )
    return response
