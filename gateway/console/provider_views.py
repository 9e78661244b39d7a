"""The console's page Providers: each provider's calls and failures in the last 24 hours, and open circuit breakers.

The page also shows the evidence for each provider's catalog entry.
"""

from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web
from yarl import URL

from gateway import clock
from gateway.api.connection_json import timestamp_with_offset
from gateway.catalog.provider import Provider
from gateway.console.console_page import TOTALS_SPAN, View
from gateway.console.integration_views import TRUST
from gateway.console.query_fields import fields_of, number_in
from gateway.origin import origin_of
from gateway.records.traffic import PlaceTotal, quantile_ms
from gateway.runtime import RUNTIME, Runtime, generation_of

ROWS_PER_PAGE: Final = 40
FAILURE_CLASSES: Final = (
    "rejected",
    "throttled",
    "held back",
    "refused here",
    "unreachable",
    "client errors",
    "server errors",
    "refresh failed",
)
_UNREACHABLE: Final = frozenset(
    {"upstream_unreachable", "upstream_timeout", "upstream_tls", "upstream_protocol", "token_endpoint_unavailable"}
)


async def providers(request: web.Request, environment: str) -> View:
    """Show the providers that the environment's integrations use. Providers with problems come first."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    totals = await runtime.store.call_log.totals(environment, clock.now() - TOTALS_SPAN)
    places: dict[str, list[PlaceTotal]] = {}
    for place in totals.places:
        places.setdefault(place.integration_id, []).append(place)
    open_origins = _open_circuit_origins(runtime)
    keys_by_provider: dict[str, list[str]] = {}
    for integration in generation.integrations.list_in(environment):
        keys_by_provider.setdefault(integration.provider, []).append(integration.integration_id)
    rows = [
        _provider_row(
            name,
            generation.catalog.get(name),
            keys,
            [place for key in keys for place in places.get(key, [])],
            open_origins,
        )
        for name, keys in keys_by_provider.items()
    ]
    rows.sort(key=lambda row: (not row["left_alone"], -row["failed"], row["name"]))
    first_row = number_in(fields_of(request.query, ("from",)), "from") or 0
    data = {
        "title": "Providers",
        "classes": list(FAILURE_CLASSES),
        "providers": rows[first_row : first_row + ROWS_PER_PAGE],
        "following": first_row + ROWS_PER_PAGE if len(rows) > first_row + ROWS_PER_PAGE else None,
        "left_alone": sorted(open_origins),
        "guides": f"{generation.public_url}/guides",
        "public_url": generation.public_url,
    }
    return View("providers.html", data, "providers")


def _open_circuit_origins(runtime: Runtime) -> set[str]:
    """Return all origins whose circuit breaker is open."""
    return {gate.name for gate in runtime.egress_limits if not gate.breaker.is_closed}


def _provider_row(
    name: str, provider: Provider | None, keys: list[str], places: Sequence[PlaceTotal], open_origins: set[str]
) -> dict[str, Any]:
    counts = dict.fromkeys(FAILURE_CLASSES, 0)
    calls = [place for place in places if place.kind == "call"]
    for place in places:
        if place.reason and place.kind in ("call", "refresh"):
            counts[failure_class(place.kind, place.reason)] += place.calls
    calls_by_bucket = (
        [sum(bucket_counts) for bucket_counts in zip(*(call.times for call in calls), strict=True)] if calls else []
    )
    success_times = [call.last_at for call in calls if not call.reason]
    return {
        "name": name,
        "display_name": provider.display_name if provider else name,
        "integrations": sorted(keys),
        "trust": TRUST.get(provider.shown_provenance() or "", "no source named") if provider else "not in the catalog",
        "sources": _sources(provider) if provider else [],
        "calls": sum(call.calls for call in calls),
        "failed": sum(counts.values()),
        "errors": {label: count for label, count in counts.items() if count},
        "provider_calls": sum(calls_by_bucket),
        "p50_ms": quantile_ms(calls_by_bucket, 0.5),
        "p95_ms": quantile_ms(calls_by_bucket, 0.95),
        "last_success": timestamp_with_offset(max(success_times)) if success_times else None,
        "left_alone": sorted(origins_of(provider) & open_origins) if provider else [],
    }


def _sources(provider: Provider) -> list[str]:
    sources = set(provider.sources or ())
    if provider.evidence is not None:
        for _, group in provider.evidence.groups():
            sources.update(group.sources)
    return sorted(sources)


def failure_class(kind: str, reason: str) -> str:
    """Return the class of a failure, one of `FAILURE_CLASSES`."""
    if reason in _UNREACHABLE:
        return "unreachable"
    if kind == "refresh":
        return "refresh failed"
    if reason in ("401", "reconnect_needed"):
        return "rejected"
    if reason == "429":
        return "throttled"
    if reason == "busy":
        return "held back"
    if reason.isdigit():
        return "server errors" if reason.startswith("5") else "client errors"
    return "refused here"


def origins_of(provider: Provider) -> set[str]:
    """Return the origins of the URLs in the provider's entry, in the format of `origin.origin_of`.

    An origin that depends on a setting of the connection is left out.
    """
    urls = (provider.proxy.base_url, provider.token_url, provider.refresh_url)
    bases = ("/".join(text.split("/")[:3]) for text in urls if isinstance(text, str))
    literal_urls = (URL(base) for base in bases if "${" not in base)
    return {origin_of(url.scheme, url.host, url.port) for url in literal_urls if url.host and url.port}
