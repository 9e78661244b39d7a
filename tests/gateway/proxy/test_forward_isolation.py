"""A provider that hangs or fails does not slow down calls to other providers. Times are compared only within one run."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

from gateway.egress.limits import ConcurrencyLimit, ConcurrencySettings, EgressLimits
from tests.fakes.patience import PATIENCE_S
from tests.fakes.proxy_end import Gateway, gateway_to, opened_at
from tests.fakes.raw_provider import raw_provider

HANGING = 200
CALLS = 40
ROUNDS = 20


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def call_duration_s(gateway: Gateway, line: str) -> float:
    began = time.perf_counter()
    response = await gateway.call("/proxy/x", line)
    assert response.startswith(b"HTTP/1.1 200")
    return time.perf_counter() - began


async def median_latency(gateway: Gateway, line: str) -> float:
    return median([await call_duration_s(gateway, line) for _ in range(CALLS)])


@asynccontextmanager
async def hanging_calls(gateway: Gateway, concurrency: ConcurrencyLimit) -> AsyncIterator[None]:
    """Make many calls to the hanging provider. Half of the calls wait for the concurrency limit."""
    calls = [asyncio.create_task(gateway.call("/proxy/x")) for _ in range(HANGING)]
    try:
        await wait_until_calls_hang(concurrency, calls)
        assert concurrency.outstanding == HANGING // 2
        yield
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    async with asyncio.timeout(PATIENCE_S):
        while concurrency.outstanding + concurrency.waiting:
            await asyncio.sleep(0)


async def wait_until_calls_hang(concurrency: ConcurrencyLimit, calls: list[asyncio.Task[bytes]]) -> None:
    """Return when every call is in flight or waits for the concurrency limit."""
    async with asyncio.timeout(PATIENCE_S):
        while concurrency.outstanding + concurrency.waiting < len(calls):
            ended = [call.result() for call in calls if call.done()]
            assert not ended, ended
            await asyncio.sleep(0)


async def test_while_one_provider_hangs_under_many_calls_another_is_as_quick_as_before() -> None:
    egress_limits = EgressLimits(ConcurrencySettings(outstanding=HANGING // 2, waiting=HANGING, wait_s=60))
    async with (
        raw_provider(silent) as hanging,
        raw_provider() as working,
        gateway_to(
            opened_at(hanging.port, allowed_origins=(f"http://127.0.0.1:{working.port}",)), egress_limits=egress_limits
        ) as gateway,
    ):
        other_origin = f"Base-Url-Override: http://127.0.0.1:{working.port}"
        concurrency = egress_limits.for_origin(("http", "127.0.0.1", hanging.port)).concurrency
        before, meanwhile = [], []
        for _ in range(ROUNDS):  # alternate the measurements several times, because the machine may be busy
            before.append(await median_latency(gateway, other_origin))
            async with hanging_calls(gateway, concurrency):
                meanwhile.append(await median_latency(gateway, other_origin))
            if min(meanwhile) < 2 * min(before):
                break
    assert min(meanwhile) < 2 * min(before)


async def test_calls_to_an_unreachable_provider_fail_as_quickly_as_another_responds() -> None:
    async with raw_provider() as provider:
        closed_port = provider.port
    async with (
        raw_provider() as working,
        gateway_to(opened_at(closed_port, allowed_origins=(f"http://127.0.0.1:{working.port}",))) as gateway,
    ):
        for _ in range(20):
            await gateway.call("/proxy/x")
        for _ in range(ROUNDS):
            refusals, responses = [], []
            for _ in range(CALLS):
                began = time.perf_counter()
                assert b"\r\nGateway-Error: busy\r\n" in await gateway.call("/proxy/x")
                refusals.append(time.perf_counter() - began)
                responses.append(await call_duration_s(gateway, f"Base-Url-Override: http://127.0.0.1:{working.port}"))
            if median(refusals) < 1.5 * median(responses):
                break
    assert median(refusals) < 1.5 * median(responses)
