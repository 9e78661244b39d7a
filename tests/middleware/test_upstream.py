"""The connection of a proxied call, its destination, and its credential.

Two headers name a connection; all faults in the gateway's headers are reported together.
"""

import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from aiohttp.web_urldispatcher import UrlMappingMatchInfo
from multidict import CIMultiDict

from gateway.connections.opened import Placement
from gateway.errors import InvalidRequest
from gateway.http.proxy_options import ProxyOptions
from gateway.middleware.facts import CONNECTION, PROXY_OPTIONS, UPSTREAM
from gateway.middleware.upstream import place_credential, upstream
from gateway.origin import ParsedUrl, parse_url
from gateway.records.connection import ConnectionRef
from gateway.records.proxied_call import UpstreamRequest
from tests.fakes.proxy_end import FakeConnectionCache, gateway_to, opened_at
from tests.fakes.raw_provider import raw_provider

KEY_FIELD, CONNECTION_FIELD = "Provider-Config-Key: tracker", "Connection-Id: u1"


def error_of(response: bytes) -> dict[str, object]:
    assert b"Gateway-Error:" in response
    error: dict[str, object] = json.loads(response.partition(b"\r\n\r\n")[2])["error"]
    return error


@pytest.mark.parametrize(
    ("lines", "paths"),
    [
        ((), ["provider-config-key", "connection-id"]),
        ((KEY_FIELD,), ["connection-id"]),
        (("Provider-Config-Key:", CONNECTION_FIELD), ["provider-config-key"]),
        ((KEY_FIELD, KEY_FIELD, CONNECTION_FIELD, CONNECTION_FIELD), ["provider-config-key", "connection-id"]),
        (("Provider-Config-Key: a/b", "Connection-Id: <u>"), ["provider-config-key", "connection-id"]),
        ((KEY_FIELD, "Connection-Id: " + "x" * 256), ["connection-id"]),
        ((KEY_FIELD, "Connection-Id: é"), ["connection-id"]),
        (
            (KEY_FIELD, CONNECTION_FIELD, "Retries: -1", "Retry-On: 4xx", "Decompress: yes"),
            ["retries", "retry-on", "decompress"],
        ),
        ((KEY_FIELD, CONNECTION_FIELD, f"Retry-On: {'9' * 5000}"), ["retry-on"]),
        ((KEY_FIELD, CONNECTION_FIELD, "Base-Url-Override: api.example.com"), ["base-url-override"]),
        ((KEY_FIELD, CONNECTION_FIELD, "Forward-Headers-On-Redirect: 1"), ["forward-headers-on-redirect"]),
        ((KEY_FIELD, CONNECTION_FIELD, "Decompress: true", "Decompress: true"), ["decompress"]),
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
        response = await gateway.call("/proxy/x", KEY_FIELD, CONNECTION_FIELD, line, us=False)
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
    assert isinstance(gateway.live, FakeConnectionCache)


async def test_an_unknown_connection_is_a_404_of_the_gateway() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = await gateway.call("/proxy/x", KEY_FIELD, "Connection-Id: other", us=False)
    assert response.startswith(b"HTTP/1.1 404")
    assert error_of(response)["code"] == "unknown_connection"


# ── The destination: the connection's base URL, or the caller's.


async def end(_request: web.Request) -> web.StreamResponse:
    return web.Response()


async def upstream_for(
    target: str, *, override: ParsedUrl | None = None, mounted: str = "/proxy", **connection: Any
) -> Any:
    app = web.Application()
    route: Any = app.router.add_get(mounted + "{rest:.*}", end)
    request = make_mocked_request("GET", target, headers={"Host": "gw"})
    request._match_info = UrlMappingMatchInfo({}, route)
    request[CONNECTION] = opened_at(8000, "/v1", **connection)
    request[PROXY_OPTIONS] = ProxyOptions("tracker", "u1", base_url=override)

    await upstream(request, end)
    return request[UPSTREAM]


async def test_the_requested_path_is_appended_to_the_base_path() -> None:
    sent = await upstream_for("/proxy/a%2fb?x")
    assert (sent.url, sent.base_path) == ("http://127.0.0.1:8000/v1/a%2fb?x", "/v1")


async def test_an_absolute_url_below_the_base_url_is_a_path() -> None:
    sent = await upstream_for("/proxy/http://127.0.0.1:8000/v1/a%2fb?x")
    assert (sent.url, sent.base_path) == ("http://127.0.0.1:8000/v1/a%2fb?x", "/v1")
    other = await upstream_for("/proxy/http://127.0.0.1:8001/v1/a")
    assert other.url == "http://127.0.0.1:8000/v1/http://127.0.0.1:8001/v1/a"


async def test_mount_prefix_must_match_literally() -> None:
    assert (await upstream_for("/gw/proxy/a", mounted="/gw/proxy")).target == "/v1/a"
    with pytest.raises(InvalidRequest):
        await upstream_for("/proxy/a", mounted="/gw/proxy")


async def test_path_of_a_base_url_override_is_kept() -> None:
    other = parse_url("https://other.example.com/api/")
    sent = await upstream_for("/proxy/a?x", override=other, allowed_origins=["https://other.example.com:443"])
    assert (sent.url, sent.base_path) == ("https://other.example.com:443/api/a?x", "/api")


@pytest.mark.parametrize(
    "override",
    ["https://other.example.com", "http://127.0.0.1:8001", "https://127.0.0.1:8000", "http://sub.allowed.example.com"],
)
async def test_other_schemes_hosts_and_ports_are_refused_with_the_allowed_ones(override: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await upstream_for(
            "/proxy/a", override=parse_url(override), allowed_origins=["https://allowed.example.com:443"]
        )
    assert refusal.value.code == "base_url_override_not_allowed"
    assert refusal.value.message.startswith(f"Base-Url-Override {parse_url(override).origin} is not allowed; allowed: ")
    assert "http://127.0.0.1:8000, https://allowed.example.com:443. To allow it, add it to" in refusal.value.message


# ── The credential replaces the caller's value in its place, and is sent nowhere else.


def placed_request(
    placement: Placement, *sent: tuple[str, str], target: str = "/x", has_body: bool = False
) -> UpstreamRequest:
    request = UpstreamRequest("GET", "http", "127.0.0.1", 8000, target, CIMultiDict(sent))
    place_credential(opened_at(8000, "", placement), request, has_body=has_body)
    return request


def test_the_credential_replaces_every_spelling_of_its_field() -> None:
    request = placed_request(
        Placement(slots=(("x-api-key", "s"),)), ("X-Api-Key", "1"), ("X_API_KEY", "2"), ("X-Other", "3")
    )
    assert list(request.headers.items()) == [("X-Other", "3"), ("x-api-key", "s")]


def test_default_fields_are_added_if_missing_and_content_type_only_with_a_body() -> None:
    placement = Placement(defaults=(("Accept", "application/json"), ("Content-Type", "application/json")))
    assert dict(placed_request(placement).headers) == {"Accept": "application/json"}
    assert dict(placed_request(placement, ("accept", "*/*"), has_body=True).headers) == {
        "accept": "*/*",
        "Content-Type": "application/json",
    }


def test_query_without_slots_is_unchanged() -> None:
    assert placed_request(Placement(), target="/x?&&a=%zz").target == "/x?&&a=%zz"
    assert (
        placed_request(Placement(query_slots=(("key", "s%20"),)), target="/x?KEY=1&k%65y=2").target
        == "/x?KEY=1&key=s%20"
    )


@pytest.mark.parametrize(("scheme", "host", "port"), [("https", "127.0.0.1", 8000), ("http", "127.0.0.1", 8001)])
def test_origin_is_checked_again_before_the_credential_is_placed(scheme: str, host: str, port: int) -> None:
    request = UpstreamRequest("GET", scheme, host, port, "/x")
    with pytest.raises(InvalidRequest, match="may not be sent"):
        place_credential(opened_at(8000), request, has_body=False)
    assert "Authorization" not in request.headers
