"""The URL path of each page, and the URL path of the form for each action."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import structlog
from aiohttp import web

from gateway import clock
from gateway.console import (
    audit_view,
    call_views,
    connection_views,
    dry_run_act,
    event_views,
    incident_views,
    integration_views,
    key_views,
    now_view,
    provider_views,
)
from gateway.console.console_page import SignedIn, View, as_json, console_path, render
from gateway.console.sign_in import posted_by_operator, refusal_page, require_sign_in, set_session_cookie
from gateway.errors import GatewayError, InvalidRequest, NotFound
from gateway.pages.frame import see_other
from gateway.records.audit import AuditActor, current_actor
from gateway.runtime import generation_of
from gateway.store.console_sessions import CONSOLE

log = structlog.get_logger(__name__)

ViewOf = Callable[[web.Request, str], Awaitable[View]]
Action = Callable[[web.Request, SignedIn, str, dict[str, str]], Awaitable[View | str]]
"""An action returns the URL of the next page, or a page that is shown only once, for example with a link."""

RefusedForm = Callable[[web.Request, str, dict[str, str], GatewayError], Awaitable[View]]

VIEWS: Final[dict[str, ViewOf]] = {
    "": now_view.now,
    "connections": connection_views.connections,
    "connection": connection_views.connection,
    "calls": call_views.calls,
    "call": call_views.call,
    "providers": provider_views.providers,
    "integrations": integration_views.integrations,
    "integration": integration_views.integration,
    "keys": key_views.keys,
    "key": key_views.key,
    "events": event_views.events,
    "audit": audit_view.audit,
    "incident": incident_views.incident,
}
ACTIONS: Final[dict[str, Action]] = {
    "call/dry-run": dry_run_act.dry_run,
    "integration/connect": integration_views.connect,
    "connection/refresh": connection_views.refresh,
    "connection/link": connection_views.link,
    "connection/delete": connection_views.delete,
    "key/mint": key_views.mint,
    "key/revoke": key_views.revoke,
    "events/replay": event_views.replay,
    "incident/revoke": incident_views.revoke,
}
REFUSED_FORMS: Final[dict[str, RefusedForm]] = {"key/mint": key_views.refused_mint}
"""The actions with a long form. After an error, the form is shown again with the values that the operator typed."""
JSON: Final = ".json"


async def view(request: web.Request) -> web.StreamResponse:
    """Handle ``GET /console``, ``GET /console/{environment}`` and the paths below.

    If the path ends with ``.json``, return the page's data as JSON.
    """
    tail = request.match_info.get("tail", "")
    wants_json = tail.endswith(JSON)
    try:
        signed_in = await require_sign_in(request)
        _check_characters(request.query.values())
        if not tail:
            return _with_session(request, signed_in, see_other(console_path(request, _first_environment(request))))
        environment, section = _environment_and_section(request, tail.removesuffix(JSON))
        view = await VIEWS[section](request, environment)
    except GatewayError as fault:
        if wants_json:
            raise
        return refusal_page(request, fault, reload=True)
    response = as_json(view.data) if wants_json else render(request, signed_in, view, environment=environment)
    return _with_session(request, signed_in, response)


def _with_session(request: web.Request, signed_in: SignedIn, response: web.StreamResponse) -> web.StreamResponse:
    if signed_in.new_cookie is not None:
        set_session_cookie(request, response, signed_in.new_cookie, signed_in.session.expires_at - clock.now())
    return response


async def action(request: web.Request) -> web.StreamResponse:
    """Handle ``POST /console/{environment}/…``: run one action.

    Show the page that the action returns, or redirect (303) to the URL that the action returns.
    """
    try:
        signed_in, fields = await posted_by_operator(request)
        _check_characters(fields.values())
        environment, _, action_name = request.match_info["tail"].partition("/")
        _check_environment(request, environment)
        if action_name not in ACTIONS:
            raise NotFound("not_found", "The console has no such form.")
        try:
            result = await _run_as_actor(
                signed_in, request, ACTIONS[action_name](request, signed_in, environment, fields)
            )
        except GatewayError as fault:
            if action_name not in REFUSED_FORMS or fault.status >= 500:
                raise
            form_view = await REFUSED_FORMS[action_name](request, environment, fields, fault)
            return render(request, signed_in, form_view, environment=environment, status=fault.status)
    except GatewayError as fault:
        return refusal_page(request, fault)
    shown_fields: dict[str, Any] = {name: value for name, value in fields.items() if len(value) <= 255}
    log.info("console_act", action=action_name, environment=environment, name=signed_in.name, fields=shown_fields)
    if isinstance(result, View):
        return render(request, signed_in, result, environment=environment)
    return see_other(result)


async def _run_as_actor(signed_in: SignedIn, request: web.Request, work: Awaitable[View | str]) -> View | str:
    """Await `work`. The audit trail records `signed_in` as the person who does the work."""
    token = current_actor.set(
        AuditActor("operator", name=signed_in.name, command=CONSOLE, address=request.remote or "")
    )
    try:
        return await work
    finally:
        current_actor.reset(token)


def _check_characters(values: Iterable[str]) -> None:
    """Raise InvalidRequest for a NUL character, which PostgreSQL refuses in a query."""
    if any("\0" in value for value in values):
        raise InvalidRequest("invalid_query_params", "A value has a NUL character. Remove it.")


def _environment_and_section(request: web.Request, tail: str) -> tuple[str, str]:
    """Return the environment and the section that the path names. Raises NotFound."""
    environment, _, section = tail.partition("/")
    _check_environment(request, environment)
    if section not in VIEWS:
        raise NotFound("not_found", "The console has no such page.")
    return environment, section


def _check_environment(request: web.Request, environment: str) -> None:
    if environment not in generation_of(request).config.environments:
        raise NotFound("not_found", f"gateway.yaml has no environment '{environment[:64]}'.")


def _first_environment(request: web.Request) -> str:
    environments = generation_of(request).config.environments
    if not environments:
        raise NotFound("not_found", "gateway.yaml has no environment. Add one under environments, and reload.")
    return next(iter(environments))
