"""The request target: path and query are forwarded byte for byte, or the request is refused before a byte is sent."""

import pytest

from tests.wire.bench import Bench, table
from tests.wire.messages import HOST, KEY, connection_fields, request

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNCHANGED_TARGETS = table(
    ("a plain path", b"/a/b/c"),
    ("the root", b"/"),
    ("a trailing slash", b"/a/"),
    ("empty segments", b"/a//b///c"),
    ("a path that begins with two slashes", b"//evil.example/a"),
    ("an encoded slash in upper case", b"/a%2Fb"),
    ("an encoded slash in lower case", b"/a%2fb"),
    ("an encoded backslash", b"/a%5Cb"),
    ("encoded letters stay encoded", b"/%41%7e%61"),
    ("a percent sign encoded twice", b"/%252e%252e/x"),
    ("an encoded space", b"/a%20b"),
    ("a plus sign", b"/a+b"),
    ("an encoded CRLF", b"/a%0d%0aX-Evil:%201"),
    ("an encoded NUL", b"/a%00b"),
    ("encoded UTF-8", b"/caf%C3%A9"),
    ("an encoded byte that is not UTF-8", b"/caf%E9"),
    ("a percent sign alone", b"/100%"),
    ("a broken escape", b"/a%zzb%4"),
    ("three dots", b"/a/.../b"),
    ("dots inside names", b"/a..b/.hidden/x."),
    ("matrix parameters", b"/a;v=1/b;w=2"),
    ("sub-delimiters", b"/!$&'()*+,;=:@-._~"),
    ("brackets and braces", b"/[x]/{y}/|z|^`"),
    ("a template that nobody expands", b"/${apiKey}/${connectionConfig.x}"),
    ("a URL inside the path", b"/http://other.example/x"),
    ("an at sign at the start", b"/@evil.example/"),
    ("a colon at the start", b"/:80/"),
    ("the word proxy once more", b"/proxy/proxy"),
    ("a long path", b"/" + b"a" * 8000),
)
QUERIES = table(
    ("a bare question mark", b"/x?"),
    ("two question marks", b"/x??a=1"),
    ("a query on the root", b"/?a=1"),
    ("pairs in order, doubled", b"/x?b=2&a=1&b=3"),
    ("empty pairs", b"/x?&&=&a&b="),
    ("encoded delimiters", b"/x?a%26b=c%3Dd%23e"),
    ("plus and encoded space", b"/x?q=a+b%20c"),
    ("an encoded slash", b"/x?p=a%2Fb%2fc"),
    ("raw slashes and question marks", b"/x?p=a/b?c"),
    ("dot segments, which mean nothing here", b"/x?p=../../etc/./x"),
    ("encoded dot segments", b"/x?p=%2e%2e%2f"),
    ("brackets", b"/x?a[b]=c&d[]=e"),
    ("a template that nobody expands", b"/x?k=${apiKey}"),
    ("an encoded CRLF", b"/x?a=%0d%0aHost:%20evil"),
    ("a URL", b"/x?next=http://evil.example/"),
    ("semicolons", b"/x?a=1;b=2"),
    ("a long query", b"/x?q=" + b"b" * 8000),
)


@pytest.mark.parametrize("target", [*UNCHANGED_TARGETS, *QUERIES])
async def test_the_target_arrives_byte_for_byte(bench: Bench, target: bytes) -> None:
    received, _ = await bench.passes(request(b"/proxy" + target))
    assert received.target == target


MOUNTED_TARGETS = table(
    ("nothing after the mount asks for the root", b"wire", b"/proxy", b"/"),
    ("a query right after the mount", b"wire", b"/proxy?a=1", b"/?a=1"),
    ("a base URL with a path, and none asked", b"based", b"/proxy", b"/v1"),
    ("a base URL with a path, and a slash asked", b"based", b"/proxy/", b"/v1/"),
    ("a base URL with a path, and a query asked", b"based", b"/proxy?a", b"/v1?a"),
    ("a base URL with a path", b"based", b"/proxy/a%2Fb?c", b"/v1/a%2Fb?c"),
    ("two slashes below a base URL", b"based", b"/proxy//evil.example/a", b"/v1//evil.example/a"),
    ("a path that repeats the base URL", b"based", b"/proxy/v1/a", b"/v1/v1/a"),
)


@pytest.mark.parametrize(("integration", "asked", "arrives"), MOUNTED_TARGETS)
async def test_the_path_after_the_mount_is_appended_to_the_base_url(
    bench: Bench, integration: bytes, asked: bytes, arrives: bytes
) -> None:
    received, _ = await bench.passes(request(asked, gateway_fields=HOST + KEY + connection_fields(integration)))
    # The follow-up request on the same connection uses `wire`. So the last target shows that requests are not mixed up.
    assert received.target == arrives


QUERY_CREDENTIAL_CASES = table(
    ("no query at all", b"/x", b"/x?key=C"),
    ("a bare question mark", b"/x?", b"/x?key=C"),
    ("another pair stays before it", b"/x?a=%2f", b"/x?a=%2f&key=C"),
    ("the caller's own is replaced", b"/x?key=mine&a=1", b"/x?a=1&key=C"),
    ("the caller's own in another encoding is replaced", b"/x?%6Bey=mine&k%65y=too", b"/x?key=C"),
    ("the caller's own without a value is replaced", b"/x?key&a", b"/x?a&key=C"),
    ("a name in other letters is another name", b"/x?KEY=mine", b"/x?KEY=mine&key=C"),
    ("a name that only contains it", b"/x?key2=1&mykey=2", b"/x?key2=1&mykey=2&key=C"),
)


@pytest.mark.parametrize(("asked", "arrives"), QUERY_CREDENTIAL_CASES)
async def test_the_credential_in_the_query_replaces_what_the_caller_sent(
    bench: Bench, asked: bytes, arrives: bytes
) -> None:
    received, _ = await bench.passes(
        request(b"/proxy" + asked, gateway_fields=HOST + KEY + connection_fields(b"slotted"))
    )
    assert received.target == arrives.replace(b"C", b"wire-credential-0123")


DOT_SEGMENT_PATHS = table(
    *((f"{path.decode()} in the path", path) for path in (
        b"/..", b"/../", b"/.", b"/./x", b"/a/..", b"/a/../b", b"/a/./b", b"/%2e%2e/x", b"/%2E%2E/x", b"/.%2e/x",
        b"/%2e/x", b"/a/%2e%2e", b"/..%2fx", b"/..%2Fx", b"/..%5cx", b"/..%5Cx", b"/a%2f..%2fb", b"/a%5c..%5cb",
        b"/..;/x", b"/..;a=b/x", b"/.;/x", b"/%2e%2e;x/y", b"/a%2f..", b"/a/..?b",
    )),
)  # fmt: skip


@pytest.mark.parametrize("path", DOT_SEGMENT_PATHS)
async def test_path_that_some_server_reads_with_dot_segments_is_refused(bench: Bench, path: bytes) -> None:
    response = await bench.refuses(request(b"/proxy" + path), status=400, code="bad_path", kept=True)
    assert response.message.startswith("The path contains a '.' or '..' segment")


RAW_BYTE_PATHS = table(
    *((f"the byte {byte:#04x} in the {place}", before + bytes([byte]) + b"b") for place, before in (
        ("path", b"/a"), ("query", b"/a?q=")) for byte in (0x00, 0x01, 0x09, 0x0B, 0x1F, 0x20, 0x23, 0x5C, 0x7F, 0x80, 0xE9)
    ),
    ("raw UTF-8 in the path", "/café".encode()),
)  # fmt: skip


@pytest.mark.parametrize("path", RAW_BYTE_PATHS)
async def test_a_raw_byte_that_must_be_encoded_is_refused(bench: Bench, path: bytes) -> None:
    response = await bench.refuses(request(b"/proxy" + path), status=400, code="bad_path")
    assert "percent-encoded" in response.message


TARGETS_OUTSIDE_THE_MOUNT = table(
    ("an encoded letter in the mount", b"/%70roxy/x", 400, "bad_path"),
    ("an encoded slash behind the mount", b"/proxy%2Fx", 404, "not_found"),
    ("letters behind the mount", b"/proxyx", 404, "not_found"),
    ("the mount in capitals", b"/PROXY/x", 404, "not_found"),
    ("two slashes before the mount", b"//proxy/x", 404, "not_found"),
    ("a mount below another", b"/x/proxy/x", 404, "not_found"),
    ("a climb to the mount", b"/x/../proxy/x", 404, "not_found"),
)


@pytest.mark.parametrize(("target", "status", "code"), TARGETS_OUTSIDE_THE_MOUNT)
async def test_a_target_that_does_not_begin_with_the_mount_is_not_sent(
    bench: Bench, target: bytes, status: int, code: str
) -> None:
    response = await bench.refuses(request(target), status=status, code=code, kept=True)
    assert "/proxy/" in response.message or "No such endpoint" in response.message
