"""Authorization: the secret key, the two names of a connection, and the URLs to which a credential can be sent."""

import pytest

from tests.fakes.gateways import SECRET_KEY
from tests.wire.bench import CREDENTIAL, Bench, table
from tests.wire.messages import CHUNKED, HOST, KEY, connection_fields, request

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = SECRET_KEY.encode()

ACCEPTED_KEY_LINES = table(
    ("Bearer", b"Authorization: Bearer %s"),
    ("bearer in lower case", b"authorization: bearer %s"),
    ("BEARER in capitals", b"AUTHORIZATION: BEARER %s"),
    ("token, as some libraries say", b"Authorization: token %s"),
    ("space around the field", b"Authorization:  \t Bearer %s \t "),
    ("two spaces before the key", b"Authorization: Bearer  %s"),
    ("a no-break space after the key", b"Authorization: Bearer %s\xc2\xa0"),
    ("no-break spaces and a space after the key", b"Authorization: Bearer %s\xc2\xa0 \xc2\xa0"),
    ("a no-break space before the key", b"Authorization: Bearer \xc2\xa0%s"),
)


@pytest.mark.parametrize("line", ACCEPTED_KEY_LINES)
async def test_a_key_is_accepted_and_not_forwarded(bench: Bench, line: bytes) -> None:
    copy = b"X-Copy: %s\r\n" % SECRET
    received, _ = await bench.passes(
        request(gateway_fields=HOST + line % SECRET + b"\r\n" + connection_fields() + copy)
    )
    assert received.head.all("authorization") == [b"Bearer " + CREDENTIAL]
    assert SECRET not in received.head.raw


REFUSED_KEY_LINES = table(
    ("no Authorization", b"", "missing_auth_header"),
    ("an empty one", b"Authorization: \r\n", "malformed_auth_header"),
    ("a scheme alone", b"Authorization: Bearer\r\n", "malformed_auth_header"),
    ("a scheme and a space", b"Authorization: Bearer \r\n", "malformed_auth_header"),
    ("a bare key", b"Authorization: %s\r\n" % SECRET, "malformed_auth_header"),
    ("Basic", b"Authorization: Basic %s\r\n" % SECRET, "malformed_auth_header"),
    ("a scheme glued to the key", b"Authorization: Bearer%s\r\n" % SECRET, "malformed_auth_header"),
    ("a list of keys", b"Authorization: Bearer %s, Bearer x\r\n" % SECRET, "malformed_auth_header"),
    ("a list without spaces", b"Authorization: Bearer %s,x\r\n" % SECRET, "malformed_auth_header"),
    ("two keys with a space", b"Authorization: Bearer x %s\r\n" % SECRET, "malformed_auth_header"),
    ("a tab for the space", b"Authorization: Bearer\t%s\r\n" % SECRET, "malformed_auth_header"),
    ("a key in quotes", b'Authorization: Bearer "%s"\r\n' % SECRET, "unknown_account"),
    ("a wrong key", b"Authorization: Bearer sk-wrong-0123456789abcdef\r\n", "unknown_account"),
    ("the key in capitals", b"Authorization: Bearer %s\r\n" % SECRET.upper(), "unknown_account"),
    ("the key and one letter more", b"Authorization: Bearer %sx\r\n" % SECRET, "unknown_account"),
    ("all but one letter of the key", b"Authorization: Bearer %s\r\n" % SECRET[:-1], "unknown_account"),
    ("a key beyond ASCII", b"Authorization: Bearer caf\xe9-0123456789abcdef\r\n", "unknown_account"),
    ("a key beyond ASCII in UTF-8", "Authorization: Bearer café-0123456789abcdef\r\n".encode(), "unknown_account"),
    ("a session token", b"Authorization: Bearer nango_connect_session_" + b"a" * 64 + b"\r\n", "unknown_account"),
    ("the key in another field", b"X-Authorization: Bearer %s\r\n" % SECRET, "missing_auth_header"),
    ("the key with an underscore spelling", b"Authorization_: Bearer %s\r\n" % SECRET, "missing_auth_header"),
    ("the key as a proxy's", b"Proxy-Authorization: Bearer %s\r\n" % SECRET, "missing_auth_header"),
    ("the key as a minted field", b"Nango-Proxy-Authorization: Bearer %s\r\n" % SECRET, "missing_auth_header"),
    ("the key in a cookie", b"Cookie: Authorization=Bearer %s\r\n" % SECRET, "missing_auth_header"),
)


@pytest.mark.parametrize(("line", "code"), REFUSED_KEY_LINES)
async def test_without_one_valid_key_nothing_is_sent(bench: Bench, line: bytes, code: str) -> None:
    response = await bench.refuses(
        request(gateway_fields=HOST + line + connection_fields()), status=401, code=code, kept=True
    )
    assert (response.head.one("www-authenticate") or b"").startswith(b"Bearer")


async def test_a_key_in_the_query_is_ignored(bench: Bench) -> None:
    message = request(b"/proxy/x?access_token=" + SECRET, gateway_fields=HOST + connection_fields())
    response = await bench.refuses(message, status=401, code="missing_auth_header", kept=True)
    assert "Authorization" in response.message


DUPLICATE_FIELDS = table(
    ("two keys", KEY + KEY, connection_fields()),
    ("a good key and a bad one", KEY + b"authorization: Bearer x\r\n", connection_fields()),
    ("a bad key and a good one", b"authorization: Bearer x\r\n" + KEY, connection_fields()),
    ("an empty one and a good one", b"Authorization:\r\n" + KEY, connection_fields()),
    ("two connections", KEY, connection_fields() + b"Connection-Id: c1\r\n"),
    ("two integrations", KEY, connection_fields() + b"provider-config-key: wire\r\n"),
)


@pytest.mark.parametrize(("key", "names"), DUPLICATE_FIELDS)
async def test_a_duplicate_field_that_selects_key_or_connection_is_refused(
    bench: Bench, key: bytes, names: bytes
) -> None:
    response = await bench.refuses(request(gateway_fields=HOST + key + names), status=400, code="bad_framing")
    assert "was sent more than once" in response.message


def connection_names(integration: bytes | None, connection: bytes | None) -> bytes:
    lines = [(b"Provider-Config-Key", integration), (b"Connection-Id", connection)]
    return HOST + KEY + b"".join(name + b": " + value + b"\r\n" for name, value in lines if value is not None)


INVALID_NAMES = table(
    ("no integration", connection_names(None, b"c1"), 400, "invalid_headers"),
    ("no connection", connection_names(b"wire", None), 400, "invalid_headers"),
    ("an empty integration", connection_names(b"", b"c1"), 400, "invalid_headers"),
    ("an empty connection", connection_names(b"wire", b""), 400, "invalid_headers"),
    ("an unknown integration", connection_names(b"nothing", b"c1"), 404, "unknown_provider_config"),
    ("an integration in capitals", connection_names(b"WIRE", b"c1"), 404, "unknown_provider_config"),
    ("an unknown connection", connection_names(b"wire", b"c2"), 404, "unknown_connection"),
    ("a connection in capitals", connection_names(b"wire", b"C1"), 404, "unknown_connection"),
    ("a connection with a slash", connection_names(b"wire", b"../c1"), 404, "unknown_connection"),
    ("a connection with a quote", connection_names(b"wire", b"c1' OR '1'='1"), 404, "unknown_connection"),
    ("a connection with a percent sign", connection_names(b"wire", b"c%31"), 400, "invalid_headers"),
    ("a connection beyond ASCII", connection_names(b"wire", b"c\xe9"), 400, "invalid_headers"),
    ("a connection of 256 characters", connection_names(b"wire", b"c" * 256), 400, "invalid_headers"),
    ("an integration with a slash", connection_names(b"wire/x", b"c1"), 400, "invalid_headers"),
    ("a list of connections", connection_names(b"wire", b"c1, c2"), 404, "unknown_connection"),
    (
        "names spelled with underscores only",
        HOST + KEY + connection_fields().replace(b"-", b"_"),
        400,
        "invalid_headers",
    ),
    ("names as minted fields", HOST + KEY + b"Nango-Proxy-Connection-Id: c1\r\n", 400, "invalid_headers"),
)


@pytest.mark.parametrize(("gateway_fields", "status", "code"), INVALID_NAMES)
async def test_invalid_connection_name_is_reported(bench: Bench, gateway_fields: bytes, status: int, code: str) -> None:
    response = await bench.refuses(request(gateway_fields=gateway_fields), status=status, code=code, kept=True)
    assert any(
        name in response.message for name in ("Provider-Config-Key", "Connection-Id", "integration", "connection")
    )


WRONG_GATEWAY_HEADERS = table(
    ("a negative number of retries", b"Retries: -1\r\n"),
    ("retries that are no number", b"Retries: many\r\n"),
    ("retries twice", b"Retries: 1\r\nRetries: 2\r\n"),
    ("Retry-On that is no list", b"Retry-On: 429;503\r\n"),
    ("Decompress that is neither", b"Decompress: yes\r\n"),
    ("an override that is no URL", b"Base-Url-Override: evil\r\n"),
    ("an override with a user", b"Base-Url-Override: https://u:p@api.example\r\n"),
    ("an override with a fragment", b"Base-Url-Override: https://api.example/#\r\n"),
    ("an override with a backslash", b"Base-Url-Override: https://api.example\\@evil.example\r\n"),
    ("an override with a query", b"Base-Url-Override: https://api.example/?a\r\n"),
    ("an override with dot segments", b"Base-Url-Override: https://api.example/a/..\r\n"),
    ("an override with another scheme", b"Base-Url-Override: ftp://api.example\r\n"),
    ("an override twice", b"Base-Url-Override: https://a.example\r\nBase-Url-Override: https://b.example\r\n"),
    ("an override in decimal", b"Base-Url-Override: http://2130706433/\r\n"),
)


@pytest.mark.parametrize("line", WRONG_GATEWAY_HEADERS)
async def test_a_wrong_header_of_the_gateway_is_reported_and_nothing_is_sent(bench: Bench, line: bytes) -> None:
    response = await bench.refuses(request(fields=line), status=400, code="invalid_headers", kept=True)
    assert line.partition(b":")[0].decode() in response.message


FORBIDDEN_OVERRIDES = table(
    ("another host", b"https://evil.example"),
    ("the same host at another port", b"http://127.0.0.1:1"),
    ("another name of the same host", b"http://localhost:{port}"),
    ("another scheme of the same host", b"https://127.0.0.1:{port}"),
    ("a longer host", b"http://127.0.0.1.evil.example:{port}"),
    ("the metadata service", b"http://169.254.169.254/latest"),
    ("IPv6 that maps the same host", b"http://[::ffff:127.0.0.1]:{port}"),
)


@pytest.mark.parametrize("url", FORBIDDEN_OVERRIDES)
async def test_a_credential_is_sent_to_no_other_origin(bench: Bench, url: bytes) -> None:
    line = b"Base-Url-Override: " + url.replace(b"{port}", b"%d" % bench.recorder.port) + b"\r\n"
    response = await bench.refuses(request(fields=line), status=400, code="base_url_override_not_allowed", kept=True)
    assert CREDENTIAL not in response.head.raw + response.body.data
    assert [received.target for received in bench.recorder.requests] == [bench.last_target], (
        "only what came after it has left"
    )


@pytest.mark.parametrize(("path", "arrives"), table(("no path", b"", b"/x"), ("a path of its own", b"/v9", b"/v9/x")))
async def test_an_override_of_the_own_origin_keeps_its_path(bench: Bench, path: bytes, arrives: bytes) -> None:
    line = b"Base-Url-Override: http://" + bench.recorder.authority + path + b"\r\n"
    received, _ = await bench.passes(request(fields=line))
    assert received.target == arrives


async def test_a_refused_upload_closes_its_connection(bench: Bench) -> None:
    message = request(b"/proxy/x", CHUNKED, b"5\r\nhel", method=b"POST", gateway_fields=HOST + connection_fields())
    response = await bench.refuses(message, status=401, code="missing_auth_header")
    assert "Authorization" in response.message
