"""For every value at every place of gateway.yaml, the result is a configuration or faults with lines, and never a
crash."""

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import Faults, load

KEY = "WzGmZ6TPZ8UKgkJBBG4WfqMGhuWeaPHoPHWEQ0yRdzA="
ENVIRON = {
    "GATEWAY_ENCRYPTION_KEY": KEY,
    "GATEWAY_SECRET_KEY": "a-secret-key-of-dev",
    "JIRA_CLIENT_ID": "id",
    "JIRA_CLIENT_SECRET": "secret",
}
ROOT = Path(__file__).parents[3]
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # the C dumper is ten times as fast
Place = tuple[str | int, ...]

WRONG: list[Any] = [
    -1,
    10**30,
    True,
    "",
    "\x01",
    "é" * 300,
    [[1]],
    [None],
    [{"a": 1}],
    {"a b": {}},
    {"1": {"2": {"3": [4]}}},
]


@cache
def reference() -> dict[str, Any]:
    """Return the reference file with its commented part, and with an item in every list and mapping."""
    text = (ROOT / "gateway.yaml").read_text().replace("    integrations: {}", "    x: {}", 1)
    text = re.sub(r"^    x: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^    # (integrations:|  )", r"    \1", text, flags=re.MULTILINE)
    document: dict[str, Any] = yaml.safe_load(text)
    dev = document["environments"]["dev"]
    dev |= {"variables": {"A": "b"}, "connect_origins": ["https://app.example.com"]}
    dev["integrations"]["jira"] |= {"private_key": None, "allowed_origins": ["https://api.example.com"]}
    document["egress"]["allow"] = ["127.0.0.1/32:9900"]
    return document


def places(tree: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    yield place, tree
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, inner in items:
        yield from places(inner, (*place, step))


ALL = list(places(reference()))
NAMES: list[Place] = [("environments",), ("environments", "dev", "integrations"), ("environments", "dev", "variables")]
SECTIONS = [place for place, value in ALL if isinstance(value, dict)]


def with_value(place: Place, value: Any) -> dict[str, Any]:
    """Return the reference with `value` at `place`."""
    document = deepcopy(reference())
    tree: Any = document
    for step in place[:-1]:
        tree = tree[step]
    tree[place[-1]] = value
    return document


def faults(file: Path, document: Any) -> list[str]:
    """Return the faults, or nothing if the document loads. Any other exception fails the test."""
    file.write_text(yaml.dump(document, Dumper=DUMPER, sort_keys=False, allow_unicode=True))
    try:
        load(file, environ=ENVIRON)
    except Faults as found:
        caught = found
    else:
        return []
    lines = str(caught).split("\n")
    assert len(lines) == len(caught.faults), "a fault is one line"
    return [line.removeprefix(f"{file.parent}/") for line in lines]


def test_the_reference_itself_loads(tmp_path: Path) -> None:
    assert faults(tmp_path / "gateway.yaml", reference()) == []


@pytest.mark.parametrize("place", SECTIONS, ids=lambda place: ".".join(map(str, place)) or "top")
def test_an_unknown_key_is_a_fault_with_its_line_at_every_level(tmp_path: Path, place: Place) -> None:
    key = "no/such name" if place in NAMES else "no_such_key"
    file = tmp_path / "gateway.yaml"
    (fault,) = faults(file, with_value((*place, key), {} if place in NAMES[:2] else "x"))
    where, response = fault.split(": ", 1)
    line = int(where.removeprefix("gateway.yaml:"))
    assert key in file.read_text().splitlines()[line - 1]
    if place not in NAMES:
        assert response.startswith(f"{'.'.join(map(str, (*place, key)))}: is not a known key; known here: ")


@pytest.mark.parametrize("place", [place for place in SECTIONS if place not in NAMES], ids=str)
def test_a_misspelt_key_is_a_fault_with_the_closest_match(tmp_path: Path, place: Place) -> None:
    for key in next(value for at, value in ALL if at == place):
        found = faults(tmp_path / "gateway.yaml", with_value((*place, f"{key}x"), None))
        (fault,) = [item for item in found if f"{key}x" in item]
        assert f"did you mean '{key}'?" in fault


@pytest.mark.parametrize("place", [place for place, _ in ALL if place], ids=lambda place: ".".join(map(str, place)))
def test_wrong_value_of_any_key_is_a_fault_with_its_line(tmp_path: Path, place: Place) -> None:
    for value in WRONG:
        for fault in faults(tmp_path / "gateway.yaml", with_value(place, value)):
            assert re.match(r"gateway\.yaml:\d+: ", fault), (value, fault)


@pytest.mark.parametrize("whole", [*WRONG, None], ids=repr)
def test_a_wrong_document_is_a_fault_with_its_line(tmp_path: Path, whole: Any) -> None:
    for fault in faults(tmp_path / "gateway.yaml", whole):
        assert re.match(r"gateway\.yaml(:\d+)?: ", fault), fault
