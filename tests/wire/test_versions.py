"""How a request can begin: HTTP versions, forms of the target, methods, and authorities."""

import pytest

from tests.wire.bench import Bench, table
from tests.wire.messages import HOST, KEY, connection_fields, request
from tests.wire.recorder import sends

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = KEY + connection_fields()
V10 = b"HTTP/1.0"


def request_for_host(host: bytes, target: bytes) -> bytes:
    return request(target, gateway_fields=b"Host: " + host + b"\r\n" + NAMES)


TARGET_FORMS = table(
    ("absolute-form of our own host", request_for_host(b"gw.example", b"http://gw.example/proxy/x%2Fy?z"), b"/x%2Fy?z"),
    ("absolute-form with https", request_for_host(b"gw.example", b"https://gw.example/proxy/x"), b"/x"),
    ("absolute-form in capitals", request_for_host(b"gw.example", b"HTTP://GW.example/proxy/x"), b"/x"),
    ("absolute-form with a port", request_for_host(b"gw.example:3003", b"http://gw.example:3003/proxy/x"), b"/x"),
    ("absolute-form with a query alone", request_for_host(b"gw.example", b"http://gw.example/proxy?x"), b"/?x"),
    ("any well-formed Host", request_for_host(b"other.example", b"/proxy/x"), b"/x"),
    ("an IP address as Host", request_for_host(b"127.0.0.1:3003", b"/proxy/x"), b"/x"),
    ("IPv6 as Host", request_for_host(b"[::1]:3003", b"/proxy/x"), b"/x"),
    ("a Host with an underscore", request_for_host(b"my_gw", b"/proxy/x"), b"/x"),
    ("an empty Host", request_for_host(b"", b"/proxy/x"), b"/x"),
)


@pytest.mark.parametrize(("data", "arrives"), TARGET_FORMS)
async def test_the_gateways_authority_is_replaced_by_the_providers(bench: Bench, data: bytes, arrives: bytes) -> None:
    received, _ = await bench.passes(data)
    assert received.target == arrives


REFUSED_REQUESTS = table(
    ("absolute-form of another host", request_for_host(b"gw.example", b"http://evil.example/proxy/x"), 400, "bad_framing"),
    ("absolute-form of another port", request_for_host(b"gw.example", b"http://gw.example:81/proxy/x"), 400, "bad_framing"),
    ("absolute-form with a user", request_for_host(b"gw.example", b"http://a@gw.example/proxy/x"), 400, "bad_framing"),
    ("absolute-form of another scheme", request_for_host(b"gw.example", b"ftp://gw.example/proxy/x"), 400, "bad_framing"),
    ("absolute-form without an authority", request_for_host(b"gw.example", b"http:///proxy/x"), 400, None),
    ("a target without a slash", request(b"proxy/x"), 400, "bad_path"),
    ("an authority alone", request(b"gw.example:80"), 400, None),
    ("an asterisk for GET", request(b"*"), 400, "bad_path"),
    ("no target", b"GET HTTP/1.1\r\n" + HOST + NAMES + b"\r\n", 400, None),
    ("HTTP/0.9", request(version=b"HTTP/0.9"), 505, "bad_framing"),
    ("no version", request().replace(b" HTTP/1.1", b"", 1), None, "bad_framing"),
    ("HTTP/1.2", request(version=b"HTTP/1.2"), 505, "bad_framing"),
    ("HTTP/2.0", request(version=b"HTTP/2.0"), 505, "bad_framing"),
    ("HTTP/1.10", request(version=b"HTTP/1.10"), 400, "bad_framing"),
    ("HTTP/01.1", request(version=b"HTTP/01.1"), 400, "bad_framing"),
    ("http/1.1 in lower case", request(version=b"http/1.1"), 400, "bad_framing"),
    ("HTTP /1.1", request(version=b"HTTP /1.1"), 400, None),
    ("HTTPS/1.1", request(version=b"HTTPS/1.1"), 400, "bad_framing"),
    ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None, "bad_framing"),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "bad_framing"),
    ("a body coded in HTTP/1.0",
     request(version=V10, fields=b"Transfer-Encoding: chunked\r\n", body=b"0\r\n\r\n"), 400, "bad_framing"),
    ("TRACE", request(method=b"TRACE"), 405, "method_not_allowed"),
    ("CONNECT", request(b"gw.example:443", method=b"CONNECT"), 405, "method_not_allowed"),
    ("CONNECT below the mount", request(b"/proxy/x", method=b"CONNECT"), None, None),
    ("a method in lower case", request(method=b"get"), None, None),
    ("a method with a control byte", request(method=b"G\x01T"), 400, "bad_framing"),
    ("a method beyond ASCII", request(method=b"G\xc3\x89T"), 400, "bad_framing"),
    ("a method with a colon", request(method=b"GET:"), None, None),
)  # fmt: skip


@pytest.mark.parametrize(("data", "status", "code"), REFUSED_REQUESTS)
async def test_a_request_other_than_http_1_1_is_refused(
    bench: Bench, data: bytes, status: int | None, code: str | None
) -> None:
    response = await bench.refused(data)
    assert response.status == status if status else response.status in (400, 405, 501, 505)
    if code:
        assert response.code == code


METHODS = table(*((name, name.encode()) for name in (
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "REPORT", "QUERY", "SEARCH",
)))  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
async def test_a_method_is_forwarded_unchanged(bench: Bench, method: bytes) -> None:
    received, response = await bench.passes(request(method=method))
    assert (received.method, response.status) == (method, 200)


@pytest.mark.parametrize(
    "method", table(*((name.decode(), name) for name in (b"GET", b"DELETE", b"OPTIONS", b"PATCH")))
)
async def test_a_method_may_have_a_body(bench: Bench, method: bytes) -> None:
    received, _ = await bench.passes(request(fields=b"Content-Length: 3\r\n", body=b"abc", method=method))
    assert (received.body.data, received.body.framing) == (b"abc", "length")


PREFLIGHTS = table(
    ("the gateway responds to a preflight", b"Origin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n", HOST, False),
    ("a preflight with a key goes on",
     b"Origin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n", HOST + NAMES, True),
    ("OPTIONS from a browser, but no preflight, goes on", b"Origin: https://a.example\r\n", HOST + NAMES, True),
)  # fmt: skip


@pytest.mark.parametrize(("fields", "gateway_fields", "arrives"), PREFLIGHTS)
async def test_options_gets_a_response_or_is_forwarded(
    bench: Bench, fields: bytes, gateway_fields: bytes, arrives: bool
) -> None:
    async with bench.talk(request(fields=fields, gateway_fields=gateway_fields, method=b"OPTIONS")) as caller:
        response = await caller.response()
    assert response.status == (200 if arrives else 204)
    assert len(bench.recorder.requests) == arrives
    if not arrives:
        assert response.head.one("access-control-allow-origin") == b"*"
        assert response.head.one("content-length") is None


HTTP_1_0_CASES = table(
    ("ends with the connection", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", "framed", False),
    ("keeps it when asked",
     b"Connection: keep-alive\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", "framed", True),
    ("has a chunked response unchunked", b"Connection: keep-alive\r\n",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok", "closed", False),
)  # fmt: skip


@pytest.mark.parametrize(("fields", "said", "body", "end", "kept"), HTTP_1_0_CASES)
async def test_http_1_0_requests_and_responses_are_translated(
    bench: Bench, fields: bytes, said: bytes, body: bytes, end: str, kept: bool
) -> None:
    received, response = await bench.passes(request(version=V10, fields=fields), script=sends(said), kept=kept)
    assert received.head.start == b"GET /x HTTP/1.1"
    assert (response.body.data, response.end) == (body, end)
    assert response.head.all("transfer-encoding") == []


async def test_http_1_0_without_host_is_accepted(bench: Bench) -> None:
    received, _ = await bench.passes(request(version=V10, gateway_fields=NAMES), kept=False)
    assert received.head.one("host") == bench.recorder.authority
