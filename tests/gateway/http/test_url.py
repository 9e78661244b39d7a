"""From the raw request target to the provider's: byte for byte, or refused."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.http.url import (
    ProxiedTarget,
    has_dot_segment,
    join_target,
    origin_form,
    parse_proxied_target,
    with_query,
    without_base,
)
from gateway.origin import parse_url

VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#\\"), max_size=40)


@given(VISIBLE, VISIBLE, st.sampled_from(["", "/v1", "/a%2Fb/c"]))
def test_path_and_query_are_joined_as_text(path: str, query: str, base: str) -> None:
    path = "/" + path.replace("?", "")
    if has_dot_segment(path):
        return
    rest = parse_proxied_target(f"/proxy{path}?{query}", "/proxy")
    assert join_target(base, rest) == f"{base}{path}?{query}"


@given(st.text(st.sampled_from("./%2eEfF5cC;a\\"), max_size=14))
def test_accepted_path_has_no_dot_segment_for_any_server(path: str) -> None:
    if has_dot_segment(path):
        return
    for segment in re.split(r"/|\\|%2f|%5c", path, flags=re.IGNORECASE):
        assert unquote(segment).split(";")[0] not in (".", "..")
        assert unquote(segment.split(";")[0]) not in (".", "..")


@pytest.mark.parametrize("path", ["/a/..%3bx/b", "/a/..%3B/b", "/%2e%2e%3b", "/.%3B", "/..;", "/a%2F..%5cb"])
def test_path_parameter_does_not_hide_a_dot_segment(path: str) -> None:
    assert has_dot_segment(path)


@pytest.mark.parametrize(
    "target", ["/%70roxy/x", "/proxyx", "/prox", "/PROXY/x", "proxy/x", "/proxy#x", "/proxy/a b", "/proxy/\x01", "*"]
)
def test_wrong_prefix_and_raw_bytes_are_refused(target: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_proxied_target(target, "/proxy")
    assert refusal.value.code == "bad_path"


def test_proxy_path_without_a_rest_means_the_base_path() -> None:
    assert join_target("/v1", parse_proxied_target("/proxy", "/proxy")) == "/v1"
    assert join_target("", parse_proxied_target("/proxy?x", "/proxy")) == "/?x"
    assert join_target("/v1", ProxiedTarget("/", "")) == "/v1/"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/https://api.example.com/v1/users", "/users"),
        ("/HTTPS://API.example.com:443/v1/a%2fb//c", "/a%2fb//c"),
        ("/https://api.example.com/v1", ""),
        ("/https://api.example.com/v1/", "/"),
        ("/https://api.example.com/v12/users", None),
        ("/https://api.example.com/V1/users", None),
        ("/https://api.example.com/users", None),
        ("/http://api.example.com/v1/users", None),
        ("/https://api.example.com:444/v1/users", None),
        ("/https://other.example.com/v1/users", None),
        ("/https://me@api.example.com/v1/users", None),
        ("/https:/api.example.com/v1/users", None),
        ("//https://api.example.com/v1/users", None),
        ("/x/https://api.example.com/v1/users", None),
        ("", None),
    ],
)
def test_an_absolute_url_below_the_base_counts_as_its_path(path: str, expected: str | None) -> None:
    rest = ProxiedTarget(path, "?q=https://api.example.com/v1")
    base = parse_url("https://api.example.com/v1/")
    assert without_base(rest, base) == (rest if expected is None else ProxiedTarget(expected, rest.query))


@pytest.mark.parametrize(
    ("target", "host", "expected"),
    [
        ("/x", "", "/x"),
        ("*", "gw", "*"),
        ("http://my_gw/x", "my_gw", "/x"),
        ("http://my_gw:80/x", "MY_GW", "/x"),
        ("http://my~gw/x", "my~gw", "/x"),
        ("http://gw/x", "gw", "/x"),
        ("http://GW:80/x?y", "gw", "/x?y"),
        ("http://gw", "gw:80", "/"),
        ("HTTP://gw?y", "gw", "/?y"),
    ],
)
def test_the_authority_of_an_absolute_target_is_removed(target: str, host: str, expected: str) -> None:
    assert origin_form(target, host) == expected


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("http://a/x", "b"),
        ("http://a/x", ""),
        ("http://u@gw/x", "gw"),
        ("ftp://gw/x", "gw"),
        ("gw:443", "gw:443"),
        ("http://gw:81/", "gw"),
    ],
)
def test_an_absolute_target_to_another_host_is_refused(target: str, host: str) -> None:
    with pytest.raises(InvalidRequest):
        origin_form(target, host)


def test_query_slots_replace_parameters_in_any_encoding_and_defaults_replace_none() -> None:
    assert with_query("/x", [("k", "1")], []) == "/x?k=1"
    assert with_query("/x?", [], [("k", "1")]) == "/x?k=1"
    assert with_query("/x?a=%2F&%6B=2&k&a=b+c", [("k", "1")], [("a", "9"), ("k", "3"), ("z", "5")]) == (
        "/x?a=%2F&a=b+c&k=1&z=5"
    )
    assert with_query("/x?&&=", [], []) == "/x?&&="
