"""The line reader of the fast path recognizes header lines by their names. Its result is the same as that of the
middleware chain, which parses the whole head.
"""

from collections.abc import Mapping, Sequence

import pytest
from aiohttp import HttpVersion11
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from gateway.errors import GatewayError, InvalidRequest
from gateway.http import headers, proxy_options, request_head
from gateway.http.headers import Fields, normalized_name
from gateway.http.request_head import CHECKED, check_head
from gateway.server import request_lines
from gateway.server.request_lines import MAX_NAMES as REMEMBERED
from gateway.server.request_lines import MAX_OPTION_BYTES, LineReader, RequestLines

KEY = "gwdev_0123456789abcdef0123456789abcdef"
USUAL = [
    ("Host", "gw.example"),
    ("Authorization", f"Bearer {KEY}"),
    ("Provider-Config-Key", "crm"),
    ("Connection-Id", "c1"),
]


def block(fields: Fields) -> bytes:
    return "\r\n".join(f"{name}: {value}" for name, value in fields).encode()


def passing(found: RequestLines) -> list[bytes]:
    return [line for _, line in found.passed_lines]


def by_the_chain(fields: Fields) -> list[bytes]:
    return [f"{name}: {value}".encode() for name, value in headers.request_fields(fields)]


NAMES = st.sampled_from(
    [
        *(
            "Accept",
            "accept",
            "traceparent",
            "X-Request-Id",
            "X_Key",
            "Cookie",
            "User-Agent",
            "Content-Type",
            "baggage",
        ),
        *("X-Forwarded-For", "Nango-Proxy-X-A", "Nango-Proxy-Accept", "Nango-Is-Sync", "Retries", "Retry-On"),
        *("Decompress", "Gateway-Timeout", "Idempotency-Key", "Forwarded", "X-Real-Ip", "Referer", "Range"),
    ]
)
VALUES = st.one_of(
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x17F, exclude_characters="\x7f"), max_size=12).map(
        str.strip
    ),
    st.sampled_from(["3", "true", "429,503", f"x{KEY}y", "r-1", "2.5"]),
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_the_fast_path_forwards_the_same_fields_as_the_chain(more: Fields) -> None:
    fields = [*USUAL, *((name, "".join(char for char in value if char.isprintable())) for name, value in more)]
    reader = LineReader()
    for _ in range(2):  # the first pass learns the lines, the second uses the remembered lines
        found = reader.read(block(fields))
        multi = CIMultiDictProxy(CIMultiDict(fields))
        try:
            options, expected = proxy_options.parse_proxy_options(multi), by_the_chain(fields)
        except GatewayError:
            assert found is None
            continue
        if found is None:
            continue
        assert (passing(found), found.options, found.key) == (expected, options, KEY)
        assert found.names == {normalized_name(line.partition(b":")[0].decode()) for line in expected}


def test_an_ordinary_post_is_read() -> None:
    fields = [*USUAL, ("Content-Type", "application/json"), ("Content-Length", "300"), ("traceparent", "00-1-2-01")]
    found = LineReader().read(block(fields))
    assert found is not None
    assert passing(found) == [b"Content-Type: application/json", b"traceparent: 00-1-2-01"]
    assert (found.length, found.chunked, found.last, found.request_id) == (300, False, False, None)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"Host: other.example", id="a second host"),
        pytest.param(b"authorization: Bearer x", id="a second key"),
        pytest.param(b"Content-Length: 3\r\nContent-Length: 3", id="a length twice"),
        pytest.param(b"Content-Type: application/json\r\ncontent-type: text/plain", id="a type twice"),
        pytest.param(b"User-Agent: a\r\nUser-Agent: a", id="an agent twice"),
        pytest.param(b"Content-Length: 3\r\nTransfer-Encoding: chunked", id="two framings"),
        pytest.param(b"Content-Length: +3", id="a length that is no number"),
        pytest.param(b"Content_Length: 3", id="a length by another spelling"),
        pytest.param(b"Transfer_Encoding: chunked", id="a coding by another spelling"),
        pytest.param(b"Transfer-Encoding: gzip, chunked", id="two codings"),
        pytest.param(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", id="a coding twice"),
        pytest.param("Transfer-Encoding: chun\u212aed".encode(), id="a coding with a Kelvin sign, in lower case a k"),
        pytest.param(b"Connection: close, x-secret", id="a field of one hop"),
        pytest.param(b"Upgrade: websocket", id="an upgrade"),
        pytest.param(b"Expect: 100-continue", id="an expectation"),
        pytest.param(b"Origin: https://a.example", id="an origin"),
        pytest.param(b"Gateway-Unheard-Of: 1", id="a field of ours that is not known"),
        pytest.param(b"Gateway-Dry-Run: true", id="a dry run"),
        pytest.param(b"Base-Url-Override: https://a.example", id="another origin"),
        pytest.param(b"Service-Worker: script", id="a service worker"),
        pytest.param(b"X-A: 1\r\n b", id="obs-fold"),
        pytest.param(b"X-A : 1", id="a space before the colon"),
        pytest.param(b"X-A", id="no colon"),
        pytest.param(b": 1", id="no name"),
        pytest.param(b"X-A: 1\n", id="a bare LF"),
        pytest.param(b"X-A: 1\r", id="a bare CR"),
        pytest.param(b"X-A: \x00", id="a control character"),
        pytest.param(b"X-A: \xff", id="no UTF-8"),
    ],
)
def test_lines_that_need_more_than_their_name_use_the_chain(more: bytes) -> None:
    reader = LineReader()
    for _ in range(2):
        assert reader.read(block(USUAL) + b"\r\n" + more) is None


CHECKED_VALUES = st.sampled_from(
    ["gw.example", "a b", "chunked", "gzip", "Chunked", "3", "7", f"Bearer {KEY}", "crm", "c1", "100-continue", "no"]
)


@given(st.lists(st.tuples(st.sampled_from(list(CHECKED.values())), CHECKED_VALUES), max_size=6))
def test_a_head_is_read_only_if_the_chain_admits_it(sent: list[tuple[str, str]]) -> None:
    """Fast path and middleware chain call `check_fields`. A field that the line reader does not pass on would not be
    checked.
    """
    if LineReader().read(block(sent)) is not None:
        check_head("GET", "/proxy", HttpVersion11, CIMultiDictProxy(CIMultiDict(sent)))


def test_the_line_reader_and_check_head_both_use_check_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """If `check_fields` refuses a field, both the line reader and `check_head` refuse the head."""

    def refuses(values: Mapping[str, Sequence[str]], *_: object) -> None:
        assert values["authorization"] == [f"Bearer {KEY}"]
        raise request_head.repeated_field_error("Host")

    monkeypatch.setattr(request_head, "check_fields", refuses)
    monkeypatch.setattr(request_lines, "check_fields", refuses)
    assert LineReader().read(block(USUAL)) is None
    with pytest.raises(InvalidRequest):
        check_head("GET", "/proxy", HttpVersion11, CIMultiDictProxy(CIMultiDict(USUAL)))


def test_white_space_around_a_value_is_removed() -> None:
    found = LineReader().read(block(USUAL) + b"\r\nX-A:1\r\nX-B: \t 2 \r\nX-C:\r\nX-D: a  b")
    assert found is not None
    assert passing(found) == [b"X-A: 1", b"X-B: 2", b"X-C: ", b"X-D: a  b"]


def test_a_field_that_contains_the_key_is_not_passed_on() -> None:
    found = LineReader().read(block([*USUAL, ("X-Api-Key", KEY), ("X-B", "1")]))
    assert found is not None
    assert passing(found) == [b"X-B: 1"]


CALL = b"Host: gw\r\nAuthorization: Bearer sk-of-a-stranger-%d\r\nProvider-Config-Key: a\r\nConnection-Id: b"


def test_values_of_unknown_callers_do_not_fill_the_memory() -> None:
    """The lines are parsed before the key is checked, so a stranger chooses their values."""
    reader = LineReader()
    for n in range(500):
        assert reader.read(CALL % n + b"\r\nRetry-On: %d%b" % (100 + n, b",429" * 3500)) is not None
    remembered = [part for parts in reader._options for part in parts if isinstance(part, bytes)]
    assert sum(map(len, remembered)) <= MAX_OPTION_BYTES


def test_names_of_unknown_callers_leave_room_for_others() -> None:
    reader = LineReader()
    for n in range(REMEMBERED):
        reader.read(b"X-%d: 1" % n)
    reader.forget()
    assert reader.read(CALL % 1 + b"\r\ntraceparent: 1") is not None
    assert b"traceparent" in reader._names
