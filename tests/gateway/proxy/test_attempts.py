"""Which requests the gateway retries, how often and after which delay, and which requests it sends only once."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.connections.opened import Placement
from gateway.egress.client import Timeouts
from gateway.egress.limits import ConcurrencySettings, EgressLimits
from gateway.proxy.caller_body import KEPT_BYTES
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import closed_port
from tests.fakes.proxy_end import Gateway, gateway_to, opened_at
from tests.fakes.raw import parsed
from tests.fakes.raw_provider import OK, RawProvider, Script, raw_provider, read_message

BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"
HANG_UP = b""


def responding(provider: list[RawProvider], *responses: bytes) -> Script:
    """Return a script that sends the responses one after the other, and then repeats the last. An empty response closes
    the connection.
    """
    remaining: Iterator[bytes] = iter(responses)
    current = responses[-1]

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, body = await read_message(reader)
            provider[0].heads.append(head)
            provider[0].bodies.append(body)
            response = next(remaining, current)
            if not response:
                writer.transport.abort()
                return
            writer.write(response)

    return script


async def call_provider(
    *responses: bytes, call: tuple[str, ...] = (), method: str = "GET", body: bytes = b""
) -> "CallResult":
    """Make a call to a provider that sends these responses one after the other. `call`: the headers, by default
    ``Retries: 3``.
    """
    providers: list[RawProvider] = []
    async with (
        raw_provider(responding(providers, *responses)) as provider,
        gateway_to(opened_at(provider.port)) as gateway,
    ):
        providers.append(provider)
        lines = call if any(line.startswith("Retries") for line in call) else ("Retries: 3", *call)
        length = (f"Content-Length: {len(body)}",) if body else ()
        return CallResult(await gateway.call("/proxy/x", *lines, *length, method=method, body=body), provider)


class CallResult:
    def __init__(self, raw: bytes, provider: RawProvider) -> None:
        self.response = parsed(raw, head_only=not raw.partition(b"\r\n\r\n")[2])
        self.provider = provider

    @property
    def summary(self) -> tuple[int, str, int]:
        """Return the status, Gateway-Attempts, and the number of requests that the provider received."""
        return self.response.status, self.response.headers["gateway-attempts"], len(self.provider.heads)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
@pytest.mark.parametrize("first", [BUSY, HANG_UP])
async def test_an_idempotent_request_is_retried(method: str, first: bytes, waits: list[float]) -> None:
    if method == "HEAD":
        first = first.removesuffix(b"busy")
    result = await call_provider(first, first, OK.removesuffix(b"ok") if method == "HEAD" else OK, method=method)
    status, attempts, seen = result.summary
    # replacing a dead idle connection does not count as an attempt
    assert (status, seen - int(attempts)) in {(200, 0), (200, 1)}
    assert attempts == "3"
    assert len(waits) == 2
    assert set(result.provider.heads) == {result.provider.heads[0]}


async def test_without_the_retries_header_nothing_is_retried(waits: list[float]) -> None:
    assert (await call_provider(BUSY, OK, call=("Retries: 0",))).summary == (503, "1", 1)
    assert (await call_provider(HANG_UP, OK, call=("Retries: 0",))).summary == (502, "1", 1)
    assert waits == []


async def test_the_response_of_the_last_attempt_is_returned(waits: list[float]) -> None:
    result = await call_provider(BUSY)
    assert result.summary == (503, "4", 4)
    assert result.response.body == b"busy"
    assert "gateway-error" not in result.response.headers


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("first", [BUSY, HANG_UP])
async def test_a_request_that_is_not_idempotent_is_sent_once(method: str, first: bytes, waits: list[float]) -> None:
    result = await call_provider(first, OK, method=method, body=b"pay")
    assert result.summary == (502 if first == HANG_UP else 503, "1", 1)


@pytest.mark.parametrize("first", [BUSY, HANG_UP])
async def test_with_an_idempotency_key_a_small_body_is_sent_again(first: bytes, waits: list[float]) -> None:
    result = await call_provider(first, OK, method="POST", body=b"pay" * 1000, call=("Idempotency-Key: k1",))
    assert result.summary == (200, "2", 2)
    assert result.provider.bodies == [b"pay" * 1000] * 2


async def test_a_body_of_unknown_length_is_sent_again_too(waits: list[float]) -> None:
    chunks = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    providers: list[RawProvider] = []
    script = responding(providers, BUSY, OK)
    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        providers.append(provider)
        lines = ("Retries: 1", "Transfer-Encoding: chunked")
        response = await gateway.call("/proxy/x", *lines, method="PUT", body=chunks)
    assert parsed(response).headers["gateway-attempts"] == "2"
    assert [b"".join(_data(body)) for body in provider.bodies] == [b"abcde"] * 2


def _data(chunked: bytes) -> Iterator[bytes]:
    while chunked:
        size, _, rest = chunked.partition(b"\r\n")
        yield rest[: int(size, 16)]
        chunked = rest[int(size, 16) + 2 :]


async def test_a_body_that_is_too_large_to_keep_is_sent_once(waits: list[float]) -> None:
    result = await call_provider(BUSY, OK, method="PUT", body=b"x" * (KEPT_BYTES + 1))
    assert result.summary == (503, "1", 1)


async def test_a_retry_repeats_the_sent_part_of_a_body_and_streams_the_rest(waits: list[float]) -> None:
    """The provider returns 503 before it has received the whole body. The second attempt sends the whole body."""
    bodies: list[bytes] = []
    refused = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        bodies.append(await reader.readexactly(5 if not refused.is_set() else 10))
        first = not refused.is_set()
        refused.set()
        writer.write(BUSY if first else OK)
        if first:
            await reader.read()

    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        ours = "Authorization: Bearer k\r\nProvider-Config-Key: tracker\r\nConnection-Id: u1\r\nConnection: close"
        writer.write(
            f"PUT /proxy/x HTTP/1.1\r\nHost: g\r\n{ours}\r\nRetries: 2\r\nContent-Length: 10\r\n\r\n12345".encode()
        )
        await refused.wait()
        writer.write(b"67890")
        response = parsed(await reader.read())
        writer.close()
    assert (response.status, response.headers["gateway-attempts"]) == (200, "2")
    assert bodies == [b"12345", b"1234567890"]


async def test_request_of_any_method_is_retried_if_no_byte_was_sent(waits: list[float]) -> None:
    with closed_port() as port:
        async with gateway_to(opened_at(port)) as gateway:
            headers = ("Retries: 2", "Content-Length: 3")
            response = parsed(await gateway.call("/proxy/x", *headers, method="POST", body=b"pay"))
    assert (response.status, response.headers["gateway-attempts"]) == (502, "3")
    assert len(waits) == 2


async def test_request_to_a_silent_provider_is_retried(waits: list[float]) -> None:
    calls = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        await reader.readuntil(b"\r\n\r\n")
        calls += 1
        gateway.egress.timeouts = Timeouts(first_byte_s=PATIENCE_S if calls == 1 else 0.2)  # applies to the next call
        if calls == 2:
            writer.write(OK)
        await reader.read()

    async with (
        raw_provider(script) as provider,
        gateway_to(opened_at(provider.port), timeouts=Timeouts(first_byte_s=0.2)) as gateway,
    ):
        response = parsed(await gateway.call("/proxy/x", "Retries: 1"))
        assert (response.status, response.headers["gateway-attempts"]) == (200, "2")
        calls = 2
        response = parsed(await gateway.call("/proxy/x", "Retries: 1"))
    assert (response.status, response.error["code"], response.headers["gateway-attempts"]) == (
        504,
        "upstream_timeout",
        "2",
    )


def _retry_after(text: str, status: int = 429) -> bytes:
    return f"HTTP/1.1 {status} Later\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()


async def test_retry_after_is_honored_and_a_wait_that_is_too_long_is_left_to_the_caller(waits: list[float]) -> None:
    assert (await call_provider(_retry_after("7"), OK)).summary == (200, "2", 2)
    assert 7 <= waits[0] <= 7.7
    result = await call_provider(_retry_after("31"), OK)
    assert result.summary == (429, "1", 1)
    assert result.response.headers["retry-after"] == "31"
    assert len(waits) == 1


async def test_the_waits_of_one_request_are_limited_together(waits: list[float]) -> None:
    result = await call_provider(_retry_after("20"), call=("Retries: 9",))
    assert result.summary == (429, "3", 3)
    assert sum(waits) <= 60


async def test_retries_are_capped_and_budgeted(waits: list[float]) -> None:
    at_once = _retry_after("0")
    assert (await call_provider(at_once, call=("Retries: 1000000",))).summary == (429, "11", 11)
    providers: list[RawProvider] = []
    script = responding(providers, at_once)
    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        providers.append(provider)
        for _ in range(20):
            await gateway.call("/proxy/x", "Retries: 10")
    # 20, a fifth of the calls, ten more, and the retries that successful calls add to the budget
    assert 30 <= len(provider.heads) <= 36


@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_without_rules_of_the_entry_a_429_and_every_5xx_are_retried(waits: list[float], status: int) -> None:
    failed = f"HTTP/1.1 {status} Later\r\nContent-Length: 0\r\n\r\n".encode()
    assert (await call_provider(failed, OK, call=("Retries: 1",))).summary == (200, "2", 2)
    assert (await call_provider(failed, OK, call=("Retries: 1",), method="POST")).summary == (status, "1", 1)


async def test_retry_on_adds_statuses_and_others_are_not_retried(waits: list[float]) -> None:
    locked = b"HTTP/1.1 423 Locked\r\nContent-Length: 0\r\n\r\n"
    assert (await call_provider(locked, OK)).summary == (423, "1", 1)
    assert (await call_provider(locked, OK, call=("Retry-On: 409,423",))).summary == (200, "2", 2)
    assert (await call_provider(BUSY, OK, call=("Retry-On: 409,423",))).summary == (200, "2", 2)


async def test_each_attempt_has_the_credential_that_is_current_at_its_time(waits: list[float]) -> None:
    providers: list[RawProvider] = []
    script = responding(providers, BUSY, OK)
    async with raw_provider(script) as provider:
        providers.append(provider)
        opened = opened_at(provider.port)
        async with gateway_to(opened) as gateway:
            ref = opened.connection.ref
            renewed = replace(opened, placement=Placement(slots=(("Authorization", "Bearer at-2"),)))
            found = iter([opened, renewed])
            gateway.live.peek = lambda _ref: next(found)  # type: ignore[method-assign]
            response = parsed(await gateway.call("/proxy/x", "Retries: 1"))
    assert (response.status, ref) == (200, opened.connection.ref)
    assert [provider.lines(index)[-1] for index in (0, 1)] == [
        "Authorization: Bearer at-1",
        "Authorization: Bearer at-2",
    ]


async def status_and_attempts(gateway: Gateway, *lines: str, method: str = "GET", body: bytes = b"") -> tuple[int, str]:
    response = parsed(await gateway.call("/proxy/x", *lines, method=method, body=body))
    return response.status, response.headers["gateway-attempts"]


DENIED = b"HTTP/1.1 401 No\r\nContent-Length: 6\r\nWWW-Authenticate: Bearer\r\n\r\ndenied"


async def test_a_401_causes_one_refresh_and_one_more_attempt() -> None:
    providers: list[RawProvider] = []
    script = responding(providers, DENIED, OK, DENIED)
    async with raw_provider(script) as provider:
        providers.append(provider)
        opened = opened_at(provider.port)
        async with gateway_to(opened) as gateway:
            newer = replace(opened, placement=Placement(slots=(("Authorization", "Bearer at-2"),)))
            gateway.live.newer = newer
            assert await status_and_attempts(gateway) == (200, "2")
            assert gateway.live.refused == [opened]
            assert provider.lines()[-1] == "Authorization: Bearer at-2"
            assert gateway.live.rejections.counted == []
            assert await status_and_attempts(gateway) == (401, "2")
            assert gateway.live.rejections.counted == [401], "the newer credential is rejected too"
            assert len(provider.heads) == 4


async def test_a_401_is_returned_without_a_newer_token_or_if_the_request_cannot_be_sent_again() -> None:
    providers: list[RawProvider] = []
    script = responding(providers, DENIED)
    async with raw_provider(script) as provider:
        providers.append(provider)
        opened = opened_at(provider.port)
        async with gateway_to(opened) as gateway:
            assert await status_and_attempts(gateway) == (401, "1")
            gateway.live.newer = opened
            assert await status_and_attempts(gateway, "Content-Length: 3", method="POST", body=b"pay") == (401, "1")
            assert len(gateway.live.refused) == 2  # the refresh runs in the background, for the next call
            assert gateway.live.rejections.counted == [401, 401]
    assert len(provider.heads) == 2


async def test_the_401_response_is_closed_if_the_wait_for_a_newer_token_exceeds_the_total_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 6\r\n\r\nden")
        await reader.read()

    async def never(_sent: object) -> None:
        await asyncio.Event().wait()

    async with (
        raw_provider(begin) as provider,
        gateway_to(opened_at(provider.port), timeouts=Timeouts(total_s=0.2)) as gateway,
    ):
        monkeypatch.setattr(gateway.live, "newer_than", never)
        response = parsed(await gateway.call("/proxy/x"))
        assert (response.status, response.error["code"]) == (504, "upstream_timeout")
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)


async def test_gateway_timeout_limits_the_first_byte_within_the_operators_bound() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        raw_provider(silent) as provider,
        gateway_to(opened_at(provider.port), timeouts=Timeouts(max_first_byte_s=0.2)) as gateway,
    ):
        for asked, advice in (
            ("0.1", "To wait longer, send Gateway-Timeout with more seconds, up to 0.2."),
            ("900", "To wait longer, raise egress.timeouts.max_first_byte_s."),
        ):
            response = parsed(await gateway.call("/proxy/x", f"Gateway-Timeout: {asked}"))
            assert (response.status, response.error["code"]) == (504, "upstream_timeout")
            assert response.error["message"].endswith(f" s. {advice}")
        response = parsed(await gateway.call("/proxy/x", "Gateway-Timeout: 0", "Retries: x", "Gateway-Dry-Run: maybe"))
    assert response.status == 400
    assert [issue["path"] for issue in response.error["errors"]] == [
        ["retries"],
        ["gateway-timeout"],
        ["gateway-dry-run"],
    ]


async def test_the_total_time_limit_ends_a_stream_that_still_has_progress() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.transport.is_closing():
            writer.write(b"1\r\nx\r\n")
            await writer.drain()
            await asyncio.sleep(0)

    async with (
        raw_provider(drip) as provider,
        gateway_to(opened_at(provider.port), timeouts=Timeouts(total_s=1.0)) as gateway,
    ):
        response = await gateway.call("/proxy/x")
    assert response.startswith(b"HTTP/1.1 200")
    assert not response.endswith(b"0\r\n\r\n")


async def test_hanging_provider_uses_only_its_own_concurrency() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    egress_limits = EgressLimits(ConcurrencySettings(outstanding=2, waiting=0, wait_s=1))
    async with (
        raw_provider(silent) as hanging,
        raw_provider() as working,
        gateway_to(
            opened_at(hanging.port, allowed_origins=(f"http://127.0.0.1:{working.port}",)), egress_limits=egress_limits
        ) as gateway,
    ):
        stuck = [asyncio.create_task(gateway.call("/proxy/x")) for _ in range(2)]
        gate = egress_limits.for_origin(("http", "127.0.0.1", hanging.port))
        async with asyncio.timeout(PATIENCE_S):
            while gate.concurrency.outstanding < 2:
                await asyncio.sleep(0)
        full = parsed(await gateway.call("/proxy/x"))
        well = parsed(await gateway.call("/proxy/x", f"Base-Url-Override: http://127.0.0.1:{working.port}"))
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
    assert (full.status, full.error["code"]) == (503, "busy")
    assert full.error["payload"]["reason"] == "too_many_outstanding"
    assert well.status == 200


async def test_circuit_opens_for_a_provider_that_is_down() -> None:
    with closed_port() as port:
        async with gateway_to(opened_at(port)) as gateway:
            responses = [parsed(await gateway.call("/proxy/x")) for _ in range(21)]
    assert [response.status for response in responses] == [502] * 20 + [503]
    assert responses[-1].error["payload"]["reason"] == "provider_unreachable"
    assert responses[-1].headers["gateway-attempts"] == "0"
