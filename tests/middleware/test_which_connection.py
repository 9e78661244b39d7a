"""Two headers name a connection; all faults in the gateway's headers are reported together."""

import json

import pytest

from gateway.records.connection import ConnectionRef
from tests.fakes.proxy_end import Live, gateway_to, opened_at
from tests.fakes.raw_provider import raw_provider

KEY, CONNECTION = "Provider-Config-Key: tracker", "Connection-Id: u1"


def error_of(response: bytes) -> dict[str, object]:
    assert b"Gateway-Error:" in response
    error: dict[str, object] = json.loads(response.partition(b"\r\n\r\n")[2])["error"]
    return error


@pytest.mark.parametrize(
    ("lines", "paths"),
    [
        ((), ["provider-config-key", "connection-id"]),
        ((KEY,), ["connection-id"]),
        (("Provider-Config-Key:", CONNECTION), ["provider-config-key"]),
        ((KEY, KEY, CONNECTION, CONNECTION), ["provider-config-key", "connection-id"]),
        (("Provider-Config-Key: a/b", "Connection-Id: <u>"), ["provider-config-key", "connection-id"]),
        ((KEY, "Connection-Id: " + "x" * 256), ["connection-id"]),
        ((KEY, "Connection-Id: é"), ["connection-id"]),
        ((KEY, CONNECTION, "Retries: -1", "Retry-On: 4xx", "Decompress: yes"), ["retries", "retry-on", "decompress"]),
        ((KEY, CONNECTION, f"Retry-On: {'9' * 5000}"), ["retry-on"]),
        ((KEY, CONNECTION, "Base-Url-Override: api.example.com"), ["base-url-override"]),
        ((KEY, CONNECTION, "Forward-Headers-On-Redirect: 1"), ["forward-headers-on-redirect"]),
        ((KEY, CONNECTION, "Decompress: true", "Decompress: true"), ["decompress"]),
    ],
)
async def test_every_wrong_header_is_named_once(lines: tuple[str, ...], paths: list[str]) -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call("/proxy/x", *lines, us=False)
    error = error_of(response)
    assert response.startswith(b"HTTP/1.1 400")
    assert error["code"] == "invalid_headers"
    issues = error["errors"]
    assert isinstance(issues, list)
    assert [issue["path"] for issue in issues] == [[path] for path in paths]
    assert provider.heads == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Gateway-Dryrun: true", "Gateway-Dry-Run"),
        ("gateway-dry-rnu: true", "Gateway-Dry-Run"),
        ("Gateway-Pagination: all", "Gateway-Paginate"),
        ("Gateway-TimeOuts: 3", "Gateway-Timeout"),
    ],
)
async def test_a_mistyped_header_of_the_gateway_stops_the_call(line: str, name: str) -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call("/proxy/x", KEY, CONNECTION, line, us=False)
    error = error_of(response)
    assert (response[:12], error["code"]) == (b"HTTP/1.1 400", "invalid_headers")
    assert error["message"] == f"{line.partition(':')[0]} is not a header of the gateway; did you mean {name}?"
    assert provider.heads == []


async def test_other_headers_with_the_prefix_of_the_gateway_are_ignored() -> None:
    lines = ("Gateway-Request-Id: 1", "Gateway-Error: x", "Gateway-User: x", "GATEWAY-TIMEOUT: 3", "Gateway-: x")
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        assert (await gateway.call("/proxy/x", *lines)).startswith(b"HTTP/1.1 200")
    assert b"gateway-user" not in provider.heads[0].lower()


async def test_headers_of_published_sdks_are_accepted() -> None:
    sent = ("Base-Url-Override:", "Nango-Activity-Log-Id:", "Retries: 3", "Retry-On: 429,503", "Decompress: true")
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        assert (await gateway.call("/proxy/x", *sent)).startswith(b"HTTP/1.1 200")


async def test_cached_connection_is_used_and_another_is_loaded() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        await gateway.call()
        assert gateway.live.asked == []
        odd = ConnectionRef("dev", "my tracker", "a/b:{c}|d'")
        gateway.live.stored = {odd: opened_at(provider.port)}
        lines = ("Provider-Config-Key: my tracker", "Connection-Id: a/b:{c}|d'")
        assert (await gateway.call("/proxy/x", *lines, us=False)).startswith(b"HTTP/1.1 200")
    assert gateway.live.asked == [odd]
    assert isinstance(gateway.live, Live)


async def test_an_unknown_connection_is_a_404_of_the_gateway() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call("/proxy/x", KEY, "Connection-Id: other", us=False)
    assert response.startswith(b"HTTP/1.1 404")
    assert error_of(response)["code"] == "unknown_connection"
