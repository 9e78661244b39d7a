"""Providers, ordered by their failures."""

from tests.fakes.console import at_console, operation
from tests.fakes.gateways import RunningGateway


async def test_providers_are_listed_with_their_failures(running: RunningGateway) -> None:
    log = running.runtime.store.call_log
    rows = [operation(n, gateway_ms=0.2, token_ms=0.0, upstream_ms=40.0) for n in range(10)]
    rows += [operation(11, status=429), operation(12, status=502, error_code="upstream_unreachable")]
    rows += [operation(13, kind="refresh", error_code="invalid_grant", status=0)]
    await log.add_many(rows)
    async with at_console(running) as console:
        (provider,) = (await console.data("/dev/providers.json"))["providers"]
        assert (provider["integrations"], provider["calls"], provider["failed"], provider["p95_ms"]) == (
            ["tracker"],
            12,
            3,
            50,
        )
        assert provider["errors"] == {"throttled": 1, "unreachable": 1, "refresh failed": 1}
        assert provider["last_success"] is not None
        assert "throttled 1" in await console.page("/dev/providers")


async def test_evidence_of_a_shipped_entry_is_shown(running: RunningGateway) -> None:
    await running.json("POST", "/integrations", json={"unique_key": "ably", "provider": "ably"}, expect=200)
    entry = running.runtime.generation.catalog.providers["ably"]
    async with at_console(running) as console:
        rows = {provider["name"]: provider for provider in (await console.data("/dev/providers.json"))["providers"]}
        assert rows["ably"]["trust"] == {"sourced": "from named sources", "unconfirmed": "not confirmed"}.get(
            entry.shown_provenance() or "", "confirmed"
        )
        assert rows["ably"]["sources"]
        assert rows["tracker"]["trust"] == "no source named"
