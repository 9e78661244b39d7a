import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.body_members import FORM, BodyMembers
from tests.fakes.scaling import linear_fault

MEMBERS = BodyMembers({"auth": {"key": "k&1"}}, {"version": 2, "auth": {"mode": "x"}})


def test_slots_replace_and_defaults_fill_members_at_any_depth() -> None:
    sent = {"auth": {"key": "forged", "mode": "mine"}, "q": "caf\u00e9"}
    assert json.loads(MEMBERS.add_to_body("application/json; charset=utf-8", json.dumps(sent).encode())) == {
        "version": 2,
        "auth": {"mode": "mine", "key": "k&1"},
        "q": "caf\u00e9",
    }


def test_a_form_has_nested_names_in_brackets() -> None:
    made = MEMBERS.add_to_body(FORM, b"auth%5Bkey%5D=forged&q=a+b&q=%ff&version=1")
    assert parse_qsl(made.decode(), encoding="latin-1") == [
        ("q", "a b"),
        ("q", "\xff"),
        ("version", "1"),
        ("auth[mode]", "x"),
        ("auth[key]", "k&1"),
    ]


@pytest.mark.parametrize("body", [b"[1]", b"not json", b'"text"', b""])
def test_body_that_is_not_an_object_is_unchanged(body: bytes) -> None:
    assert MEMBERS.add_to_body("application/vnd.api+json", body) == body


@pytest.mark.parametrize(
    ("method", "kind", "coding", "expected"),
    [
        ("POST", "application/json", "", True),
        ("PATCH", FORM, "", True),
        ("GET", "application/json", "", False),
        ("POST", "application/json", "gzip", False),
        ("POST", "multipart/form-data; boundary=x", "", False),
    ],
)
def test_members_are_added_only_to_json_and_form_bodies_without_coding(
    method: str, kind: str, coding: str, expected: bool
) -> None:
    assert MEMBERS.can_add_to(method, kind, coding) is expected


JSON = "application/json"
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4))
names = st.sampled_from(["auth", "key", "mode", "version", "q", "é", 'a"\\'])
trees = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(names, inner)), max_leaves=8
)
objects = st.dictionaries(names, trees, max_size=5)


def merged(base: Any, override: Any) -> Any:
    """Return `override` merged into `base`: objects in both are merged member by member."""
    if not (isinstance(base, dict) and isinstance(override, dict)):
        return override
    return {**base, **{name: merged(base[name], value) if name in base else value for name, value in override.items()}}


@given(slots=objects, defaults=objects, sent=objects, pretty=st.booleans(), plain=st.booleans())
def test_members_are_added_to_any_json_object(slots: Any, defaults: Any, sent: Any, pretty: bool, plain: bool) -> None:
    body = json.dumps(sent, indent=2 if pretty else None, ensure_ascii=plain).encode()
    made = BodyMembers(slots, defaults).add_to_body(JSON, body)
    assert json.loads(made) == merged(merged(defaults, sent), slots)


def test_duplicate_or_escaped_name_is_replaced_by_a_slot() -> None:
    body = b'{"q":1.50,"\\u0061uth":{"key":"forged","key":"again"},"auth":{"key":"forged"},"q":2e400}'
    made = BodyMembers({"auth": {"key": "k"}}).add_to_body(JSON, body)
    assert made == b'{"q":1.50,"q":2e400,"auth":{"key":"k"}}'


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_members_are_added_to_json_in_utf_16_and_utf_32(encoding: str) -> None:
    assert json.loads(BodyMembers({"a": 1}).add_to_body(JSON, '{"b":"é"}'.encode(encoding))) == {"a": 1, "b": "é"}


@pytest.mark.parametrize(
    "body", [b'{"a":1', b'{"a":1}x', b'{"a":\xff}', b'{"b":"\xff"}', b'{"a"}', b"{,}", b'{"a":1,}']
)
def test_body_that_is_not_json_is_unchanged(body: bytes) -> None:
    assert MEMBERS.add_to_body(JSON, body) == body


@pytest.mark.parametrize("kind", [JSON, FORM])
@pytest.mark.parametrize(
    "piece", [b'"a":1,', b'"a":{},', b"[", b"{", b'{"a":', b'"\\', b"&", b"a&", b"auth%5Bkey%5D=1&", b"=", b"%"]
)
def test_time_is_linear_in_the_length_of_the_body(kind: str, piece: bytes) -> None:
    def work(size: int) -> Callable[[], object]:
        body = (b"" if kind == FORM else b"{") + piece * (size // len(piece)) + (b"" if kind == FORM else b'"z":1}')
        return lambda: MEMBERS.add_to_body(kind, body)

    assert linear_fault(work, 1 << 18) == ""
