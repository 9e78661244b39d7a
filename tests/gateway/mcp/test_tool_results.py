"""Responses as tool results: never truncated JSON, within the budget, and always valid to send."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.json_select import UnusableExpression, evaluate, growth, parse_expression, values_in
from gateway.mcp.tool_results import provider_result

JSON = "application/json; charset=utf-8"
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=20), inner, max_size=6),
    max_leaves=120,
)


def result(
    body: bytes, media_type: str = JSON, select: str | None = None, max_bytes: int = 1000, status: int = 200
) -> Any:
    return provider_result(
        status, "OK", media_type, body, None if select is None else parse_expression(select), max_bytes
    )


@given(_VALUES, st.integers(100, 600))
def test_the_shown_part_is_valid_json_within_the_limit(value: Any, max_bytes: int) -> None:
    body = json.dumps(value).encode()
    shaped = result(body, max_bytes=max_bytes)
    if "structuredContent" in shaped.result:
        text = shaped.result["content"][0]["text"]
        assert json.loads(text) == shaped.result["structuredContent"]
        assert len(text.encode()) <= max_bytes
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    assert shaped.is_partial is (len(compact) > max_bytes)
    assert shaped.is_partial or shaped.result["structuredContent"] == value


@given(st.binary(max_size=3000), st.sampled_from([JSON, "text/plain", "", "image/png", "application/xml"]))
def test_any_bytes_make_a_result_that_can_be_sent(body: bytes, media_type: str) -> None:
    shaped = result(body, media_type)
    json.dumps(shaped.result, ensure_ascii=False, allow_nan=False).encode()
    assert shaped.result["content"] or not body


@pytest.mark.parametrize(
    "body", [b"NaN", b"[NaN]", b'{"a":1e999}', b'{"a":', b"[" * 5000, b'["\\ud800"]', b'{"a":"\\udfff"}']
)
def test_invalid_json_is_shown_as_text_or_repaired(body: bytes) -> None:
    sent = json.dumps(result(body, max_bytes=100_000).result, ensure_ascii=False, allow_nan=False).encode()
    assert json.loads(sent)["content"]


def test_the_first_items_of_the_longest_list_are_shown() -> None:
    body = json.dumps({"next": "x", "few": [1], "many": ["y" * 50] * 100}).encode()
    shown = result(body).result["structuredContent"]
    assert (shown["next"], shown["few"]) == ("x", [1])
    assert 10 < len(shown["many"]) < 20


def test_an_object_without_a_list_shows_its_members_names() -> None:
    body = json.dumps({"a": "x" * 2000, "b": {"c": "y" * 2000}}).encode()
    shaped = result(body)
    assert shaped.result["structuredContent"] == {"members": ["a", "b"]}
    assert shaped.is_partial


def test_a_text_is_cut_between_characters() -> None:
    shaped = result("ä".encode() * 1000, "text/plain", max_bytes=101)
    assert shaped.result["content"][0]["text"] == "ä" * 50


def test_a_failed_selection_is_an_error_with_a_link_to_the_whole_response() -> None:
    shaped = result(b'{"a":1}', select="sum(a)")
    assert (shaped.result["isError"], shaped.is_partial) == (True, True)
    text = shaped.result["content"][0]["text"]  # a model that reads only of an error would repeat a write
    assert text.endswith(" The request was sent; the link has the whole response.")


@pytest.mark.parametrize(("select", "noted"), [("b", True), ("a.b", True), ("a", False), ("b || `[]`", False)])
def test_selection_without_a_match_is_reported(select: str, noted: bool) -> None:
    shaped = result(b'{"a":1}', select=select)
    assert ("'select' found nothing" in shaped.result["content"][-1]["text"]) is noted
    assert (shaped.result["isError"], shaped.is_partial) == (False, False)


def test_a_selected_value_that_json_does_not_have_is_a_fault_of_the_expression() -> None:
    for select in ("to_number('inf')", "{a: sum(n)}", "not_null(&a)", "[to_array(&n), n]"):
        body = b'{"n":[1e308,1e308],"long":"' + b"x" * 999 + b'"}'
        for expression in (select, f"[{select},long]"):  # the second result is cut
            shaped = provider_result(200, "OK", "application/json", body, parse_expression(expression), 999)
            assert shaped.result["isError"] is True
            assert "'select' gives infinity" in shaped.result["content"][0]["text"]


def test_an_error_of_the_provider_is_not_selected_from() -> None:
    shaped = result(b'{"why":"gone"}', select="issues", status=410)
    assert shaped.result["structuredContent"] == {"status": 410, "body": {"why": "gone"}}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (
            "issues[].{key: key, state: fields.status.name}",
            [{"key": "A", "state": "open"}, {"key": "B", "state": None}],
        ),
        ("issues[?fields.status.name=='open'].key", ["A"]),
        ("length(issues)", 2),
        ("sort_by(issues, &key)[-1].key", "B"),
        ("nothing.here", None),
        ("issues[:1].key", ["A"]),
        ("issues[::-1] | [0].key", "B"),
        ("map(&key, issues)", ["A", "B"]),
    ],
)
def test_ordinary_expressions_are_allowed(expression: str, value: Any) -> None:
    document = {"issues": [{"key": "A", "fields": {"status": {"name": "open"}}}, {"key": "B"}]}
    assert evaluate(parse_expression(expression), document, 10) == value


@pytest.mark.parametrize("expression", ["a[", "", "&&", "a" * 300 + "|", "foo(@)", "[" * 400])
def test_invalid_expression_is_reported(expression: str) -> None:
    with pytest.raises(UnusableExpression):
        evaluate(parse_expression(expression), {"a": 1}, 1)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("items[0", "it ends too early"),
        ("items[0].", "it ends too early"),
        ("$.items[0].id", "unknown token $, at column 0"),
        (".items[0].id", "unexpected '.' at column 0"),
        ("a b", "unexpected 'b' at column 2"),
        ("", "invalid JMESPath expression: cannot be empty"),
    ],
)
def test_an_invalid_expression_is_reported_with_the_place_and_an_example(expression: str, reason: str) -> None:
    with pytest.raises(UnusableExpression) as refused:
        parse_expression(expression)
    assert str(refused.value) == (
        f"'select' is not a JMESPath expression: {reason}. For example: issues[].{{key: key, state: fields.status.name}}"
    )


_EXPRESSIONS = st.recursive(
    st.sampled_from(["@", "a", "b", "[0]", "[]", "[*]", "*", "`1`"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"[{two[0]}, {two[1]}]"),
        st.tuples(inner, inner).map(lambda two: f"{{x: {two[0]}, y: {two[1]}}}"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) | ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) || ({two[1]})"),
        inner.map(lambda one: f"({one})[*]"),
        inner.map(lambda one: f"({one})[]"),
        inner.map(lambda one: f"map(&({one}), values({{p: @}}))"),
    ),
    max_leaves=8,
)


def count_values(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count_values, inner))


@given(_EXPRESSIONS, _VALUES)
@settings(max_examples=150)
def test_a_result_has_no_more_values_than_its_expression_may_make(expression: str, document: Any) -> None:
    try:
        found = parse_expression(expression)
        value = evaluate(found, document, values_in(json.dumps(document).encode()))
    except UnusableExpression:
        return
    nodes = len(expression)  # each step may wrap its input, which adds one value
    assert count_values(value) <= growth(found.parsed) * (count_values(document) + nodes)
