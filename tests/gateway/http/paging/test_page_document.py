"""Records are extracted from a page unchanged, and single values are found by their paths."""

import json
from typing import Any

import pytest

from gateway.errors import UpstreamFailed
from gateway.http.paging import page_document as module
from gateway.http.paging.page_document import NonScalar, PageDocument, Records
from tests.fakes.scaling import linear_fault


def records(page: str | bytes, path: str = "") -> list[bytes]:
    found = PageDocument(page.encode() if isinstance(page, str) else page).records(path)
    assert isinstance(found, Records)
    return list(found)


@pytest.mark.parametrize(
    "record",
    [
        '{"n":1.0}',
        '{"n":1e400,"m":-0}',
        '{"n":123456789012345678901234567890}',
        '{"a":1,"a":2}',
        '{"s":"\\u00e9 \\ud83d\\ude00 \\/"}',
        '{"s":"é 😀  "}',
        "1.50",
        '"text"',
        "null",
        "[1, [2]]",
    ],
)
def test_record_keeps_its_bytes(record: str) -> None:
    assert records(f"[{record}]") == [record.encode()]
    assert records(f' {{"x": 1, "items" : [ {record} , {record} ] }} ', "items") == [record.encode()] * 2


def test_only_line_breaks_are_removed_from_a_record() -> None:
    value = {"a": [1, {"b": "x\ny"}], "c": None}
    lines = records(json.dumps([value, value], indent=2).replace("\n", "\r\n"))
    assert all(b"\n" not in line and b"\r" not in line for line in lines)
    assert [json.loads(line) for line in lines] == [value, value]


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("a.b", '{"a": {"b": [1]}}'),
        ("a.1.b", '{"a": [0, {"b": [1]}]}'),
        ("-1", "[[0], [1]]"),
        ("a.-1", '{"a": [0, [1]]}'),
        ("@odata.value", '{"@odata.value": [1]}'),
        ("x.@odata.value", '{"x": {"@odata.value": [1]}}'),
        ("a.b", '{"a": 5, "a.b": [1]}'),
        ("é", '{"é": [1]}'),
        ("é", '{"\\u00e9": [1]}'),
        ("a", '{"a": [0], "a": [1]}'),
    ],
)
def test_path_may_have_objects_array_indexes_and_names_with_dots(path: str, page: str) -> None:
    assert records(page, path) == [b"1"]


@pytest.mark.parametrize(
    ("path", "page", "odd"),
    [
        ("a", "{}", NonScalar.MISSING),
        ("a.b", '{"a": 1}', NonScalar.MISSING),
        ("a.5", '{"a": [1]}', NonScalar.MISSING),
        ("a.-2", '{"a": [1]}', NonScalar.MISSING),
        ("a", '{"a": null}', NonScalar.CONTAINER),
        ("", "{}", NonScalar.CONTAINER),
    ],
)
def test_missing_path_and_non_array_are_distinguished(path: str, page: str, odd: NonScalar) -> None:
    assert PageDocument(page.encode()).records(path) is odd


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("next", "a\nb"),
        ("number", "12345678901234567890"),
        ("float", "1.50"),
        ("more", True),
        ("none", None),
        ("list", NonScalar.CONTAINER),
        ("list.-1.id", "9"),
        ("list.0.id", "8"),
        ("nowhere", NonScalar.MISSING),
        ("list.7.id", NonScalar.MISSING),
        ("é.ü", "ö😀"),
    ],
)
def test_single_value_is_read_and_a_number_keeps_its_digits(path: str, value: Any) -> None:
    page = (
        '{"next": "a\\nb", "number": 12345678901234567890, "float": 1.50, "more": true, "none": null, '
        '"list": [{"id": 8}, {"id": 9}], "é": {"ü": "ö\\ud83d\\ude00"}}'
    )
    for before in (False, True):
        document = PageDocument(page.encode())
        if before:
            document.records("list")
        assert document.value(path) == value


def test_arrays_returns_the_direct_members_by_name() -> None:
    found = PageDocument(b'{"a": [], "b": 1, "c": [{"x": [1]}], "d": {"e": []}}').arrays()
    assert {name: len(records) for name, records in found.items()} == {"a": 0, "c": 1}
    assert PageDocument(b"[1]").arrays() == {}


@pytest.mark.parametrize(
    "page", [b"", b"  ", b"<html>", b"[1,]", b"[1] 2", b'{"a":[1]', b'{"a":[1],"b":NaN}', b"[1,2", b'{"a" [1]}', b"{,}"]
)
def test_invalid_json_is_refused(page: bytes) -> None:
    for path in ("", "a"):
        with pytest.raises(UpstreamFailed, match="not JSON from byte") as refused:
            PageDocument(page).records(path)
        assert refused.value.code == "page_unreadable"


@pytest.mark.parametrize("page", [b'["\xff"]', b'["\xc3"]', b'["\xed\xa0\x80"]'])
def test_page_that_is_not_utf8_is_refused(page: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="UTF-8"):
        PageDocument(page)


def test_byte_order_mark_is_skipped() -> None:
    assert records(b"\xef\xbb\xbf[1]") == [b"1"]


def test_number_of_records_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 3)
    assert len(records("[1,2,3]")) == 3
    with pytest.raises(UpstreamFailed, match="smaller pages") as refused:
        records("[1,2,3,4]")
    assert refused.value.code == "page_too_large"


def test_number_of_members_on_a_path_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMBERS", 4)
    assert PageDocument(b'{"a":{"b":1,"c":2},"f":3}').value("a.b") == "1"
    flat = b'[{"a":1,"b":2,"c":3,"d":4,"e":5}]'
    assert len(records(flat)) == 1
    for page, path in ((flat, "0.a"), (b'{"a":{"b":1,"c":{"d":1,"e":2}}}', "a.c.d")):
        with pytest.raises(UpstreamFailed, match="smaller pages") as refused:
            PageDocument(page).value(path)
        assert refused.value.code == "page_too_large"


@pytest.mark.parametrize("step", ["a.", ".", "0.", "x."])
def test_time_is_linear_in_the_length_of_the_path(step: str) -> None:
    page = json.dumps({f"member {number}": [] for number in range(20)} | {"a": 1}).encode()

    def work(size: int) -> Any:
        path = step * (size // len(step))
        return lambda: PageDocument(page).value(path)

    assert linear_fault(work, 16_384) == ""


def test_an_empty_step_is_an_empty_name() -> None:
    page = b'{"a":{"":{"b":"1"}},"":{"":"2"},"c.":{"d":"3"}}'
    assert [PageDocument(page).value(path) for path in ("a..b", ".", "c..d", "a.", "")] == [
        "1",
        "2",
        "3",
        NonScalar.CONTAINER,
        NonScalar.CONTAINER,
    ]
