"""Which link leads to the next page, and how its URL is resolved."""

from collections.abc import Callable

import pytest

from gateway.http.paging.next_page import PageUrl, link_target, parse_page_url, resolve
from tests.fakes.scaling import linear_fault

PAGE = PageUrl("https", "api.example.com", 443, "/v1/issues?page=2")


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ('<https://a/?page=2>; rel="next"', "https://a/?page=2"),
        ('<https://a/1>; rel="prev", <https://a/3>; rel="next"', "https://a/3"),
        ("<https://a/3>;rel=next", "https://a/3"),
        ("<https://a/3> ; REL = NEXT", "https://a/3"),
        ('<https://a/3>; rel="last next"', "https://a/3"),
        ('<https://a/,;3>; title="a, \\"b\\"; rel=prev"; rel="next"', "https://a/,;3"),
        ('<https://a/1>; rel="prev"; rel="next"', None),
        ('<https://a/1>; rel="nextish"', None),
        ('<https://a/1>; rel="next"; anchor="https://b/"', None),
        ('<https://a/1>; rel="next"; results="false"; cursor="0:1:0"', None),
        ('<https://a/1>; rel="next"; results="true"; cursor="0:1:0"', "https://a/1"),
        ("", None),
        ("<https://a/1", None),
        ('title="<https://a/1>; rel=next"', None),
    ],
)
def test_the_link_with_the_relation_is_found(line: str, target: str | None) -> None:
    assert link_target("next", [line]) == target


def test_several_fields_are_one_list() -> None:
    assert link_target("Next", ['<https://a/1>; rel="prev"', '<https://a/3>; rel="next"']) == "https://a/3"


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("https://api.example.com/v1/issues?page=3", "https://api.example.com:443/v1/issues?page=3"),
        ("https://API.example.com:443/v1/issues/?a=%2F#top", "https://api.example.com:443/v1/issues/?a=%2F"),
        ("https://api.example.com", "https://api.example.com:443/"),
        ("https://api.example.com?x", "https://api.example.com:443/?x"),
        ("https://other.example.com:8443/x", "https://other.example.com:8443/x"),
        ("http://api.example.com/v1/issues?page=3", "https://api.example.com:443/v1/issues?page=3"),
        ("http://other.example.com/x", "http://other.example.com:80/x"),
        ("http://api.example.com:8080/x", "http://api.example.com:8080/x"),
        ("//api.example.com/x", "https://api.example.com:443/x"),
        ("/v2/other?page=3", "https://api.example.com:443/v2/other?page=3"),
        ("/issues?page=3", "https://api.example.com:443/v1/issues?page=3"),
        ("?page=3", "https://api.example.com:443/v1/issues?page=3"),
        ("issues?page=3", "https://api.example.com:443/v1/issues?page=3"),
        (" /v1/issues?q=a b&ü=é|x ", "https://api.example.com:443/v1/issues?q=a%20b&%C3%BC=%C3%A9|x"),
        ("/v1/issues?to=../x", "https://api.example.com:443/v1/issues?to=../x"),
    ],
)
def test_reference_is_resolved_to_a_url(reference: str, url: str) -> None:
    assert resolve(reference, PAGE).url == url


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "#top",
        "ftp://api.example.com/x",
        "javascript:alert(1)",
        "https://user@api.example.com/x",
        "https://api.example.com@evil.example/x",
        "https://127.1/x",
        "https://api.example.com\\@evil.example/",
        "https:///x",
        "https://api.example.com:99999/",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "../admin",
        "/v1\\..\\admin",
    ],
)
def test_ambiguous_reference_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        resolve(reference, PAGE)


def test_an_ipv6_host_keeps_its_brackets() -> None:
    assert parse_page_url("http://[::1]:8080/x").url == "http://[::1]:8080/x"


@pytest.mark.parametrize(
    "piece", ["<", '"\\', '"<', "<>", '<a>;x="', '<a>;x="\\', '<a>; rel="\\""; ', "<a>;;; ", '<a>;a=";b="']
)
def test_a_link_field_costs_time_in_proportion_to_its_length(piece: str) -> None:
    def work(size: int) -> Callable[[], object]:
        value = (piece * (size // len(piece) + 1))[:size]
        return lambda: link_target("next", [value])

    assert linear_fault(work, 65_536) == ""
