"""Which header fields are forwarded: properties over arbitrary fields, and special cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.http.headers import (
    FOR_GATEWAY,
    FRAMING,
    HOP_BY_HOP,
    SITE_WIDE,
    Fields,
    MalformedResponse,
    decoded_fields,
    from_wire,
    normalized_name,
    request_fields,
    response_fields,
)

TOKENS = st.text("abcXYZ-_0.!", min_size=1, max_size=12)
HANDLED_NAMES = sorted(
    HOP_BY_HOP | FRAMING | FOR_GATEWAY | {"authorization", "nango-x", "gateway-y", "x-forwarded-for"}
)
NAMES = st.one_of(
    TOKENS,
    st.sampled_from(HANDLED_NAMES),
    st.sampled_from(HANDLED_NAMES).map(lambda name: name.replace("-", "_").upper()),
)
PROXY_NAMES = st.one_of(TOKENS, st.sampled_from(HANDLED_NAMES)).map(lambda name: f"Nango-Proxy-{name}")
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), max_size=12)
FIELDS = st.lists(st.tuples(st.one_of(NAMES, PROXY_NAMES), VALUES), max_size=12)


@given(FIELDS)
def test_gateway_fields_hop_by_hop_fields_and_framing_fields_are_never_sent(fields: Fields) -> None:
    for name, _ in request_fields(fields):
        spelled = normalized_name(name)
        assert spelled not in HOP_BY_HOP | FRAMING | FOR_GATEWAY
        assert not spelled.startswith(("nango-", "gateway-", "x-forwarded-"))


@given(st.lists(st.tuples(TOKENS, VALUES), max_size=12))
def test_other_fields_are_forwarded_unchanged(fields: Fields) -> None:
    kept = [field for field in fields if normalized_name(field[0]) not in HOP_BY_HOP | FRAMING | FOR_GATEWAY]
    assert request_fields(fields) == kept


@given(FIELDS, st.lists(TOKENS, min_size=1, max_size=3))
def test_fields_named_by_connection_are_not_forwarded(fields: Fields, names: list[str]) -> None:
    forwarded = request_fields([*fields, ("Connection", ", ".join(names))])
    assert {normalized_name(name) for name, _ in forwarded}.isdisjoint({normalized_name(name) for name in names})


def test_authorization_is_forwarded_only_as_nango_proxy_authorization() -> None:
    assert request_fields([("Authorization", "ours"), ("Nango-Proxy-Authorization", "theirs")]) == [
        ("Authorization", "theirs")
    ]


def test_added_credential_field_replaces_the_callers_and_may_be_repeated() -> None:
    fields = [("a", "1"), ("Nango-Proxy-A", "2"), ("A", "3"), ("nango-proxy-a", "4"), ("b", "5")]
    assert request_fields(fields) == [("A", "2"), ("a", "4"), ("b", "5")]


def test_error_names_every_field_that_cannot_be_forwarded() -> None:
    fields = from_wire(((b"X-A", b"\x01"), (b"X-B", b"\xe9"), (b"X-C", b"a\rb")))
    with pytest.raises(InvalidRequest) as refusal:
        request_fields(fields)
    assert refusal.value.code == "invalid_headers"
    assert [issue.path for issue in refusal.value.errors] == [("x-a",), ("x-c",)]


@given(st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=8)), max_size=4))
def test_field_bytes_survive_decoding(raw: list[tuple[bytes, bytes]]) -> None:
    encoded = [
        (n.encode("utf-8", "surrogateescape"), v.encode("utf-8", "surrogateescape")) for n, v in from_wire(tuple(raw))
    ]
    assert encoded == raw


@given(st.lists(st.tuples(st.one_of(TOKENS, st.sampled_from(sorted(SITE_WIDE))), VALUES), max_size=12))
def test_other_response_fields_pass_in_order(fields: Fields) -> None:
    dropped = SITE_WIDE | HOP_BY_HOP | FRAMING
    assert response_fields(fields) == [field for field in fields if normalized_name(field[0]) not in dropped]


@pytest.mark.parametrize("value", ["a\rb", "a\nb", "a\0b", "\x7f"])
def test_response_field_with_control_characters_is_refused(value: str) -> None:
    with pytest.raises(MalformedResponse):
        response_fields([("X", value)])


def test_decoding_removes_the_digests_of_the_coded_bytes() -> None:
    coded = [
        ("Content-Encoding", "gzip"),
        ("ETag", '"a"'),
        ("Content-MD5", "x"),
        ("Accept-Ranges", "bytes"),
        ("K", "v"),
    ]
    assert decoded_fields(coded) == [("ETag", 'W/"a"'), ("K", "v"), ("Vary", "Accept-Encoding")]
    assert decoded_fields([("ETag", 'W/"a"')])[0] == ("ETag", 'W/"a"')


@pytest.mark.parametrize("name", ["X-Api-Key", "Authorzation", "Nango-Proxy-X-Key", "Cookie"])
def test_callers_key_is_not_forwarded_under_any_name(name: str) -> None:
    key = "sk-0123456789abcdef"
    received = [("Authorization", f"Bearer {key}"), (name, f"a={key}; b"), ("X-Short", "sk-0123")]
    assert request_fields(received) == [("X-Short", "sk-0123")]


def test_too_short_key_removes_no_other_field() -> None:
    assert request_fields([("Authorization", "Bearer a"), ("Accept", "application/json")]) == [
        ("Accept", "application/json")
    ]


def test_provider_cannot_set_the_gateways_cookies() -> None:
    values = ("gw-console=x", "=gw-console=x", "= gw-x", "\t=__Host-gw-connect=x", "a=gw-x")
    received = [("Set-Cookie", value) for value in values]
    assert response_fields(received, set_cookie=True) == [("Set-Cookie", "a=gw-x")]


@pytest.mark.parametrize(
    "name", ["X-Accel-Redirect", "X-Sendfile", "X-Lighttpd-Send-Tempfile", "X-LiteSpeed-Location", "X-Reproxy-URL"]
)
def test_fields_that_control_the_reverse_proxy_are_removed(name: str) -> None:
    assert response_fields([(name, "/internal"), ("ETag", "x")]) == [("ETag", "x")]
