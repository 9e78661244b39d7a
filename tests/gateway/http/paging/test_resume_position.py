"""A position can be stored as text, belongs to one call, and is sent only to get its page."""

import json

import pytest
from multidict import CIMultiDict

from gateway.http.paging.resume_position import (
    ForbiddenPageOrigin,
    decode_position,
    digest_of_request,
    encode_position,
    point_at_page,
    set_query,
)
from gateway.records.proxied_call import PagingScheme, Position, UpstreamRequest

CURSOR = PagingScheme("cursor", cursor_path_in_response="next", cursor_name_in_request="page[after]")
ORIGINS = {"https://api.example.com:443", "https://files.example.com:443"}


def upstream(target: str = "/v1/list?x=%2F&page%5Bafter%5D=old&y=") -> UpstreamRequest:
    return UpstreamRequest("GET", "https", "api.example.com", 443, target, CIMultiDict(), "/v1")


@pytest.mark.parametrize(
    "position",
    [
        Position(CURSOR, 'a"é😀'),
        Position(PagingScheme("offset", offset_name_in_request="start", offset_start_value=0), "100"),
        Position(PagingScheme("link", link_rel_in_response_header="next"), "https://api.example.com:443/x"),
    ],
)
def test_position_survives_encoding(position: Position) -> None:
    assert decode_position(encode_position(position, "d"), "d") == position


def test_position_is_valid_for_one_call_only() -> None:
    with pytest.raises(ValueError, match="belongs to another request"):
        decode_position(
            encode_position(Position(CURSOR, "a"), digest_of_request("dev", "jira", "u1")),
            digest_of_request("dev", "jira", "u2"),
        )


def test_digests_of_different_calls_differ() -> None:
    assert digest_of_request("ab", "c") != digest_of_request("a", "bc")


@pytest.mark.parametrize("change", [{"v": 2}, {"way": {"type": "cursor", "colour": "red"}}])
def test_position_of_another_version_is_reported(change: dict[str, object]) -> None:
    body = json.loads(encode_position(Position(CURSOR, "a"), "d")) | change
    with pytest.raises(ValueError, match="another version"):
        decode_position(json.dumps(body), "d")


def test_cursor_replaces_the_previous_one_and_nothing_else_changes() -> None:
    request = upstream()
    point_at_page(request, Position(CURSOR, "a/b c&d=é"), ORIGINS)
    assert request.target == "/v1/list?x=%2F&y=&page%5Bafter%5D=a%2Fb%20c%26d%3D%C3%A9"


def test_link_is_followed_only_to_allowed_origins() -> None:
    scheme = PagingScheme("link", link_rel_in_response_header="next")
    request = upstream()
    point_at_page(request, Position(scheme, "https://files.example.com:443/v1/list?p=2"), ORIGINS)
    assert (request.url, request.base_path) == ("https://files.example.com:443/v1/list?p=2", "/v1")
    point_at_page(request, Position(scheme, "https://api.example.com:443/other"), ORIGINS)
    assert (request.url, request.base_path) == ("https://api.example.com:443/other", "")
    for elsewhere in (
        "https://api.example.com.evil.example/x",
        "http://api.example.com/x",
        "https://api.example.com:8443/",
    ):
        with pytest.raises(ForbiddenPageOrigin):
            point_at_page(request, Position(scheme, elsewhere), ORIGINS)


def test_query_is_added_if_there_is_none() -> None:
    request = upstream("/v1/list")
    set_query(request, "$top", "5")
    assert request.target == "/v1/list?%24top=5"
