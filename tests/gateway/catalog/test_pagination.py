"""The pagination methods that may apply: by the entry, by the path, by the query, and by the caller's header."""

from dataclasses import fields
from typing import Any

import pytest

from gateway.catalog.pagination import InvalidPagination, PaginationOptions, applies_to_path, paging_schemes
from gateway.catalog.provider_parts import Paginate
from gateway.records.proxied_call import PagingScheme

CURSOR = Paginate(type="cursor", cursor_path_in_response="next", cursor_name_in_request="after", response_path="items")
OFFSET = Paginate(type="offset", offset_name_in_request="startAt", response_path="values", applies_to="old resources")
SEARCH = Paginate(
    type="link", link_rel_in_response_header="next", response_path="found", applies_to="/search/…",
    limit_name_in_request="per_page",
)  # fmt: skip
ALTERNATIVES = (OFFSET, SEARCH)


def schemes_for(
    path: str = "/x", query: tuple[str, ...] = (), paginate: Paginate | None = CURSOR, **fields: str
) -> list[PagingScheme]:
    return paging_schemes(paginate, ALTERNATIVES if paginate else (), PaginationOptions(path, query, fields))


def types(*found: PagingScheme) -> list[str]:
    return [scheme.type for scheme in found]


def test_every_paginate_field_of_an_entry_is_used() -> None:
    assert {field.name for field in fields(PagingScheme)} == set(Paginate.model_fields) - {"applies_to", "note"}


def test_without_a_hint_all_schemes_may_apply_and_the_one_of_the_catalog_entry_is_first() -> None:
    assert types(*schemes_for()) == ["cursor", "offset", "link"]


def test_alternative_for_the_path_is_chosen() -> None:
    assert types(*schemes_for("/search/issues")) == ["link"]


def test_parameter_of_the_caller_selects_the_rule() -> None:
    assert types(*schemes_for(query=("startAt", "x"))) == ["offset"]
    assert types(*schemes_for(query=("after",))) == ["cursor"]


def test_type_in_the_callers_header_selects_the_method() -> None:
    assert schemes_for(type="offset") == [
        PagingScheme("offset", offset_name_in_request="startAt", response_path="values")
    ]


def test_the_callers_fields_override_the_entrys() -> None:
    overridden = schemes_for(response_path="threads")
    assert [scheme.response_path for scheme in overridden] == ["threads"] * 3
    assert types(*overridden) == ["cursor", "offset", "link"]
    assert schemes_for("/search/x", limit_name_in_request="n")[0].limit_name_in_request == "n"
    assert schemes_for(type="cursor", response_path="")[0].response_path is None


def test_complete_header_fields_replace_the_entrys() -> None:
    alone = schemes_for(type="offset", offset_name_in_request="skip")
    assert alone == [PagingScheme("offset", offset_name_in_request="skip")]


@pytest.mark.parametrize("paginate", [None, CURSOR])
def test_without_an_entry_only_the_header_describes_the_pages(paginate: Paginate | None) -> None:
    result: dict[str, str] = {
        "type": "offset",
        "offset_name_in_request": "page",
        "offset_start_value": "1",
        "offset_calculation_method": "per-page",
        "limit_name_in_request": "size",
        "response_path": "a.b",
    }
    expected: dict[str, Any] = {**result, "offset_start_value": 1}
    assert schemes_for(paginate=paginate, **result) == [PagingScheme(**expected)]


def test_a_field_name_may_be_shortened_at_an_underscore() -> None:
    cut = schemes_for(paginate=None, type="cursor", cursor_path="n", cursor_name="c", has_more="m", limit_name="l")
    assert cut == [
        PagingScheme(
            "cursor",
            cursor_path_in_response="n",
            cursor_name_in_request="c",
            has_more_path_in_response="m",
            limit_name_in_request="l",
        )
    ]


@pytest.mark.parametrize(
    ("result", "faults"),
    [
        ({}, ["does not say how to request the next page, and neither does the provider's catalog entry"]),
        ({"response_path": "x"}, ["no type; add type=cursor, link, offset or graphql"]),
        ({"type": "cursor"}, ["no cursor_path_in_response", "no cursor_name_in_request"]),
        ({"type": "link"}, ["no link_rel_in_response_header or link_path_in_response_body"]),
        ({"type": "offset"}, ["no offset_name_in_request"]),
        ({"type": "round"}, ["has type: "]),
        (
            {"type": "offset", "offset_name": "o", "offset_start": "x", "offset_calculation": "y"},
            ["has offset_start_value: ", "has offset_calculation_method: "],
        ),
        ({"curser_path": "x"}, ["no field curser_path; its fields are cursor_path_in_response"]),
        ({"cursor": "x"}, ["no field cursor; its fields are cursor_path_in_response, cursor_name_in_request"]),
        ({"applies_to": "x"}, ["no field applies_to"]),
        (
            {"type": "link", "link_rel": "a", "link_rel_in_response_header": "b"},
            ["has link_rel_in_response_header twice"],
        ),
    ],
)
def test_every_fault_is_reported(result: dict[str, str], faults: list[str]) -> None:
    with pytest.raises(InvalidPagination) as wrong:
        schemes_for(paginate=None, **result)
    assert len(wrong.value.faults) == len(faults)
    for expected, fault in zip(faults, wrong.value.faults, strict=True):
        assert expected in fault


def test_incomplete_alternative_is_ignored() -> None:
    halves = (Paginate(type="offset"), Paginate(type="link", link_rel_in_response_header="next"))
    assert types(*paging_schemes(CURSOR, halves, PaginationOptions("/", (), {}))) == ["cursor", "link"]
    with pytest.raises(InvalidPagination, match="no offset_name_in_request"):
        paging_schemes(None, halves[:1], PaginationOptions("/", (), {}))


@pytest.mark.parametrize(
    ("applies_to", "path", "means"),
    [
        ("/search/…", "/search/issues", True),
        ("/search/...", "/search/", True),
        ("/search/*", "/searching", False),
        ("/users/me/threads", "/users/me/threads", True),
        ("/users/me/threads", "/users/me/threads/", True),
        ("/users/me/threads", "/users/me/threads/1", False),
        ("/repos/{owner}/{repo}/issues", "/repos/a/b/issues", True),
        ("/repos/{owner}/{repo}/issues", "/repos/a/issues", False),
        ("offset-style resources such as /x", "/x", False),
        ("/x and others", "/x and others", False),
        ("/a.b", "/aXb", False),
    ],
)
def test_alternative_applies_to_a_path_or_is_only_described(applies_to: str, path: str, means: bool) -> None:
    assert applies_to_path(applies_to, path) is means
