"""Which records a page contains, and where the next page is, for each pagination type."""

import json
from typing import Any

import pytest

from gateway.errors import UpstreamFailed
from gateway.http.headers import Fields
from gateway.http.paging.next_page import PageResult, PageUrl, choose_scheme, offset_of, parse_page, read_page
from gateway.http.paging.page_document import PageDocument
from gateway.records.proxied_call import PagingScheme

CURSOR = PagingScheme("cursor", cursor_path_in_response="next", cursor_name_in_request="after", response_path="items")
LINK = PagingScheme("link", link_path_in_response_body="links.next", response_path="items")
HEADER = PagingScheme("link", link_rel_in_response_header="next")
OFFSET = PagingScheme(
    "offset", offset_name_in_request="start", response_path="items", offset_calculation_method="by-response-size"
)
PAGES = PagingScheme(
    "offset", offset_name_in_request="page", offset_start_value=1, offset_calculation_method="per-page"
)


def read(scheme: PagingScheme, page: Any, *, target: str = "/v1/list", headers: Fields | None = None) -> PageResult:
    content = page if isinstance(page, bytes) else json.dumps(page).encode()
    return read_page(PageDocument(content), headers or [], scheme, PageUrl("https", "api.example.com", 443, target))


def next_at(scheme: PagingScheme, page: Any, **extra: Any) -> str | None:
    result = read(scheme, page, **extra)
    assert result.next_page_fault is None
    return None if result.next is None else result.next.at


@pytest.mark.parametrize(
    ("cursor_member", "cursor"),
    [
        ({"next": "abc"}, "abc"),
        ({"next": 12345678901234567890}, "12345678901234567890"),
        ({"next": 0}, "0"),
        ({"next": ""}, None),
        ({"next": None}, None),
        ({"next": False}, None),
        ({}, None),
    ],
)
def test_cursor_is_sent_back_unchanged(cursor_member: dict[str, Any], cursor: str | None) -> None:
    assert next_at(CURSOR, {"items": [1], **cursor_member}) == cursor


@pytest.mark.parametrize("cursor", [["a"], {"a": 1}, True, "\ud800"])
def test_unusable_cursor_is_reported_and_the_records_are_kept(cursor: Any) -> None:
    result = read(CURSOR, {"items": [1, 2], "next": cursor})
    assert (len(result.records), result.next) == (2, None)
    assert result.next_page_fault is not None
    assert result.next_page_fault.code == "page_unreadable"


def test_cursor_may_be_a_field_of_the_last_record() -> None:
    scheme = PagingScheme(
        "cursor",
        cursor_path_in_response="data.-1.id",
        cursor_name_in_request="starting_after",
        response_path="data",
        has_more_path_in_response="has_more",
    )
    assert next_at(scheme, {"data": [{"id": "a"}, {"id": "b"}], "has_more": True}) == "b"
    assert next_at(scheme, {"data": [{"id": "a"}, {"id": "b"}], "has_more": False}) is None
    assert next_at(scheme, {"data": [], "has_more": False}) is None
    result = read(scheme, {"data": [], "has_more": True})
    assert result.next_page_fault is not None
    assert "says that more records follow (has_more), but not where" in result.next_page_fault.message


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ("https://api.example.com/v1/list?c=2", "https://api.example.com:443/v1/list?c=2"),
        ("/v1/list?c=2", "https://api.example.com:443/v1/list?c=2"),
        ("?c=2", "https://api.example.com:443/v1/list?c=2"),
        (None, None),
        ("", None),
    ],
)
def test_a_link_in_the_body_is_resolved(link: str | None, url: str | None) -> None:
    assert next_at(LINK, {"items": [1], "links": {"next": link}}) == url


def test_a_link_in_the_header_is_resolved() -> None:
    headers = [
        ("link", '<https://api.example.com/v1/list?page=1>; rel="prev"'),
        ("Link", '</v1/list?page=3>; rel="next"'),
    ]
    assert next_at(HEADER, [1], headers=headers) == "https://api.example.com:443/v1/list?page=3"
    assert next_at(HEADER, [1], headers=headers[:1]) is None


def test_invalid_next_url_is_refused_after_its_page() -> None:
    result = read(LINK, {"items": [1], "links": {"next": "ftp://x/"}})
    assert len(result.records) == 1
    assert result.next_page_fault is not None
    assert result.next_page_fault.code == "next_page_refused"


def test_offset_counts_records_or_pages_from_the_requested_one() -> None:
    assert next_at(OFFSET, {"items": [1, 2]}) == "2"
    assert next_at(OFFSET, {"items": [1, 2]}, target="/v1/list?start=7&x=1") == "9"
    assert next_at(PAGES, [1, 2]) == "2"
    assert next_at(PAGES, [1, 2], target="/v1/list?page=4") == "5"
    assert offset_of(PAGES, PageUrl("https", "api.example.com", 443, "/v1/list?page=x")) == 1


def test_empty_page_ends_an_offset_list_and_a_short_page_does_not() -> None:
    assert next_at(OFFSET, {"items": [1]}, target="/v1/list?start=100&limit=50") == "101"
    assert next_at(OFFSET, {"items": []}, target="/v1/list?start=101") is None


def test_has_more_flag_decides_whether_an_offset_list_continues() -> None:
    by_page = PagingScheme("offset", offset_name_in_request="page", response_path="items", offset_calculation_method="per-page",
                  has_more_path_in_response="more")  # fmt: skip
    assert next_at(by_page, {"items": [1], "more": False}) is None
    assert next_at(by_page, {"items": [1], "more": 0}) is None
    assert next_at(by_page, {"items": [], "more": True}, target="/l?page=3") == "4"
    by_size = PagingScheme(
        "offset", offset_name_in_request="start", response_path="items", has_more_path_in_response="more"
    )
    result = read(by_size, {"items": [], "more": True})
    assert result.next_page_fault is not None


@pytest.mark.parametrize(
    ("path", "page", "names"),
    [
        ("nope", {"items": [1]}, "no array at 'nope'. It has arrays under: items"),
        ("items", {"items": None}, "no array at 'items'"),
        ("items", {"items": {"a": 1}}, "no array at 'items'"),
        (None, {"a": [1], "b": [2]}, "arrays under: a, b"),
        (None, {"a": [{}], "b": [{}]}, "arrays under: a, b"),
        (None, {"error": "ratelimited"}, "no array that could be the records"),
        (None, "text", "no array that could be the records"),
    ],
)
def test_missing_records_are_reported_with_the_arrays_of_the_page(path: str | None, page: Any, names: str) -> None:
    with pytest.raises(UpstreamFailed, match=r".+") as raised:
        read(PagingScheme("offset", offset_name_in_request="o", response_path=path), page)
    assert raised.value.code == "page_unreadable"
    assert names in raised.value.message
    assert "response_path=" in raised.value.message


@pytest.mark.parametrize(
    ("page", "count", "found_path"),
    [
        ([1, 2], 2, None),
        ({"ok": True, "members": [{}]}, 1, "members"),
        ({"warnings": ["x"], "channels": [{}, {}]}, 2, "channels"),
        ({"warnings": [], "channels": []}, 0, None),
        ({"kind": "list", "items": []}, 0, None),
        ({}, 0, None),
    ],
)
def test_only_list_is_used_if_no_path_is_given(page: Any, count: int, found_path: str | None) -> None:
    result = read(PagingScheme("offset", offset_name_in_request="o"), page)
    assert (len(result.records), result.scheme.response_path) == (count, found_path)
    if result.next is not None:
        assert result.next.scheme.response_path == found_path


def test_path_found_on_the_first_page_is_used_for_later_pages() -> None:
    first = read(PagingScheme("offset", offset_name_in_request="o"), {"members": [{}]})
    assert first.next is not None
    with pytest.raises(UpstreamFailed, match="no array at 'members'"):
        read(first.next.scheme, {"others": [{}]})


@pytest.mark.parametrize(
    ("page", "headers", "chosen"),
    [
        ({"items": [1], "next": "x"}, [], 0),
        ({"items": [1]}, [], 0),
        ({"items": [1], "links": {"next": None}}, [], 1),
        ({"items": [1], "start": 0, "total": 5}, [], 2),
        ([1], [("Link", '</x>; rel="next"')], 3),
        ([1], [], 3),
        ({"values": [1]}, [], 3),
    ],
)
def test_first_page_decides_between_pagination_methods(page: Any, headers: Fields, chosen: int) -> None:
    schemes = [CURSOR, LINK, OFFSET, HEADER]
    assert choose_scheme(PageDocument(json.dumps(page).encode()), headers, schemes) is schemes[chosen]


def test_page_is_parsed_in_one_call() -> None:
    result = parse_page(b'{"items": [1.0], "next": "n"}', [], [HEADER, CURSOR], PageUrl("http", "h", 80, "/"))
    assert (list(result.records), result.next and result.next.at) == ([b"1.0"], "n")
