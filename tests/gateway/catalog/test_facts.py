"""Fields of shipped entries that were once wrong, compared with a list of facts and their sources."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.load_catalog import Catalog, load_catalog
from tests.gateway.catalog.folders import SCRIPTS, SHIPPED

FACTS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("facts.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog([SHIPPED], scripts=SCRIPTS)


def value_at(entry: Any, path: list[str]) -> Any:
    """Return the value at `path`, or None if a key is absent."""
    for key in path:
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry


def test_entry_has_the_value_of_the_fact(catalog: Catalog) -> None:
    for fact in FACTS:
        entry = json.loads(catalog.providers.contents[fact["entry"]])
        assert (value_at(entry, fact["path"]) or None) == fact["right"], fact
