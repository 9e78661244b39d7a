"""Which icon an entry gets, and which icons are free to use."""

from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.brand_icons import ICONS_FILE, brand_icon
from tests.gateway.catalog.folders import SHIPPED
from tools.brand_icons import chosen_icons, drawing, is_free

ICONS: list[dict[str, Any]] = [
    {"title": "Acme & Sons", "slug": "acmeandsons", "hex": "FF0000"},
    {"title": "Zed", "slug": "zed", "hex": "000000", "aliases": {"aka": ["Zed Mail"], "dup": [{"title": "Zed Pro"}]}},
    {"title": "Closed", "slug": "closed", "hex": "000000", "license": {"type": "CC-BY-4.0"}},
]


def test_an_icon_is_found_by_any_of_its_names_and_for_all_of_the_family() -> None:
    entries = {
        "acme": {"display_name": "Acme and Sons (API key)"},
        "acme-cc": {"display_name": "Acme CC", "alias": "acme"},
        "zed-mail": {"display_name": "Mail of Zed"},
        "zed-tasks": {"display_name": "Zed Tasks", "family": "zed-mail"},
        "zed-pro": {"display_name": "Other", "family": "nobody"},
        "closed": {"display_name": "Closed"},
        "terraform": {"display_name": "OpenTofu"},
    }
    icons = [*ICONS, {"title": "OpenTofu", "slug": "opentofu", "hex": "000000"}]
    assert chosen_icons(entries, icons) == {
        "acme": "acmeandsons",
        "acme-cc": "acmeandsons",
        "zed-mail": "zed",
        "zed-tasks": "zed",
        "zed-pro": "zed",
    }


def test_icons_with_another_licence_are_not_used() -> None:
    assert [is_free(icon) for icon in ICONS] == [True, True, False]
    assert is_free({"license": {"type": "CC0-1.0"}})


def test_an_icon_is_one_path(tmp_path: Path) -> None:
    (tmp_path / "icons").mkdir()
    (tmp_path / "icons" / "zed.svg").write_text('<svg role="img"><title>Zed</title><path d="M0 0h1z"/></svg>')
    (tmp_path / "icons" / "bad.svg").write_text('<svg><path d="M0 0"/><script/></svg>')
    assert drawing(tmp_path, "zed") == "M0 0h1z"
    with pytest.raises(SystemExit):
        drawing(tmp_path, "bad")


def test_the_icon_file_has_icons_only_for_existing_entries() -> None:
    lines = (SHIPPED / ICONS_FILE).read_text("utf-8").splitlines()
    assert "CC0-1.0" in lines[0]
    rows = [line.split("\t") for line in lines[1:]]
    names = [name for row in rows for name in row[0].split()]
    assert len(names) == len(set(names)) > 400
    assert [name for name in names if not (SHIPPED / f"{name}.yaml").exists()] == []
    for _, color, path in rows:
        assert len(color) == 7
        assert set(path) <= set("MmLlHhVvCcSsQqTtAaZz0123456789.,- e")
    icon = brand_icon("jira")
    assert icon is not None
    assert icon.color == "#0052cc"
