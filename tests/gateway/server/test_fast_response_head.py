"""The fast path converts a plain response head line by line. The result is the same as with parsed header fields."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http import passed_head
from gateway.http.headers import MalformedResponse
from gateway.http.passed_head import PlainHead, plain_head
from gateway.http.response_head import MalformedMessage, parse_head
from gateway.origin import ParsedUrl
from gateway.server.fast_response_head import response_head

NAMES = (
    *("Server", "ETag", "X-Id", "date", "Date", "Content-Type", "content-type", "Content-Length", "Transfer-Encoding"),
    *("Connection", "Keep-Alive", "Upgrade", "Strict-Transport-Security", "Set-Cookie", "Location", "Link", "X_Y"),
    *("Gateway-Error", "Access-Control-Allow-Origin", "content_length", "Trailer", "Bad Name", "X-Accel-Redirect", ""),
    *("Vary", "vary", "X-Content-Type-Options", "Content-Security-Policy", "Service-Worker-Allowed", "Referrer-Policy"),
)
VALUES = (
    *("Accept-Encoding", "authorization, Origin", "*", "sandbox allow-scripts"),
    *("a", "", "5", "05", "5, 5", "-1", "chunked", "gzip, chunked", "close", "keep-alive", "Keep-Alive", "x-id"),
    *(
        "timeout=5",
        "timeout=5, max=100",
        "max=2, timeout=7",
        "text/event-stream; x=1",
        "application/json",
        "ä",
        "\udce4",
    ),
    *(" two", "behind ", "\ttab", "in\tside", "a:  b", "nul\x00", "cr\rlf", "lf\nx", "https://api.example.com/v1/x"),
)
STARTS = ("HTTP/1.1 200 OK", "HTTP/1.1 404", "HTTP/1.1 299 ä", "HTTP/1.0 200 OK", "HTTP/1.1 100 C", "HTTP/2 200 OK")
LINES = st.tuples(st.sampled_from(NAMES), st.sampled_from((": ", ": ", ": ", ":", "")), st.sampled_from(VALUES)).map(
    "".join
)


def plan(method: str, mount: str) -> Any:
    placement = SimpleNamespace(query_names=frozenset())
    opened = SimpleNamespace(
        base=ParsedUrl("https", "api.example.com", 443, "/v1"),
        placement=placement,
        integration=SimpleNamespace(forward_set_cookie=False),
    )
    route = SimpleNamespace(generation=SimpleNamespace(public_url="https://gw.example"))
    return cast(
        "Any", SimpleNamespace(request_id="r1", method=method, opened=opened, route=route, mount=mount, rate_state=None)
    )


def head_bytes(head: Any, method: str, mount: str, *, last: bool) -> tuple[bytes, bool]:
    return response_head(head, plan(method, mount), 0.001, 0.002, last=last)


@given(
    st.sampled_from(STARTS),
    st.lists(LINES, max_size=6),
    st.sampled_from(("GET", "HEAD")),
    st.sampled_from(("/proxy", "/c/gw_cap_x")),
    st.booleans(),
)
def test_reading_line_by_line_gives_the_same_head_as_field_by_field(
    start: str, lines: list[str], method: str, mount: str, last: bool
) -> None:
    raw = "\r\n".join((start, *lines)).encode("utf-8", "surrogateescape")
    for _ in range(2):  # the first pass learns the lines, the second uses the remembered lines
        head = plain_head(raw)
        if head is None:
            continue
        try:
            result = parse_head(raw)
        except MalformedMessage as fault:
            pytest.fail(f"{raw!r} is not a valid head, but was parsed as a plain head: {fault}")
        assert (head.status, head.length, head.chunked, head.keep_s) == (
            *(result.status, result.length, result.chunked, result.keep_s),
        )
        assert head.with_fields().fields == result.fields
        try:
            expected = head_bytes(result, method, mount, last=last)
        except MalformedResponse:
            pytest.fail(f"{raw!r} cannot be passed on, but was parsed as a plain head")
        assert without_date(head_bytes(head, method, mount, last=last)) == without_date(expected)


def without_date(result: tuple[bytes, bool]) -> tuple[list[bytes], bool]:
    """Return the head without its `Date` field, which contains the current time."""
    lines, whole = result
    return [line for line in lines.split(b"\r\n") if not line.startswith(b"Date: ") or b"GMT" not in line], whole


@pytest.mark.parametrize(
    "line",
    ["Server: nginx", "Content-Length: 12", "Keep-Alive: timeout=5, max=9", "Connection: close", "X-Id: \udce4"],
)
def test_usual_heads_are_plain(line: str) -> None:
    raw = f"HTTP/1.1 200 OK\r\n{line}\r\nContent-Type: a/b".encode("utf-8", "surrogateescape")
    assert isinstance(plain_head(raw), PlainHead)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "Set-Cookie: a=b",
            "Location: /x",
            "Link: <x>",
            "Connection: x-id",
            "X-Id:tight",
            "X-Id: \t",
            "X-Id: nul\x00",
        ),
        "\u212aeep-Alive: timeout=5",  # the Kelvin sign, which is a `k` in lower case
    ],
)
def test_a_head_whose_lines_cannot_be_read_one_by_one_is_not_plain(line: str) -> None:
    assert plain_head(f"HTTP/1.1 200 OK\r\n{line}".encode()) is None


def test_remembered_lines_are_limited_and_dropped() -> None:
    for number in range(3000):
        plain_head(b"HTTP/1.1 200 OK\r\nX-Id: %d" % number)
    assert 0 < passed_head.cached_line_count() <= 1024
    passed_head.clear_cache()
    assert passed_head.cached_line_count() == 0
