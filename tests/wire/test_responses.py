"""A provider's response is forwarded unchanged, in the gateway's framing, and responses are never mixed up."""

import pytest

from tests.wire.bench import Bench, table
from tests.wire.messages import HOST, KEY, connection_fields, request, sized_upload
from tests.wire.recorder import ScriptedHttpResponse, ok, sends

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHUNKED_OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BASED = request(gateway_fields=HOST + KEY + connection_fields(b"based"))

STATUSES = table(*((f"{status.decode()} {reason.decode(errors='replace')}", status, reason) for status, reason in (
    (b"200", b"OK"), (b"201", b"Created"), (b"202", b"Accepted"), (b"206", b"Partial Content"), (b"207", b"Multi-Status"),
    (b"299", b"Quite Fine"), (b"301", b"Moved"), (b"302", b"Found"), (b"307", b""), (b"400", b"Bad"), (b"401", b"No"),
    (b"403", b"Forbidden"), (b"404", b"Not Found"), (b"405", b"Not Allowed"), (b"409", b"Conflict"), (b"410", b"Gone"),
    (b"418", b"I'm a teapot"), (b"422", b"Unprocessable"), (b"429", b"Too Many Requests"), (b"500", b"Oops"),
    (b"502", b"Bad Gateway"), (b"503", b"Busy"), (b"599", b"Odd"), (b"600", b"Beyond"), (b"999", b"Last"),
    (b"200", b"caf\xe9 in Latin-1"), (b"200", "café".encode()), (b"200", b"tab\tinside"),
)))  # fmt: skip


@pytest.mark.parametrize(("status", "reason"), STATUSES)
async def test_a_status_is_forwarded_with_its_reason(bench: Bench, status: bytes, reason: bytes) -> None:
    response = await bench.responded(sends(b"HTTP/1.1 " + status + b" " + reason + b"\r\nContent-Length: 2\r\n\r\nok"))
    assert response.head.start in (b"HTTP/1.1 " + status + b" " + reason, b"HTTP/1.1 " + status + b" tabinside")
    assert (response.body.data, response.code) == (b"ok", "")


async def test_a_status_without_a_reason_is_forwarded(bench: Bench) -> None:
    response = await bench.responded(sends(b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"))
    assert (response.status, response.body.data) == (200, b"ok")


FORWARDED_FIELDS = table(
    ("the case of a name", b"x-LOWER-and-UPPER: 1\r\n"),
    ("order and duplicates", b"X-B: 1\r\nX-A: 2\r\nX-B: 3\r\n"),
    ("an empty value", b"X-A: \r\n"),
    ("Latin-1", b"X-A: caf\xe9\r\n"),
    ("UTF-8", "X-A: café ☃\r\n".encode()),
    ("every byte beyond ASCII", b"X-A: " + bytes(range(0x80, 0x100)) + b"\r\n"),
    ("a tab inside a value", b"X-A: a\tb\r\n"),
    ("validators", b'ETag: W/"x"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n'),
    ("caching", b"Cache-Control: public, max-age=60\r\nAge: 3\r\nExpires: 0\r\nVary: *\r\n"),
    ("a content type", b"Content-Type: application/json; charset=x\r\nContent-Language: de\r\n"),
    ("a coding that we do not undo", b"Content-Encoding: gzip\r\n"),
    ("a disposition", b'Content-Disposition: attachment; filename="caf\xe9.pdf"\r\n'),
    ("a range", b"Accept-Ranges: bytes\r\nContent-Range: bytes 0-1/5\r\n"),
    ("Server, and none is added", b"Server: theirs/1.0\r\n"),
    ("Via", b"Via: 1.1 theirs\r\n"),
    ("WWW-Authenticate, twice", b"WWW-Authenticate: Bearer\r\nWWW-Authenticate: Basic realm=x\r\n"),
    ("Retry-After", b"Retry-After: 120\r\n"),
    ("limits", b"X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 0\r\nRateLimit: limit=1\r\n"),
    ("X-Request-Id", b"X-Request-Id: theirs\r\n"),
    ("Content-Security-Policy", b"Content-Security-Policy: default-src 'none'\r\nX-Frame-Options: DENY\r\n"),
    ("a name with every token character", b"!#$%&'*+-.^_`|~09Az: 1\r\n"),
    ("an underscore in a name", b"X_A: 1\r\n"),
    ("a hundred fields", b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(100))),
    ("a value of 16 KB", b"X-A: " + b"a" * 16_000 + b"\r\n"),
    ("Content-Location elsewhere", b"Content-Location: https://cdn.example/x\r\n"),
)  # fmt: skip


@pytest.mark.parametrize("lines", FORWARDED_FIELDS)
async def test_a_response_field_is_forwarded_unchanged(bench: Bench, lines: bytes) -> None:
    response = await bench.responded(sends(ok(fields=lines)))
    assert b"".join(line + b"\r\n" for line in response.passed_on) == lines


async def test_a_date_is_forwarded_or_added(bench: Bench) -> None:
    theirs = await bench.responded(sends(ok(fields=b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n")))
    assert theirs.head.one("date") == b"Mon, 01 Jan 2024 00:00:00 GMT"
    assert (await bench.responded(sends(ok()))).head.one("date")


DROPPED_FIELDS = table(*((line.decode(), line + b"\r\n") for line in (
    b"Access-Control-Allow-Origin: *", b"Access-Control-Allow-Credentials: true", b"Access-Control-Expose-Headers: *",
    b"access_control_allow_origin: *", b"Strict-Transport-Security: max-age=1", b"Alt-Svc: h3=\":443\"", b"NEL: {}",
    b"Report-To: {}", b"Reporting-Endpoints: x", b"Clear-Site-Data: \"*\"", b"Service-Worker-Allowed: /",
    b"Public-Key-Pins: x", b"Accept-CH: DPR", b"Critical-CH: DPR", b"Origin-Agent-Cluster: ?1", b"Set-Login: logged-out",
    b"Use-As-Dictionary: match=\"/*\"", b"Secure-Session-Registration: (ES256);path=\"/x\"", b"Expect-CT: max-age=1",
    b"X-Content-Type-Options: none", b"x_content_type_options: none", b"Set-Cookie: a=b", b"Set-Cookie2: a=b", b"set_cookie: a=b", b"Gateway-Error: forged",
    b"gateway_error: forged", b"Gateway-Request-Id: forged", b"Gateway-Attempts: 9", b"X-Accel-Redirect: /etc/passwd",
    b"X-Accel-Buffering: yes", b"X-Sendfile: /etc/passwd", b"Keep-Alive: timeout=5", b"Proxy-Authenticate: Basic",
    b"Proxy-Connection: close", b"Trailer: X", b"TE: x", b"Upgrade: h2c", b"Connection: X-Hop\r\nX-Hop: 1",
    b"Connection: x-hop, X-Other\r\nX-HOP: 1\r\nX-Other: 2",
)))  # fmt: skip


@pytest.mark.parametrize("lines", DROPPED_FIELDS)
async def test_hop_by_hop_and_site_wide_response_fields_are_dropped(bench: Bench, lines: bytes) -> None:
    response = await bench.responded(sends(ok(fields=b"X-Before: 1\r\n" + lines + b"X-After: 2\r\n")))
    assert response.passed_on == [b"X-Before: 1", b"X-After: 2"]
    assert response.head.one("gateway-error") is None
    assert b"forged" not in response.head.raw


@pytest.mark.parametrize("kind", table(
    ("HTML", b"text/html"), ("XHTML", b"application/xhtml+xml"), ("SVG", b"image/svg+xml"), ("XML", b"text/xml"),
    ("PDF", b"application/pdf"), ("JSON", b"application/json"), ("no media type", b""),
))  # fmt: skip
@pytest.mark.parametrize("theirs", [b"", b"Content-Security-Policy: sandbox allow-scripts allow-same-origin\r\n"])
async def test_no_response_runs_script_on_our_origin(bench: Bench, kind: bytes, theirs: bytes) -> None:
    for _ in range(2):
        fields = theirs + (b"Content-Type: " + kind + b"\r\n" if kind else b"")
        response = await bench.responded(sends(ok(fields=fields)))
        assert b"sandbox" in response.head.all("content-security-policy")
        assert response.head.all("x-content-type-options") == [b"nosniff"]


VARY = table(
    ("none", b"", b""),
    ("one", b"Vary: Accept-Encoding\r\n", b"Accept-Encoding, "),
    ("two lines", b"Vary: Accept-Encoding\r\nvary: Origin\r\n", b"Accept-Encoding, Origin, "),
)


@pytest.mark.parametrize(("theirs", "first"), VARY)
async def test_a_response_varies_by_key_and_connection(bench: Bench, theirs: bytes, first: bytes) -> None:
    for _ in range(2):
        response = await bench.responded(sends(ok(fields=b"Cache-Control: public, max-age=60\r\n" + theirs)))
        ours = b"Authorization, Connection-Id, Provider-Config-Key, Base-Url-Override"
        assert response.head.all("vary") == [first + ours]


async def test_cookies_are_forwarded_if_the_integration_says_so(bench: Bench) -> None:
    cookies = b"Set-Cookie: a=b; HttpOnly\r\nSet-Cookie: __Host-gw-connect-x=1\r\nSet-Cookie: gw-flow-1=x\r\n"
    cookies += b"Set-Cookie: c=d, e\r\n"
    assert (await bench.responded(sends(ok(fields=cookies)), BASED)).head.all("set-cookie") == [
        b"a=b; HttpOnly",
        b"c=d, e",
    ]


REFERENCES = table(
    ("Location into the base URL", b"Location", b"{origin}/v1/next?a=%2f#f", b"{us}/proxy/next?a=%2f#f"),
    ("Location at the base URL", b"Location", b"{origin}/v1", b"{us}/proxy"),
    ("Location at the base URL with a query", b"Location", b"{origin}/v1?a", b"{us}/proxy?a"),
    ("Location from the root", b"Location", b"/v1/next", b"{us}/proxy/next"),
    ("Location from the root, outside the base", b"Location", b"/v2/next", b"/v2/next"),
    ("Location beside the base URL", b"Location", b"{origin}/v11/next", b"{origin}/v11/next"),
    ("Location relative to the request", b"Location", b"next?a", b"next?a"),
    ("Location to a query", b"Location", b"?page=2", b"?page=2"),
    ("Location without a scheme", b"Location", b"//{authority}/v1/next", b"{us}/proxy/next"),
    ("Location to another host", b"Location", b"https://other.example/v1/next", b"https://other.example/v1/next"),
    ("Location to another scheme", b"Location", b"https://{authority}/v1/next", b"https://{authority}/v1/next"),
    ("Location to another port", b"Location", b"http://127.0.0.1:1/v1/next", b"http://127.0.0.1:1/v1/next"),
    ("Location with a user", b"Location", b"http://x@{authority}/v1/next", b"http://x@{authority}/v1/next"),
    ("Location in capitals", b"LOCATION", b"HTTP://{authority}/v1/next", b"{us}/proxy/next"),
    ("Content-Location", b"Content-Location", b"{origin}/v1/here", b"{us}/proxy/here"),
    ("Link to the next page", b"Link", b'<{origin}/v1/p?page=2>; rel="next"', b'<{us}/proxy/p?page=2>; rel="next"'),
    ("Link with several targets", b"Link", b'<{origin}/v1/a>; rel="next", </v1/b>; rel="last",<{origin}/v2/c>',
     b'<{us}/proxy/a>; rel="next", <{us}/proxy/b>; rel="last",<{origin}/v2/c>'),
    ("Link with a target in a title", b"Link", b'</v1/a>; title="<{origin}/v1/b>"', b'<{us}/proxy/a>; title="<{origin}/v1/b>"'),
    ("Link with a comma in its target", b"Link", b"<{origin}/v1/a,b>; rel=x", b"<{us}/proxy/a,b>; rel=x"),
    ("Link without brackets", b"Link", b"{origin}/v1/a", b"{origin}/v1/a"),
    ("another field with a URL", b"X-Next", b"{origin}/v1/next", b"{origin}/v1/next"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "reference", "rewritten"), REFERENCES)
async def test_a_link_below_the_base_url_is_rewritten_to_the_gateway(
    bench: Bench, name: bytes, reference: bytes, rewritten: bytes
) -> None:
    def fill_placeholders(text: bytes) -> bytes:
        authority = bench.recorder.authority
        result = text.replace(b"{authority}", authority).replace(b"{origin}", b"http://" + authority)
        return result.replace(b"{us}", bench.public_url.encode())

    said = ok(fields=name + b": " + fill_placeholders(reference) + b"\r\n").replace(b"200 OK", b"302 Found")
    response = await bench.responded(sends(said), BASED)
    assert response.passed_on == [name + b": " + fill_placeholders(rewritten)]


FRAMED_BODIES = table(
    ("a length", sends(ok(b"abc")), b"abc", "length"),
    ("a length of nothing", sends(ok(b"")), b"", "length"),
    ("chunks", sends(CHUNKED_OK + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"), b"abc", "chunks"),
    ("chunks with extensions", sends(CHUNKED_OK + b'3;a="b"\r\nabc\r\n0;x\r\n\r\n'), b"abc", "chunks"),
    ("chunks with extensions after white space", sends(CHUNKED_OK + b'3 ; a = "b"\r\nabc\r\n0\t;x\r\n\r\n'), b"abc", "chunks"),
    ("chunks with trailers", sends(CHUNKED_OK + b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nGateway-Error: x\r\n\r\n"), b"abc", "chunks"),
    ("chunks of nothing", sends(CHUNKED_OK + b"0\r\n\r\n"), b"", "chunks"),
    ("chunks with sizes in capitals", sends(CHUNKED_OK + b"0A\r\n0123456789\r\n0\r\n\r\n"), b"0123456789", "chunks"),
    ("the connection's end", sends(b"HTTP/1.1 200 OK\r\n\r\nabc", then="close"), b"abc", "chunks"),
    ("the connection's end, after nothing", sends(b"HTTP/1.1 200 OK\r\n\r\n", then="close"), b"", "chunks"),
    ("HTTP/1.0 and the connection's end", sends(b"HTTP/1.0 200 OK\r\n\r\nabc", then="close"), b"abc", "chunks"),
    ("HTTP/1.0 and a length", sends(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", then="close"), b"abc", "length"),
    ("a length and Connection: close", sends(ok(b"abc", b"Connection: close\r\n"), then="close"), b"abc", "length"),
    ("a head and a body in pieces",
     sends(b"HTTP/1.1 2", b"00 OK\r\nContent-Le", b"ngth: 3\r\n\r", b"\na", b"bc"), b"abc", "length"),
    ("chunks in pieces", sends(CHUNKED_OK, b"3", b"\r", b"\nab", b"c\r\n0\r", b"\n\r", b"\n"), b"abc", "chunks"),
    ("a body that looks like a response", sends(ok(ok(b"evil"))), ok(b"evil"), "length"),
    ("a chunk that looks like a response",
     sends(CHUNKED_OK + b"%x\r\n%s\r\n0\r\n\r\n" % (len(ok()), ok())), ok(), "chunks"),
    ("200 KB", sends(ok(bytes(range(256)) * 800)), bytes(range(256)) * 800, "length"),
    ("an interim response first", sends(b"HTTP/1.1 100 Continue\r\n\r\n" + ok(b"abc")), b"abc", "length"),
    ("early hints first", sends(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", ok(b"abc")), b"abc", "length"),
    ("several interim responses first",
     sends(b"HTTP/1.1 102 Processing\r\n\r\n" * 5 + b"HTTP/1.1 100 Continue\r\n\r\n", ok(b"abc")), b"abc", "length"),
)  # fmt: skip


@pytest.mark.parametrize(("script", "body", "framing"), FRAMED_BODIES)
async def test_a_body_is_forwarded_in_every_framing(
    bench: Bench, script: ScriptedHttpResponse, body: bytes, framing: str | None
) -> None:
    response = await bench.responded(script)
    assert (response.code, response.body.data) == ("", body)
    assert framing in (None, response.body.framing)
    assert response.body.trailers == ()
    assert response.interim == ()


async def test_two_equal_lengths_are_merged_or_refused(bench: Bench) -> None:
    """RFC 9112 §6.3 allows both."""
    response = await bench.responded(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"))
    assert (response.status, response.body.data) == (200, b"ok") or response.code == "upstream_protocol"


BODILESS_RESPONSES = table(
    ("HEAD with a length", b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", b"12"),
    ("HEAD with a coding", b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", None),
    ("HEAD with neither", b"HEAD", b"HTTP/1.1 200 OK\r\n\r\n", None),
    ("an error in response to HEAD", b"HEAD", b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n", b"9"),
    ("204", b"GET", b"HTTP/1.1 204 No Content\r\n\r\n", None),
    ("204 to a POST", b"POST", b"HTTP/1.1 204 No Content\r\n\r\n", None),
    ("304", b"GET", b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n', None),
    ("304 with a length", b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\n\r\n", b"12"),
)  # fmt: skip


@pytest.mark.parametrize(("method", "said", "length"), BODILESS_RESPONSES)
async def test_a_response_without_a_body_arrives_without_one(
    bench: Bench, method: bytes, said: bytes, length: bytes | None
) -> None:
    response = await bench.responded(sends(said), request(method=method))
    assert response.head.one("content-length") == length
    assert response.head.all("transfer-encoding") == []


async def test_the_connection_of_an_upload_serves_the_next_request(bench: Bench) -> None:
    response = await bench.responded(sends(ok(b"abc")), sized_upload(b"hello"))
    assert response.body.data == b"abc"
    assert bench.recorder.requests[0].connection == bench.recorder.requests[-1].connection
