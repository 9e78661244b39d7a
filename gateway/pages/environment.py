"""Jinja under an application key of our own, so that a host which uses aiohttp-jinja2 itself is not disturbed."""

import secrets
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from gateway import resources
from gateway.errors import GatewayError
from middleware.facts import REQUEST_ID

if TYPE_CHECKING:  # loaded with the first page: most workers never serve one, and it costs each 3 MB
    import jinja2


class Templates:
    """What aiohttp-jinja2 asks for templates: the environment, made when it is first needed."""

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


def page(request: web.Request, template: str, status: int = 200, **context: Any) -> web.Response:
    """The page with the headers that every page of ours has: nothing may frame, script, cache or leak it."""
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
    message: str | None = None,
    integration_id: str | None = None,
) -> web.Response:
    """The page that says what went wrong and what to do, with the code and the request's id for whoever is asked for help.

    `message` stands in for that of `fault` where that one speaks to programmers. No connection is named: none was stored.
    """
    answer = page(
        request,
        "connect/result.html",
        status,
        title=title,
        message=message or fault.message,
        success=False,
        integration_id=integration_id,
        connection_id=None,
        site=None,
        code=fault.code,
        request_id=request[REQUEST_ID],
    )
    answer.headers["Gateway-Error"] = fault.code
    return answer
