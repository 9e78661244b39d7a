"""The list of providers: filters, pages, cursors and entity tags."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.listing import Listing, ListingBody, Query, cursor_after, get_listing, name_in
from gateway.catalog.load_catalog import Catalog, load_catalog

URL = "https://gateway.example.com"


def entry(name: str, category: str, mode: str = "API_KEY") -> str:
    return (
        f"display_name: {name.title()} Inc\ncategories: [{category}]\nauth_mode: {mode}\n"
        "docs: https://docs.example.com\nproxy:\n  base_url: https://api.example.com\n  headers: {x-key: '${apiKey}'}\n"
    )


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    for name, category in (("ant", "crm"), ("bee", "crm"), ("cat", "Storage"), ("dog", "crm")):
        (tmp_path / f"{name}.yaml").write_text(entry(name, category))
    return load_catalog([tmp_path])


def names(body: ListingBody) -> list[str]:
    return [item["name"] for item in json.loads(body.content)["data"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), ["ant", "bee", "cat", "dog"]),
        (Query(search="BEE inc"), ["bee"]),
        (Query(search="bee storage"), []),  # each word must be there
        (Query(category="STORAGE"), ["cat"]),
        (Query(auth_mode="api_key", after="bee"), ["cat", "dog"]),
        (Query(auth_mode="OAUTH2"), []),
    ],
)
def test_all_filters_must_match(catalog: Catalog, query: Query, expected: list[str]) -> None:
    assert names(Listing(catalog, URL).page(query)) == expected


def test_pages_follow_by_cursor_until_the_last(catalog: Catalog) -> None:
    listing, seen, after = Listing(catalog, URL), [], ""
    while True:
        body: dict[str, Any] = json.loads(listing.page(Query(category="crm", limit=2, after=after)).content)
        seen += [item["name"] for item in body["data"]]
        if "next_cursor" not in body:
            break
        after = name_in(body["next_cursor"])
    assert seen == ["ant", "bee", "dog"]


@pytest.mark.parametrize("cursor", ["", "x", "!!!", "YWZ0ZXI6YQ==", "YmVmb3JlOmE", "YWZ0ZXI6/w"])
def test_invalid_cursor_is_refused(cursor: str) -> None:
    assert name_in(cursor_after("a")) == "a"
    with pytest.raises(ValueError, match="not a cursor"):
        name_in(cursor)


def test_each_provider_has_its_own_body_and_entity_tag(catalog: Catalog) -> None:
    listing = Listing(catalog, URL)
    one, other = listing.provider_body("ant"), listing.provider_body("bee")
    assert one is not None
    assert other is not None
    assert json.loads(one.content)["data"]["name"] == "ant"
    assert one.etag != other.etag
    assert listing.provider_body("emu") is None


def test_a_listing_is_built_once_per_catalog_and_public_url(catalog: Catalog) -> None:
    assert get_listing(catalog, URL) is get_listing(catalog, URL)
    assert get_listing(catalog, URL) is not get_listing(catalog, "https://other.example.com")
    assert get_listing(catalog, URL).categories == {"crm", "storage"}
