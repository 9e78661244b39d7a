"""Bytes that are not exactly one plain HTTP/1.1 message are refused in the gateway's error format. No handler sees
them.
"""

import pytest
from aiohttp import web

from tests.fakes.raw import dial, exchange, parsed
from tests.gateway.server.conftest import RecordingApplication, Served, served

HOST = b"Host: gw.example\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
MARKER = b"s3cr3t-marker"


def get(target: bytes = b"/", fields: bytes = b"", version: bytes = b"HTTP/1.1", method: bytes = b"GET") -> bytes:
    return method + b" " + target + b" " + version + b"\r\n" + HOST + fields + b"\r\n"


def post(fields: bytes, body: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\n" + HOST + fields + b"\r\n" + body


REFUSED = [
    pytest.param(b"\x16\x03\x01\x02\x00\x01", 400, "bad_framing", id="TLS on a plain port"),
    pytest.param(b"nonsense\r\n\r\n", 400, "bad_framing", id="no request at all"),
    pytest.param(get(method=b"BREW"), 501, "not_supported", id="an unknown method"),
    pytest.param(get(method=b"get"), 501, "not_supported", id="a method in lower case"),
    pytest.param(get(method=b"TRACE"), 405, "method_not_allowed", id="TRACE"),
    pytest.param(get(b"gw.example:443", method=b"CONNECT"), 405, "method_not_allowed", id="CONNECT"),
    pytest.param(get(version=b"HTTP/2.0"), 505, "bad_framing", id="HTTP/2.0"),
    pytest.param(get(version=b"HTTP/0.9"), 505, "bad_framing", id="HTTP/0.9"),
    pytest.param(get(version=b"HTTP/1.2"), 505, "bad_framing", id="HTTP/1.2"),
    pytest.param(b"GET /\r\n" + HOST + b"\r\n", 505, "bad_framing", id="no version"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad_framing", id="the preface of HTTP/2"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, "bad_framing", id="no Host"),
    pytest.param(b"GET / HTTP/1.1\r\n" + HOST * 2 + b"\r\n", 400, "bad_framing", id="two Hosts"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "bad_framing", id="a space in Host"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, "bad_framing", id="a user in Host"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400, "bad_framing", id="a list in Host"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "bad_framing", id="a path in Host"),
    pytest.param(
        get(fields=b"Authorization: Bearer a\r\nauthorization: Bearer b\r\n"), 400, "bad_framing", id="two keys"
    ),
    pytest.param(get(fields=b"Connection-Id: a\r\nConnection-Id: b\r\n"), 400, "bad_framing", id="two connection ids"),
    pytest.param(
        get(fields=b"Provider-Config-Key: a\r\nProvider-Config-Key: a\r\n"), 400, "bad_framing", id="two integrations"
    ),
    pytest.param(get(b"/a b"), 400, "bad_path", id="a space in the target"),
    pytest.param(get(b"/a\tb"), 400, "bad_path", id="a tab in the target"),
    pytest.param(get(b"/a\x01b"), 400, "bad_path", id="a control byte in the target"),
    pytest.param(get(b"/a\x7fb"), 400, "bad_path", id="DEL in the target"),
    pytest.param(get(b"/a\x00b"), 400, "bad_path", id="NUL in the target"),
    pytest.param(get(b"/a\xe9b"), 400, "bad_path", id="a raw Latin-1 byte in the target"),
    pytest.param(get("/ä".encode()), 400, "bad_path", id="raw UTF-8 in the target"),
    pytest.param(get(b"/a\\b"), 400, "bad_path", id="a backslash in the target"),
    pytest.param(get(b"/a#b"), 400, "bad_path", id="a fragment in the target"),
    pytest.param(get(b"/a?q=\\"), 400, "bad_path", id="a backslash in the query"),
    pytest.param(get(b"a/b"), 400, "bad_path", id="a target without a slash"),
    pytest.param(get(b"*"), 400, "bad_path", id="an asterisk for GET"),
    pytest.param(get(b"http://evil.example/"), 400, "bad_framing", id="absolute-form of another host"),
    pytest.param(get(b"http://gw.example@evil.example/"), 400, "bad_framing", id="absolute-form with a user"),
    pytest.param(get(b"ftp://gw.example/"), 400, "bad_framing", id="absolute-form of another scheme"),
    pytest.param(post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), 501, "not_supported", id="gzip, chunked"),
    pytest.param(post(b"Transfer-Encoding: identity, chunked\r\n", b"0\r\n\r\n"), 501, "not_supported", id="identity"),
    pytest.param(post(b"Transfer-Encoding: identity\r\n", b"abc"), 501, "not_supported", id="identity alone"),
    pytest.param(post(b"Transfer-Encoding: gzip\r\n", b"abc"), 501, "not_supported", id="gzip alone"),
    pytest.param(post(b"Transfer-Encoding: chunked, gzip\r\n", b"abc"), 400, "bad_framing", id="chunked, gzip"),
    pytest.param(get(method=b"patch"), 501, "not_supported", id="patch in lower case"),
    pytest.param(get(method=b"Get"), 501, "not_supported", id="a method in mixed case"),
    pytest.param(get(method=b"GETX"), 501, "not_supported", id="a method that begins like another"),
    pytest.param(post(CHUNKED * 2, b"0\r\n\r\n"), 400, "bad_framing", id="chunked twice"),
    pytest.param(post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"), 400, "bad_framing", id="a vertical tab"),
    pytest.param(post(b"Content-Length: 3\r\n" + CHUNKED, b"0\r\n\r\n"), 400, "bad_framing", id="length and coding"),
    pytest.param(post(CHUNKED + b"Content-Length: 3\r\n", b"0\r\n\r\n"), 400, "bad_framing", id="coding and length"),
    pytest.param(
        b"POST / HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n0\r\n\r\n", 400, "bad_framing", id="chunked in HTTP/1.0"
    ),
    *(
        pytest.param(post(b"Content-Length: " + value + b"\r\n", b"abc"), 400, "bad_framing", id=f"length {value!r}")
        for value in (b"+3", b"-3", b"3,3", b"3 3", b"0x3", b"", b"\xc2\xb3", b"99999999999999999999999")
    ),
    pytest.param(post(b"Content-Length: 3\r\nContent-Length: 3\r\n", b"abc"), 400, "bad_framing", id="two lengths"),
    pytest.param(get(fields=b"A: b\r\n c\r\n"), 400, "bad_framing", id="a folded field"),
    pytest.param(get(fields=b"A : b\r\n"), 400, "bad_framing", id="a space before the colon"),
    pytest.param(get(fields=b": b\r\n"), 400, "bad_framing", id="a field without a name"),
    pytest.param(get(fields=b"\xc3\xa9: b\r\n"), 400, "bad_framing", id="a field name beyond ASCII"),
    pytest.param(b"GET / HTTP/1.1\r\n A: b\r\n" + HOST + b"\r\n", 400, "bad_framing", id="a space before the fields"),
    pytest.param(b"GET / HTTP/1.1\nHost: x\n\n", 400, "bad_framing", id="bare line feeds"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400, "bad_framing", id="one bare line feed"),
    *(
        pytest.param(get(fields=b"A: b" + byte + b"c\r\n"), 400, "bad_framing", id=f"{byte!r} in a value")
        for byte in (b"\x00", b"\x01", b"\x0b", b"\x7f", b"\r")
    ),
    pytest.param(get(fields=b"Expect: the-unexpected\r\n"), 417, "invalid_headers", id="an unknown expectation"),
    pytest.param(get(b"/" + b"a" * 20_000), 431, "headers_too_large", id="a long target"),
    pytest.param(get(fields=b"A: " + b"a" * 20_000 + b"\r\n"), 431, "headers_too_large", id="a long field"),
    pytest.param(get(fields=b"N" + b"a" * 20_000 + b": b\r\n"), 431, "headers_too_large", id="a long field name"),
    pytest.param(
        get(fields=b"".join(b"A%d: %s\r\n" % (n, b"a" * 10_000) for n in range(4))),
        431,
        "headers_too_large",
        id="four large fields",
    ),
    pytest.param(get(fields=b"a:b\r\n" * 5000), 431, "headers_too_large", id="5000 fields"),
    pytest.param(get(fields=b"a:b\r\n" * 300), 431, "headers_too_large", id="300 fields"),
]


@pytest.mark.parametrize(("data", "status", "code"), REFUSED)
async def test_malformed_request_is_refused_with_a_complete_json_error(
    server: Served, data: bytes, status: int, code: str
) -> None:
    response = parsed(await exchange(server.port, data))
    assert response.line.startswith("HTTP/1.1 ")
    assert (response.status, response.error["code"]) == (status, code)
    assert response.headers["gateway-error"] == code
    assert response.headers["connection"] == "close"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["content-type"].startswith("application/json")
    assert response.headers["gateway-request-id"]
    assert response.rest == b""
    assert server.recording_app.heads == []


@pytest.mark.parametrize(
    "data",
    [
        get(b"/" + MARKER + b"\x01"),
        get(b"/ " + MARKER),
        get(fields=MARKER + b" : x\r\n"),
        get(fields=b"A: \x01" + MARKER + b"\r\n"),
        get(b"/" + MARKER * 2000),
        post(b"Content-Length: " + MARKER + b"\r\n"),
        MARKER + b" / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9." + MARKER + b"\r\n\r\n",
    ],
)
async def test_a_refusal_contains_no_byte_of_the_request(server: Served, data: bytes) -> None:
    assert MARKER not in await exchange(server.port, data)


@pytest.mark.parametrize("pieces", [1, 7])
async def test_an_endless_head_is_refused_while_it_still_comes(server: Served, pieces: int) -> None:
    async with dial(server.port) as client:
        client.send(b"GET / HTTP/1.1\r\n" + HOST)
        line = b"".join(b"A%d: %s\r\n" % (n, b"a" * 1000) for n in range(100))
        for at in range(0, len(line), len(line) // pieces + 1):
            client.send(line[at : at + len(line) // pieces + 1])
            await client.writer.drain()
        response = parsed(await client.until_closed())
    assert (response.status, response.error["code"]) == (431, "headers_too_large")


@pytest.mark.parametrize("at", [1, 5, 17, 20, 30])
async def test_a_fault_is_reported_the_same_however_the_bytes_are_cut(server: Served, at: int) -> None:
    data = get(fields=b"A: \x01\r\n")
    async with dial(server.port) as client:
        client.send(data[:at])
        await client.writer.drain()
        await server_has_read(server)
        client.send(data[at:])
        response = parsed(await client.until_closed())
    assert response.error["code"] == "bad_framing"


async def server_has_read(server: Served) -> None:
    """Make a round trip on another connection. When it ends, the server has read everything that was sent before."""
    async with dial(server.port) as other:
        other.send(get(b"/other"))
        await other.response()


async def test_a_request_before_a_malformed_one_gets_a_response_first(server: Served) -> None:
    raw = await exchange(server.port, get(b"/first") + b"GARBAGE\r\n\r\n" + get(b"/third"))
    first = parsed(raw)
    assert first.body == b"/first"
    assert parsed(first.rest).error["code"] == "bad_framing"
    assert parsed(first.rest).rest == b""
    assert [target for _, target, _ in server.recording_app.heads] == ["/first"]


async def test_requests_after_connection_close_are_not_read(server: Served) -> None:
    raw = await exchange(server.port, get(b"/first", b"Connection: close\r\n") + get(b"/second"))
    assert parsed(raw).body == b"/first"
    assert [target for _, target, _ in server.recording_app.heads] == ["/first"]


async def test_the_refusal_reaches_a_client_that_is_still_sending(server: Served) -> None:
    async with dial(server.port) as client:
        client.send(post(b"Content-Length: 9\r\nContent-Length: 9\r\n") + b"x" * 2_000_000)
        assert parsed(await client.until_closed()).status == 400


async def test_a_crash_outside_every_chain_is_returned_in_the_gateways_error_format() -> None:
    async def crash(_request: web.Request) -> web.Response:
        raise RuntimeError("Bearer very-secret-token")

    bare = RecordingApplication(web.Application())
    bare.app.router.add_get("/bare", crash)
    serving = await served(bare)
    response = parsed(await exchange(serving.port, get(b"/bare")))
    await serving.runner.cleanup()
    assert (response.status, response.error["code"]) == (500, "generic_error_support")
    assert response.error["payload"] == {"request_id": response.headers["gateway-request-id"]}
    assert b"very-secret-token" not in response.body


async def test_a_host_keeps_its_own_refusals() -> None:
    bare = RecordingApplication(web.Application())
    serving = await served(bare)
    response = parsed(await exchange(serving.port, get(b"/nowhere", b"Connection: close\r\n")))
    await serving.runner.cleanup()
    assert (response.status, response.body) == (404, b"404: Not Found")


async def test_each_fault_has_its_own_message(server: Served) -> None:
    faults = {
        "space": get(b"/a b"),
        "both": post(b"Content-Length: 3\r\n" + CHUNKED, b"0\r\n\r\n"),
        "both, the other way": post(CHUNKED + b"Content-Length: 3\r\n", b"0\r\n\r\n"),
        "folded": get(fields=b"A: b\r\n c\r\n"),
        "twice": post(b"Content-Length: 3\r\nContent-Length: 3\r\n", b"abc"),
        "sign": post(b"Content-Length: +3\r\n", b"abc"),
        "method": get(method=b"FOO"),
        "name": get(fields=b"A : b\r\n"),
        "value": get(fields=b"A: b\x00c\r\n"),
        "cr": get(fields=b"A: b\rc\r\n"),
        "lf": b"GET / HTTP/1.1\nHost: x\n\n",
        "host": b"GET / HTTP/1.1\r\n\r\n",
        "tls": b"\x16\x03\x01\x02\x00\x01",
        "gzip": post(b"Transfer-Encoding: gzip\r\n", b"abc"),
        "unknown": b"nonsense\r\n\r\n",
    }
    result = {}
    for name, data in faults.items():
        result[name] = parsed(await exchange(server.port, data)).error["message"]
    assert result.pop("both, the other way") == result["both"]
    assert len(set(result.values())) == len(result), result
    assert [name for name, words in result.items() if "not a well-formed" in words] == ["unknown"]
