"""The console's pages of integrations: settings, findings, results of calls, and a link to test an integration."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.access.caller import Caller
from gateway.api import connect_endpoints
from gateway.api.request_body import validated
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.evidence import evidence_sentences
from gateway.catalog.hosts import open_secret_urls
from gateway.catalog.refresh_tokens import advice_on_refresh_token, refresh_scope
from gateway.console.alarms import store_healthy
from gateway.console.authorization_counts import AuthorizationCounts, advice_for, authorization_counts
from gateway.console.connection_views import record_link, summary
from gateway.console.console_page import TOTALS_SPAN, SignedIn, View, console_path
from gateway.console.failure_causes import FailureCause, client_refusal, failures
from gateway.console.query_fields import fields_of, number_in
from gateway.errors import NotFound
from gateway.generation import Generation
from gateway.integrations.client_mistakes import client_mistakes, client_values
from gateway.records.access import Environment
from gateway.records.integration import Integration
from gateway.runtime import RUNTIME, generation_of
from gateway.store import ListFilter

PAGE_SIZE: Final = 50
ROWS_PER_TABLE: Final = 10
TEST_USER: Final = "console-test"

TRUST: Final = {
    "confirmed": "confirmed",
    "sourced": "from named sources",
    "unconfirmed": "not confirmed",
}


async def integrations(request: web.Request, environment: str) -> View:
    generation = generation_of(request)
    offset = number_in(fields_of(request.query, ("from",)), "from") or 0
    all_integrations = generation.integrations.list_in(environment)
    data = {
        "title": "Integrations",
        "callback_url": generation.config.callback_url,
        "integrations": [
            _integration_json(generation, integration) for integration in all_integrations[offset : offset + PAGE_SIZE]
        ],
        "following": offset + PAGE_SIZE if len(all_integrations) > offset + PAGE_SIZE else None,
    }
    return View("integrations.html", data, "integrations")


def _integration_json(generation: Generation, integration: Integration) -> dict[str, Any]:
    """Return the integration's settings and faults. For secrets, return only whether they are set."""
    provider = generation.catalog.get(integration.provider)
    json_body: dict[str, Any] = {
        "key": integration.integration_id,
        "provider": integration.provider,
        "name": integration.display_name or (provider.display_name if provider else integration.provider),
        "made_by": "gateway.yaml"
        if (integration.environment, integration.integration_id) in _declared_integrations(generation)
        else "API",
        "auth_mode": provider.auth_mode if provider else None,
        "client_id": integration.client_id,
        "has_client_secret": bool(integration.client_secret),
        "scopes": list(integration.scopes or ()),
        "trust": TRUST.get(provider.shown_provenance() or "", "no source named") if provider else None,
        "evidence": evidence_sentences(provider.evidence) if provider else [],
        "faults": [],
        "logo": f"{generation.config.console_url}/console/logos/{integration.provider}.svg" if provider else None,
        "guide": f"{generation.public_url}/providers/{integration.provider}/guide" if provider else None,
    }
    if provider is None:
        json_body["faults"].append(
            f"The catalog has no provider '{integration.provider}' any more, so nobody can connect. Choose another provider."
        )
    elif AUTH_MODES[provider.auth_mode].needs_client and not integration.client_id:
        json_body["faults"].append("It has no client_id. Register an application at the provider, and set client_id.")
    if (
        provider is not None
        and integration.client_secret
        and not integration.allowed_hosts
        and any(open_secret_urls(provider))
    ):
        json_body["faults"].append("End users type the host to which its client secret is sent. Set allowed_hosts.")
    return json_body


async def integration(request: web.Request, environment: str) -> View:
    """Show one integration: its settings, findings, connections, and the results of its calls."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    integration = _find_integration(generation, environment, request.query.get("key", ""))
    key = integration.integration_id
    newest_connections, connections_in_trouble, totals, counts = await asyncio.gather(
        runtime.store.connections.list(environment, ListFilter(integration_ids=(key,), limit=ROWS_PER_TABLE + 1)),
        runtime.store.connections.list(
            environment, ListFilter(integration_ids=(key,), in_trouble=True, limit=ROWS_PER_TABLE)
        ),
        runtime.store.call_log.totals(environment, clock.now() - TOTALS_SPAN),
        authorization_counts(runtime, environment),
    )
    places = [place for place in totals.places if place.integration_id == key]
    data = {
        "title": key,
        "callback_url": generation.config.callback_url,
        "integration": _integration_json(generation, integration),
        "findings": [
            *_findings(generation, integration, client_refusal(places, clock.now())),
            *_authorizations(generation, integration, counts.get(key)),
        ],
        "calls": sum(place.calls for place in places if place.kind == "call"),
        "failures": failures(places, clock.now(), store_healthy=store_healthy(runtime))[:ROWS_PER_TABLE],
        "trouble": [summary(connection) for connection in connections_in_trouble],
        "connections": [summary(connection) for connection in newest_connections[:ROWS_PER_TABLE]],
        "more": len(newest_connections) > ROWS_PER_TABLE,
        "test_user": TEST_USER,
    }
    return View("integration.html", data, "integrations")


def _find_integration(generation: Generation, environment: str, key: str) -> Integration:
    """Return the integration with the id `key`. Raises NotFound."""
    integration = generation.integrations.find(environment, key)
    if integration is None:
        raise NotFound("not_found", f"Environment '{environment}' has no integration '{key[:255]}'.")
    return integration


def _findings(
    generation: Generation, integration: Integration, refusal: FailureCause | None
) -> Iterator[dict[str, Any]]:
    """Yield the results of those checks of ``gateway doctor`` that need no network.

    Each result says whether the check passed and, if not, what to do. `refusal`: the cause if the provider refuses the
    integration's client; None if the provider does not refuse the client.
    """
    provider = generation.catalog.get(integration.provider)
    if provider is None:
        return
    developer_console = f"{provider.display_name}'s developer console"
    mistakes = client_mistakes(integration)
    for key, mistake in mistakes:
        yield {"ok": False, "what": f"{key} {mistake}.", "do": f"Copy it again from {developer_console}, and reload."}
    if refusal is not None:
        yield {"ok": False, "what": refusal.why, "do": refusal.do}
    elif (client := client_values(integration)) and not mistakes:
        yield {"ok": True, "what": f"The format of {' and '.join(client)} looks right.", "do": ""}
    scopes = integration.scopes if integration.scopes is not None else provider.default_scopes or ()
    needed_scope = refresh_scope(provider)
    if needed_scope is not None:
        is_requested = needed_scope in scopes
        requested_text = "requested" if is_requested else "not requested"
        finding = f"The scope '{needed_scope}' is {requested_text}. Without it there is no refresh token."
        yield {
            "ok": is_requested,
            "what": finding,
            "do": "" if is_requested else advice_on_refresh_token(provider, scopes),
        }
    mode = AUTH_MODES.get(provider.auth_mode)
    if mode is not None and mode.redirects:
        finding = f"Register exactly this callback URL at {provider.display_name}: {generation.config.callback_url}"
        yield {"ok": True, "what": finding, "do": ""}


def _authorizations(
    generation: Generation, integration: Integration, last_hour: AuthorizationCounts | None
) -> Iterator[dict[str, Any]]:
    """Yield a finding about the authorizations of the last hour; nothing if there were no authorizations."""
    if last_hour is not None:
        has_success = last_hour.succeeded > 0 and not last_hour.too_few_succeeded
        advice = "" if has_success else advice_for(generation, last_hour, integration.environment)
        yield {"ok": has_success, "what": last_hour.sentence(), "do": advice}


async def connect(request: web.Request, _signed_in: SignedIn, environment: str, fields: dict[str, str]) -> View:
    """Create a link with which an operator connects an account of their own, to test the integration."""
    generation = generation_of(request)
    integration = _find_integration(generation, environment, fields.get("key", ""))
    session_body = validated(
        {
            "end_user": {"id": fields.get("user", "").strip() or TEST_USER},
            "allowed_integrations": [integration.integration_id],
        },
        connect_endpoints.NewSession,
        "invalid_body",
    )
    runtime, caller = request.app[RUNTIME], Caller(Environment(environment))
    token_and_session = await connect_endpoints.new_session(runtime, generation, caller, session_body)
    await record_link(runtime, environment, token_and_session[1], integration.integration_id)
    json_body = connect_endpoints.connect_session_json(generation, *token_and_session)
    data = {
        "title": "Test the integration",
        "message": "Open the link and connect an account of your own. Errors are shown there and under Calls.",
        "link": json_body["connect_link"],
        "is_url": True,
        "until": json_body["expires_at"],
        "back": console_path(request, environment, "integration", key=integration.integration_id),
    }
    return View("outcome.html", data, "integrations")


def _declared_integrations(generation: Generation) -> set[tuple[str, str]]:
    return {
        (name, key) for name, environment in generation.config.environments.items() for key in environment.integrations
    }
