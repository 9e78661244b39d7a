"""Jinja under an application key of our own, so that a host which uses aiohttp-jinja2 itself is not disturbed."""

import secrets
from typing import Any, Final

import aiohttp_jinja2
import jinja2
from aiohttp import web

from gateway import resources
from gateway.errors import GatewayError
from middleware.facts import REQUEST_ID

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


def failed(
    request: web.Request,
    fault: GatewayError,
    status: int = 400,
    *,
    title: str = "The account was not connected",
    integration_id: str | None = None,
    connection_id: str | None = None,
) -> web.Response:
    """The page that says what went wrong and what to do, with the code and the request's id for whoever is asked for help."""
    answer = page(
        request,
        "connect/result.html",
        status,
        title=title,
        message=fault.message,
        success=False,
        integration_id=integration_id,
        connection_id=connection_id,
        site=None,
        code=fault.code,
        request_id=request[REQUEST_ID],
    )
    answer.headers["Gateway-Error"] = fault.code
    return answer
