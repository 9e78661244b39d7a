import json
from urllib.parse import parse_qsl

import pytest

from gateway.wire.body_members import FORM, BodyMembers

MEMBERS = BodyMembers({"auth": {"key": "k&1"}}, {"version": 2, "auth": {"mode": "x"}})


def test_slots_replace_and_defaults_stand_in_at_any_depth() -> None:
    sent = {"auth": {"key": "forged", "mode": "mine"}, "q": "caf\u00e9"}
    assert json.loads(MEMBERS.put_into("application/json; charset=utf-8", json.dumps(sent).encode())) == {
        "version": 2,
        "auth": {"mode": "mine", "key": "k&1"},
        "q": "caf\u00e9",
    }


def test_a_form_has_nested_names_in_brackets() -> None:
    made = MEMBERS.put_into(FORM, b"auth%5Bkey%5D=forged&q=a+b&q=%ff&version=1")
    assert parse_qsl(made.decode(), encoding="latin-1") == [
        ("q", "a b"),
        ("q", "\xff"),
        ("version", "1"),
        ("auth[mode]", "x"),
        ("auth[key]", "k&1"),
    ]


@pytest.mark.parametrize("body", [b"[1]", b"not json", b'"text"', b""])
def test_what_is_no_object_stays_as_it_is(body: bytes) -> None:
    assert MEMBERS.put_into("application/vnd.api+json", body) == body


@pytest.mark.parametrize(
    ("method", "kind", "coding", "fits"),
    [
        ("POST", "application/json", "", True),
        ("PATCH", FORM, "", True),
        ("GET", "application/json", "", False),
        ("POST", "application/json", "gzip", False),
        ("POST", "multipart/form-data; boundary=x", "", False),
    ],
)
def test_only_bodies_that_can_be_read_are_touched(method: str, kind: str, coding: str, fits: bool) -> None:
    assert MEMBERS.fit(method, kind, coding) is fits
