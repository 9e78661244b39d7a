"""The body of a POST for each page: which parts change, and which bodies are refused."""

import json
import re
from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.http.paging.list_body import body_at, check_list_body, digest_of_body, first_body
from gateway.records.proxied_call import PagingScheme, Position

CURSOR = PagingScheme("cursor", cursor_path_in_response="next", cursor_name_in_request="page.after", in_body=True)
OFFSET = PagingScheme(
    "offset", offset_name_in_request="options.offset", limit_name_in_request="options.count", in_body=True
)
GRAPHQL = PagingScheme("graphql", cursor_name_in_request="variables.after", in_body=True)
QUERY = "query($after: String) { a(after: $after) { nodes { id } } }"
PAGES = PagingScheme("offset", offset_name_in_request="variables.page", offset_start_value=1, in_body=True)


def check(body: Any, *schemes: PagingScheme, kind: str = "application/json", coding: str = "") -> list[PagingScheme]:
    return check_list_body(body if isinstance(body, bytes) else json.dumps(body).encode(), kind, coding, schemes)


@pytest.mark.parametrize(
    ("path", "expected"),
    [('"x"', "x"), ("7", 7), ('[1,"a"]', [1, "a"]), ('{"k":{"n":1}}', {"k": {"n": 1}}), ('"\\u00fc"', "ü")],
)
def test_cursor_of_any_type_is_set_at_its_path(path: str, expected: Any) -> None:
    body = b'{"page":{"size":1.50,"after":"old"},"filter":{"a":[1,2]}}'
    written = body_at(body, Position(CURSOR, path))
    assert json.loads(written) == {"page": {"size": 1.5, "after": expected}, "filter": {"a": [1, 2]}}
    assert b"1.50" in written


def test_missing_parent_objects_are_created() -> None:
    assert json.loads(body_at(b'{"page":null}', Position(CURSOR, '"x"'))) == {"page": {"after": "x"}}
    assert json.loads(body_at(b"{}", Position(OFFSET, "20"))) == {"options": {"offset": 20}}


def test_separate_path_for_next_pages_gets_only_the_cursor() -> None:
    scheme = PagingScheme(
        "cursor", cursor_name_in_request="cursor", in_body=True, next_path_in_request="{path}/continue"
    )
    assert body_at(b'{"path":"/x"}', Position(scheme, '"c"')) == b'{"cursor":"c"}'


def test_the_first_body_has_the_page_size_and_the_first_offset() -> None:
    assert json.loads(first_body(b'{"a":1}', [OFFSET], 50)) == {"a": 1, "options": {"count": 50}}
    assert json.loads(first_body(b"{}", [PAGES], None)) == {"variables": {"page": 1}}
    assert first_body(b'{"variables":{"page":4}}', [PAGES], None) == b'{"variables":{"page":4}}'
    assert first_body(b"{}", [PAGES, CURSOR], None) == b"{}"  # which of the two rules applies is not known yet


def test_limit_without_a_member_for_it_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="limit_name_in_request is not known for this body"):
        first_body(b"{}", [CURSOR], 5)


def test_digest_depends_on_every_byte() -> None:
    assert digest_of_body(b"{}") != digest_of_body(b"{ }")
    assert re.fullmatch("[0-9a-f]{32}", digest_of_body(b"{}"))


@pytest.mark.parametrize(
    ("body", "kind", "coding"),
    [
        (b"", "application/json", ""),
        (b"[]", "application/json", ""),
        (b"{", "application/json", ""),
        (b'{"a":"\xff"}', "application/json", ""),
        (b"{}", "text/plain", ""),
        (b"{}", "application/json", "gzip"),
        (b'{"page":3}', "application/json", ""),
        (b'{"page":[]}', "application/json", ""),
        (b"{} {}", "application/json", ""),
    ],
)
def test_body_without_a_place_for_the_cursor_is_refused(body: bytes, kind: str, coding: str) -> None:
    with pytest.raises(ValueError, match="body"):
        check(body, CURSOR, kind=kind, coding=coding)


def test_other_json_media_types_are_accepted() -> None:
    assert check({}, CURSOR, kind="application/vnd.api+json; charset=utf-8") == [CURSOR]
    assert check({}, CURSOR, kind="") == [CURSOR]  # the entry's default is JSON


def test_graphql_query_decides_by_its_variables_which_paging_methods_remain() -> None:
    assert check({"query": "query($page: Int) { a }"}, GRAPHQL, PAGES) == [PAGES]
    assert check({"query": "query($page: Int, $after: String) { a }"}, GRAPHQL, PAGES) == [GRAPHQL, PAGES]
    with pytest.raises(ValueError, match=re.escape("$after or $page")):
        check({"query": "{ a }"}, GRAPHQL, PAGES)


@pytest.mark.parametrize(
    "query",
    [
        "query Q($after: String) { a } fragment F on A { b }",
        '# mutation\nquery($after: String = "mutation {") { a(b: {c: [1]}) @include(if: $x) { mutation } }',
        'query A($after: String) @d(x: "}") { a(s: """ \\""" } mutation B { """) }',
        "{ a(after: $after) { query mutation } }",
    ],
)
def test_queries_are_accepted_whatever_words_they_contain(query: str) -> None:
    assert check({"query": query}, GRAPHQL) == [GRAPHQL]


@pytest.mark.parametrize(
    "query",
    [
        "mutation($after: String) { a }",
        "query($after: String) { a } mutation M { b }",
        "query($after: String) { a }#\rmutation M { b }",
        'query($after: String) { a(s: "\\"") } mutation M { b }',
        'query($after: String) { a(s: """ \\""" """) } mutation M { b }',
        "subscription($after: String) { a }",
        "fragment F on A { b } mutation($after: String) { a }",
        '"what it does" mutation($after: String) { a }',
    ],
)
def test_document_with_a_mutation_is_refused(query: str) -> None:
    with pytest.raises(ValueError, match=r"mutation|subscription"):
        check({"query": query}, GRAPHQL)


@pytest.mark.parametrize("other", ["query", "qu\\u0065ry", "Query"])
@pytest.mark.parametrize("writes_first", [True, False])
def test_second_query_member_that_another_parser_may_use_is_refused(other: str, writes_first: bool) -> None:
    reads, writes = QUERY, "mutation($after: String) { a(after: $after) }"
    first, second = (writes, reads) if writes_first else (reads, writes)
    body = f'{{"query": "{first}", "{other}": "{second}", "x": [{{"query": 1}}, 1{"0" * 5000}]}}'
    with pytest.raises(ValueError, match=r"exactly one member named query|mutation"):
        check_list_body(body.encode(), "application/json", "", [GRAPHQL])


def test_nested_query_member_is_not_the_document() -> None:
    deep = '{"query": ' * 500 + "1" + "}" * 500
    body = f'{{"variables": {deep}, "query": "{QUERY}"}}'
    assert check_list_body(body.encode(), "application/json", "", [GRAPHQL]) == [GRAPHQL]


def test_document_with_unbalanced_brackets_is_refused() -> None:
    body = json.dumps({"query": QUERY + ") mutation M { b }"}).encode()
    with pytest.raises(ValueError, match="closes more"):
        check_list_body(body, "application/json", "", [GRAPHQL])
