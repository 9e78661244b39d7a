"""Requests and responses that /proxy forwards unchanged, and requests that it refuses. Tests compare raw bytes at both
ends.
"""

import asyncio

import pytest

from gateway.connections.opened import Placement
from gateway.egress.client import Timeouts
from tests.fakes.patience import PATIENCE_S
from tests.fakes.proxy_end import gateway_to, opened_at
from tests.fakes.raw_provider import raw_provider


async def test_get_arrives_with_the_credential_and_without_gateway_fields() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call("/proxy/rest/api?x=1", "X-Custom: yes", "User-Agent: curl/8", "Cookie: a=b")
    assert response.startswith(b"HTTP/1.1 200 OK\r\n")
    assert response.endswith(b"\r\n\r\nok")
    assert provider.request_line() == "GET /rest/api?x=1 HTTP/1.1"
    assert provider.lines() == [
        f"Host: 127.0.0.1:{provider.port}",
        "X-Custom: yes",
        "User-Agent: curl/8",
        "Cookie: a=b",
        "Authorization: Bearer at-1",
    ]


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        ("/proxy/a%2Fb/%41?q=%2F&r=a+b", "/v1/a%2Fb/%41?q=%2F&r=a+b"),
        ("/proxy//twice//", "/v1//twice//"),
        ("/proxy", "/v1"),
        ("/proxy/", "/v1/"),
        ("/proxy?x=1", "/v1?x=1"),
        ("/proxy/x?", "/v1/x?"),
        ("/proxy/x?a?b&&=&%zz", "/v1/x?a?b&&=&%zz"),
        ("/proxy/x?p=../..", "/v1/x?p=../.."),
        ("/proxy/${apiKey}", "/v1/${apiKey}"),
        ("/proxy/..a/b..;p=1", "/v1/..a/b..;p=1"),
    ],
)
async def test_path_and_query_arrive_byte_for_byte(sent: str, arrives: str) -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port, "/v1")) as gateway:
        assert (await gateway.call(sent)).startswith(b"HTTP/1.1 200")
    assert provider.request_line() == f"GET {arrives} HTTP/1.1"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("Retries: many", "Retries must be a whole number, not 'many'."),
        ("Decompress: yes please", "Decompress must be true or false, not 'yes please'."),
        ("Gateway-Timeout: 0", "Gateway-Timeout must be seconds, more than 0, such as 2.5, not '0'."),
        ("Retries: sk-0123456789abcdef", "Retries must be a whole number."),
        ("Retries: 'x'", "Retries must be a whole number."),
    ],
)
async def test_short_value_of_a_wrong_option_is_reported(field: str, message: str) -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call("/proxy/x", field)
    assert response.startswith(b"HTTP/1.1 400 ")
    assert message.encode() in response


@pytest.mark.parametrize(
    "sent",
    [
        "/proxy/../x",
        "/proxy/a/%2e%2E/x",
        "/proxy/a%2f..%2fx",
        "/proxy/a%5C..",
        "/proxy/..;v=1/x",
        "/proxy/.",
        "/%70roxy/x",
        "/proxy/a\\b",
        "/proxy/\xff",
        "/proxy/x?q=\xe9",
        "http://elsewhere.example/proxy/x",
    ],
)
async def test_a_target_that_servers_read_differently_is_refused_before_a_byte_is_sent(sent: str) -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.raw(
            f"GET {sent} HTTP/1.1\r\nHost: gw\r\nConnection: close\r\nAuthorization: Bearer k\r\n"
            "Provider-Config-Key: tracker\r\nConnection-Id: u1\r\n\r\n".encode("latin-1")
        )
    assert response.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    assert (
        b"bad_path" in response or b"HTTP/1.0" in response or (sent.startswith("http:") and b"bad_framing" in response)
    )
    assert provider.heads == []


async def test_an_absolute_target_with_the_gateways_host_counts_as_its_path() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call("http://GW.example.com:80/proxy/x?y")
    assert response.startswith(b"HTTP/1.1 200")
    assert provider.request_line() == "GET /x?y HTTP/1.1"


async def test_prefix_of_a_host_application_is_removed_from_the_path() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port), under="/gateway") as gateway:
        assert (await gateway.call("/gateway/proxy/a%2Fb")).startswith(b"HTTP/1.1 200")
        assert (await gateway.call("/%67ateway/proxy/a")).startswith(b"HTTP/1.1 400")
    assert [line.split()[1] for line in [provider.request_line(0)]] == ["/a%2Fb"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "POST", "PROPFIND"])
async def test_every_method_is_forwarded(method: str) -> None:
    async with raw_provider(b"HTTP/1.1 204 No Content\r\n\r\n") as provider, gateway_to(opened_at(provider.port)) as gw:
        assert (await gw.call(method=method)).startswith(b"HTTP/1.1 204 No Content\r\n")
    assert provider.request_line() == f"{method} /x HTTP/1.1"


async def test_trace_would_echo_the_credential_and_is_refused() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call(method="TRACE")
    assert response.startswith(b"HTTP/1.1 405")
    assert b"Allow: GET, HEAD" in response
    assert provider.heads == []


async def test_a_cors_preflight_gets_a_response_here_and_any_other_options_is_forwarded() -> None:
    ask = ("Origin: https://app.example", "Access-Control-Request-Method: POST")
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call("/proxy/x", *ask, method="OPTIONS", us=False)
        assert response.startswith(b"HTTP/1.1 204")
        assert provider.heads == []
        await gateway.call("/proxy/x", *ask, method="OPTIONS")
    assert provider.request_line() == "OPTIONS /x HTTP/1.1"


async def test_hop_by_hop_framing_and_gateway_fields_never_leave() -> None:
    stripped = [
        "Connection: close, X-Hop, Authorization",
        "X-Hop: 1",
        "X_Hop: 1",
        "Keep-Alive: timeout=5",
        "Proxy-Authorization: Basic x",
        "TE: trailers",
        "Trailer: X-T",
        "Forwarded: for=1.2.3.4",
        "X-Forwarded-For: 1.2.3.4",
        "X_Forwarded_Host: evil",
        "X-Real-IP: 1.2.3.4",
        "baggage: user=alice",
        "Nango-Proxy-Baggage: user=alice",
        "Retries: 3",
        "Retry-On: 429,503",
        "Decompress: false",
        "Base-Url-Override:",
        "Base_Url_Override: http://evil",
        "Provider_Config_Key: x",
        "Gateway-Timeout: 5",
        "Nango-Activity-Log-Id:",
        "Nango-Proxy-Host: evil",
        "Nango-Proxy-Content-Length: 7",
        "Nango-Proxy-Transfer-Encoding: chunked",
        "Nango-Proxy-Connection: x",
        "Nango-Proxy-Connection-Id: x",
        "Nango-Proxy-Nango-Proxy-X: x",
        "Nango_Proxy_X: x",
        "Nango-Proxy-: x",
    ]
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call("/proxy/x", *stripped, "Kept: 1")
    assert response.startswith(b"HTTP/1.1 200")
    assert provider.lines() == [f"Host: 127.0.0.1:{provider.port}", "Kept: 1", "Authorization: Bearer at-1"]


async def test_a_nango_proxy_field_replaces_the_plain_one_and_order_and_duplicates_stay() -> None:
    sent = ["A: 1", "Content-Type: text/plain", "b: x", "B: y", "Nango-Proxy-content-type: application/json", "A: 2"]
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        await gateway.call("/proxy/x", *sent)
    assert provider.lines()[1:-1] == ["A: 1", "b: x", "B: y", "content-type: application/json", "A: 2"]


async def test_a_credential_replaces_the_callers_field_and_a_default_does_not() -> None:
    placement = Placement(
        slots=(("x-api-key", "secret"),),
        defaults=(("accept", "application/json"), ("content-type", "application/json"), ("version", "2")),
        query_slots=(("api_key", "s%2B1"),),
        query_defaults=(("limit", "5"), ("v", "1")),
    )
    async with raw_provider() as provider, gateway_to(opened_at(provider.port, "", placement)) as gateway:
        await gateway.call("/proxy/x?api%5Fkey=mine&v=9&api_key", "X-Api-Key: a", "X_API_KEY: b", "Version: 1")
    assert provider.request_line() == "GET /x?v=9&api_key=s%2B1&limit=5 HTTP/1.1"
    assert provider.lines()[1:] == ["Version: 1", "x-api-key: secret", "accept: application/json"]


async def test_header_bytes_arrive_as_they_were_sent() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        await gateway.call("/proxy/x", "X-Name: caf\udce9")
        await gateway.call("/proxy/x", "X-Name: café")
    assert b"\r\nX-Name: caf\xe9\r\n" in provider.heads[0]
    assert "\r\nX-Name: café\r\n".encode() in provider.heads[1]


async def test_an_override_is_allowed_only_for_listed_origins() -> None:
    async with raw_provider() as named, raw_provider() as base, raw_provider() as other:
        opened = opened_at(base.port, "/v1", allowed_origins=(named.origin,))
        async with gateway_to(opened) as gateway:
            good = await gateway.call("/proxy/x?y=1", f"Base-Url-Override: {named.origin}/v9/")
            own = await gateway.call("/proxy/x", f"Base-Url-Override: {base.origin}")
            bad = await gateway.call("/proxy/x", f"Base-Url-Override: {other.origin}")
            tricks = [
                await gateway.call("/proxy/x", f"Base-Url-Override: {trick}")
                for trick in (
                    f"http://127.0.0.1:{base.port}@127.0.0.1:{other.port}",
                    f"http://127.0.0.1:{other.port}\\@127.0.0.1:{base.port}",
                    f"{base.origin}/..",
                    f"{base.origin}#x",
                    f"{base.origin}?x",
                    "//127.0.0.1",
                    "ftp://127.0.0.1",
                    "http://2130706433",
                )
            ]
    assert good.startswith(b"HTTP/1.1 200")
    assert own.startswith(b"HTTP/1.1 200")
    assert named.request_line() == "GET /v9/x?y=1 HTTP/1.1"
    assert base.request_line() == "GET /x HTTP/1.1"
    assert b"base_url_override_not_allowed" in bad
    assert named.origin.encode() in bad
    assert all(b"400 Bad Request" in trick and b"invalid_headers" in trick for trick in tricks)
    assert other.connections == 0


async def test_the_credential_is_not_sent_to_an_address_that_the_guard_refuses() -> None:
    from gateway.egress.guard import Guard

    async with raw_provider() as provider, gateway_to(opened_at(provider.port), guard=Guard()) as gateway:
        response = await gateway.call()
    assert response.startswith(b"HTTP/1.1 400")
    assert b"Gateway-Error: address_refused" in response
    assert provider.connections == 0


async def test_an_unreachable_provider_is_a_502_that_names_it() -> None:
    async with raw_provider() as provider:
        opened = opened_at(provider.port)
    async with gateway_to(opened) as gateway:
        response = await gateway.call()
    assert response.startswith(b"HTTP/1.1 502")
    assert b"Gateway-Error: upstream_unreachable" in response
    assert provider.origin.encode() in response


async def test_a_provider_that_never_responds_is_a_504() -> None:
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_provider(silent) as provider:
        async with gateway_to(opened_at(provider.port), timeouts=Timeouts(first_byte_s=0.2)) as gateway:
            response = await gateway.call()
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
    assert response.startswith(b"HTTP/1.1 504")
    assert b"upstream_timeout" in response
