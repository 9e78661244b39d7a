"""Request header fields: end-to-end fields are forwarded unchanged, and all other fields are not forwarded."""

import pytest

from tests.wire.bench import CREDENTIAL, Bench, table
from tests.wire.messages import HOST, KEY, connection_fields, request, sized_upload

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNCHANGED_FIELDS = table(
    ("one field", b"X-A: 1\r\n"),
    ("the case of a name", b"x-LOWER-and-UPPER: 1\r\n"),
    ("the order of fields", b"X-C: 1\r\nX-A: 2\r\nX-B: 3\r\n"),
    ("one name twice", b"X-A: 1\r\nX-A: 2\r\n"),
    ("one name twice in two cases, apart", b"X-A: 1\r\nX-B: 2\r\nx-a: 3\r\n"),
    ("a list of values", b"X-A: 1, 2,3 ,4\r\n"),
    ("an empty value", b"X-A: \r\n"),
    ("a tab and spaces inside a value", b"X-A: a \t  b\r\n"),
    ("quotes and backslashes", b'X-A: "a\\"b", c\\d\r\n'),
    ("UTF-8", "X-A: café ☃\r\n".encode()),
    ("Latin-1", b"X-A: caf\xe9\r\n"),
    ("bytes that are not UTF-8", b"X-A: \x80\r\nX-B: \xc0\xaf\r\nX-C: \xed\xa0\x80\r\n"),
    ("every character a name may have", b"!#$%&'*+-.^_`|~09Az: 1\r\n"),
    ("a template that nobody expands", b"X-A: ${apiKey} ${accessToken}\r\n"),
    ("an underscore in a name of the caller's own", b"X_Trace_Id: 1\r\n"),
    ("User-Agent", b"User-Agent: mine/1.0 (x; y)\r\n"),
    ("Accept and its kin", b"Accept: a/b;q=0.5, */*\r\nAccept-Language: de\r\nAccept-Encoding: br;q=1.0, gzip\r\n"),
    ("an Accept-Encoding of nothing", b"Accept-Encoding: identity;q=0\r\n"),
    ("two cookies", b"Cookie: a=1; b=2\r\nCookie: c=3\r\n"),
    ("conditions", b'If-None-Match: W/"x", "y"\r\nIf-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\n'),
    ("Range", b"Range: bytes=0-1,-5\r\nIf-Range: \"x\"\r\n"),
    ("Referer and Origin", b"Referer: https://app.example/x?y\r\nOrigin: https://app.example\r\n"),
    ("Via and Date", b"Via: 1.0 front\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"),
    ("Idempotency-Key", b"Idempotency-Key: 8e03978e\r\n"),
    ("X-Request-Id", b"X-Request-Id: abc-1\r\n"),
    ("trace context", b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=1\r\n"),
    ("X-HTTP-Method-Override", b"X-HTTP-Method-Override: DELETE\r\n"),
    ("another service's authorization", b"X-Authorization: Bearer theirs\r\nAuthorization-Extra: 1\r\n"),
    ("names that only begin like ours", b"Connection-Identity: 1\r\nRetries-Left: 2\r\nNangoX: 3\r\nGatewayX: 4\r\n"),
    ("a name that only ends like ours", b"X-Connection-Id: 1\r\nMy-Provider-Config-Key: 2\r\n"),
    ("Content-Type without a body", b"Content-Type: application/json\r\n"),
    ("Max-Forwards", b"Max-Forwards: 3\r\n"),
    ("a hundred fields", b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(100))),
    ("a value of 12 KiB", b"X-A: " + b"a" * 12_000 + b"\r\n"),
)  # fmt: skip


@pytest.mark.parametrize("lines", UNCHANGED_FIELDS)
async def test_an_end_to_end_field_arrives_as_sent(bench: Bench, lines: bytes) -> None:
    received, _ = await bench.passes(request(fields=lines))
    assert b"".join(line + b"\r\n" for line in received.passed_on) == lines


TRIMMED_FIELDS = table(
    ("no space after the colon", b"X-A:1\r\n", b"X-A: 1"),
    ("spaces and tabs around a value", b"X-A: \t  1 \t \r\n", b"X-A: 1"),
    ("a value of spaces", b"X-A:    \r\n", b"X-A: "),
)


@pytest.mark.parametrize(("lines", "arrives"), TRIMMED_FIELDS)
async def test_white_space_around_a_value_is_removed(bench: Bench, lines: bytes, arrives: bytes) -> None:
    received, _ = await bench.passes(request(fields=lines))
    assert received.passed_on == [arrives]


GATEWAY_FIELDS = table(
    *((f"{line.split(b':')[0].decode()} ({line.split(b': ', 1)[1].decode()})", line + b"\r\n") for line in (
        b"Retries: 0", b"RETRIES: 0", b"Retry-On: 429", b"Base-Url-Override: ", b"base-url-override:  ",
        b"Decompress: false", b"Forward-Headers-On-Redirect: false", b"Nango-Activity-Log-Id: ",
        b"Nango-Is-Sync: false", b"Nango-Is-Dry-Run: false", b"nango-anything: 1", b"Nango_Is_Sync: false",
        b"Gateway-Anything: 1", b"gateway_anything: 1", b"X-Forwarded-For: 1.2.3.4", b"X-Forwarded-Host: evil",
        b"X-Forwarded-Proto: https", b"x_forwarded_for: 1.2.3.4", b"Forwarded: for=1.2.3.4", b"X-Real-IP: 1.2.3.4",
        b"X_Real_Ip: 1.2.3.4", b"Provider_Config_Key: wire", b"CONNECTION_ID: c2", b"Connection_id: c2",
        b"Base_Url_Override: http://evil.example", b"baggage: user=alice", b"Baggage: user=alice,plan=a",
        b"Retry_On: 500", b"Forward_Headers-On_Redirect: true",
    )),
)  # fmt: skip


@pytest.mark.parametrize("line", GATEWAY_FIELDS)
async def test_fields_for_the_gateway_are_never_forwarded(bench: Bench, line: bytes) -> None:
    received, _ = await bench.passes(request(fields=b"X-Before: 1\r\n" + line + b"X-After: 2\r\n"))
    assert received.passed_on == [b"X-Before: 1", b"X-After: 2"]


HOP_BY_HOP = table(
    ("Connection: keep-alive", b"Connection: keep-alive\r\n"),
    ("Keep-Alive", b"Keep-Alive: timeout=5, max=100\r\n"),
    ("Proxy-Connection", b"Proxy-Connection: keep-alive\r\n"),
    ("Proxy-Authorization", b"Proxy-Authorization: Basic eDp5\r\n"),
    ("Proxy-Authenticate", b"Proxy-Authenticate: Basic\r\n"),
    ("TE", b"TE: trailers, gzip\r\n"),
    ("Trailer", b"Trailer: X-Sum\r\n"),
    ("names with underscores", b"Keep_Alive: 1\r\nProxy_Connection: 1\r\nProxy_Authorization: x\r\n"),
    ("framing with underscores", b"Content_Length: 5\r\nTransfer_Encoding: chunked\r\ntransfer_encoding: x\r\n"),
    ("a field that Connection names", b"Connection: X-Hop\r\nX-Hop: 1\r\n"),
    ("a field that Connection names in another case", b"Connection: x-HOP\r\nX-hop: 1\r\nX-Hop: 2\r\n"),
    ("a field named before Connection", b"X-Hop: 1\r\nConnection: X-Hop\r\n"),
    ("several named in a list with odd commas", b"Connection: ,X-A,, X-B ,\r\nX-A: 1\r\nX-B: 2\r\n"),
    ("two Connection fields", b"Connection: X-A\r\nConnection: X-B\r\nX-A: 1\r\nX-B: 2\r\n"),
    ("a field named with an underscore", b"Connection: X_Hop\r\nX-Hop: 1\r\nX_Hop: 2\r\n"),
    ("Cookie named by Connection", b"Connection: Cookie\r\nCookie: a=1\r\n"),
    ("Host named by Connection does not take the provider's away", b"Connection: Host\r\n"),
    ("the credential's place named by Connection", b"Connection: Authorization\r\n"),
    ("our headers named by Connection still count", b"Connection: Connection-Id, Provider-Config-Key\r\n"),
    ("framing named by Connection", b"Connection: Content-Length, Transfer-Encoding\r\n"),
)


@pytest.mark.parametrize("lines", HOP_BY_HOP)
async def test_hop_by_hop_fields_are_not_forwarded(bench: Bench, lines: bytes) -> None:
    received, _ = await bench.passes(request(fields=lines + b"X-Kept: 1\r\n"))
    assert received.passed_on == [b"X-Kept: 1"]
    assert received.head.one("authorization") == b"Bearer " + CREDENTIAL


async def test_a_framing_field_named_by_connection_still_frames_the_upload(bench: Bench) -> None:
    received, _ = await bench.passes(sized_upload(b"hello", b"Connection: Content-Length\r\n"))
    assert (received.body.framing, received.body.data) == ("length", b"hello")


NANGO_PROXY_FIELDS = table(
    ("a field of any name", b"Nango-Proxy-X-A: 1\r\n", [b"X-A: 1"]),
    ("a value in Latin-1", b"Nango-Proxy-X-A: caf\xe9\r\n", [b"X-A: caf\xe9"]),
    ("the prefix in any case", b"nango-PROXY-X-A: 1\r\n", [b"X-A: 1"]),
    ("it replaces a plain one before it", b"X-A: 1\r\nNango-Proxy-X-A: 2\r\n", [b"X-A: 2"]),
    ("it replaces a plain one after it", b"Nango-Proxy-X-A: 2\r\nx-a: 1\r\n", [b"X-A: 2"]),
    ("it replaces a plain one with an underscore", b"X_A: 1\r\nNango-Proxy-X-A: 2\r\n", [b"X-A: 2"]),
    ("twice", b"Nango-Proxy-X-A: 1\r\nNango-Proxy-X-A: 2\r\n", [b"X-A: 1", b"X-A: 2"]),
    ("Content-Type, beside a plain one",
     b"Content-Type: text/plain\r\nNango-Proxy-Content-Type: a/b\r\n", [b"Content-Type: a/b"]),
    ("User-Agent", b"User-Agent: sdk\r\nNango-Proxy-User-Agent: mine\r\n", [b"User-Agent: mine"]),
    ("Host", b"Nango-Proxy-Host: evil.example\r\n", []),
    ("host in lower case", b"nango-proxy-host: evil.example\r\n", []),
    ("Content-Length", b"Nango-Proxy-Content-Length: 5\r\n", []),
    ("Content_Length", b"Nango-Proxy-Content_Length: 5\r\n", []),
    ("Transfer-Encoding", b"Nango-Proxy-Transfer-Encoding: chunked\r\n", []),
    ("Transfer_Encoding", b"Nango-Proxy-Transfer_Encoding: chunked\r\n", []),
    ("Expect", b"Nango-Proxy-Expect: 100-continue\r\n", []),
    ("Connection", b"Nango-Proxy-Connection: X-Kept\r\n", []),
    ("Keep-Alive", b"Nango-Proxy-Keep-Alive: 1\r\n", []),
    ("Upgrade", b"Nango-Proxy-Upgrade: h2c\r\n", []),
    ("TE", b"Nango-Proxy-TE: trailers\r\n", []),
    ("Trailer", b"Nango-Proxy-Trailer: X\r\n", []),
    ("Proxy-Authorization", b"Nango-Proxy-Proxy-Authorization: x\r\n", []),
    ("Provider-Config-Key", b"Nango-Proxy-Provider-Config-Key: x\r\n", []),
    ("Connection-Id", b"Nango-Proxy-Connection-Id: x\r\n", []),
    ("X-Forwarded-For", b"Nango-Proxy-X-Forwarded-For: 1.2.3.4\r\n", []),
    ("the prefix itself", b"Nango-Proxy-Nango-Proxy-Host: evil.example\r\n", []),
    ("nothing", b"Nango-Proxy-: 1\r\n", []),
    ("a field that Connection names", b"Connection: X-A\r\nNango-Proxy-X-A: 1\r\n", []),
    ("a prefix with underscores mints nothing", b"Nango_Proxy_X_A: 1\r\n", []),
    ("the credential's place", b"Nango-Proxy-Authorization: Bearer mine\r\n", []),
)  # fmt: skip


@pytest.mark.parametrize(("lines", "arrives"), NANGO_PROXY_FIELDS)
async def test_nango_proxy_fields_become_end_to_end_fields_only(
    bench: Bench, lines: bytes, arrives: list[bytes]
) -> None:
    received, _ = await bench.passes(request(fields=lines + b"X-Kept: 1\r\n"))
    assert sorted(received.passed_on) == sorted([*arrives, b"X-Kept: 1"])
    assert received.head.all("authorization") == [b"Bearer " + CREDENTIAL]


DEFAULT_FIELD_CASES = table(
    ("absent ones stand in", b"", {"accept": [b"application/vnd.wire+json"], "content-type": []}),
    ("the caller's own stays", b"Accept: a/b\r\n", {"accept": [b"a/b"]}),
    ("the caller's own in another case stays", b"aCCEPT: a/b\r\n", {"accept": [b"a/b"]}),
    ("a credential of the caller's is replaced", b"X-Api-Key: mine\r\n", {"x-api-key": [CREDENTIAL]}),
    ("two of the caller's are replaced", b"x-api-key: a\r\nX-API-KEY: b\r\n", {"x-api-key": [CREDENTIAL]}),
    ("one spelled with underscores goes too", b"X_Api_Key: mine\r\n",
     {"x-api-key": [CREDENTIAL], "x_api_key": []}),
    ("a minted one is replaced", b"Nango-Proxy-X-Api-Key: mine\r\n", {"x-api-key": [CREDENTIAL]}),
    ("one that Connection names is there", b"Connection: X-Api-Key\r\n", {"x-api-key": [CREDENTIAL]}),
    ("the caller's key does not leave as Authorization", b"", {"authorization": []}),
)  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), DEFAULT_FIELD_CASES)
async def test_the_credential_replaces_fields_and_defaults_fill_missing_ones(
    bench: Bench, lines: bytes, expected: dict[str, list[bytes]]
) -> None:
    received, _ = await bench.passes(request(fields=lines, gateway_fields=HOST + KEY + connection_fields(b"slotted")))
    assert {name: received.head.all(name) for name in expected} == expected


async def test_a_default_content_type_is_added_only_with_a_body(bench: Bench) -> None:
    message = request(
        b"/proxy/x",
        b"Content-Length: 2\r\n",
        b"{}",
        method=b"POST",
        gateway_fields=HOST + KEY + connection_fields(b"slotted"),
    )
    received, _ = await bench.passes(message)
    assert received.head.all("content-type") == [b"application/wire"]
