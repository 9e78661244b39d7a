"""Generated pages and blocks are up to date."""

from gateway.catalog.provider import Provider
from gateway.catalog.template import FUNCTIONS
from tools.catalog_docs import ROOT, SECTIONS, blocks, catalog_page, pages


def test_generated_pages_are_up_to_date() -> None:
    assert [path.name for path, text in pages().items() if path.read_text(encoding="utf-8") != text] == [], (
        "run: make docs"
    )


def test_every_field_of_an_entry_is_in_one_section() -> None:
    result = [name for names in SECTIONS.values() for name in names]
    assert sorted(result) == sorted(Provider.model_fields)


def test_every_generated_block_is_on_one_page() -> None:
    text = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("catalog.md", "architecture.md"))
    assert [name for name in blocks() if text.count(f"<!-- begin: {name} -->") != 1] == []


def test_every_template_function_is_documented() -> None:
    page = (ROOT / "docs" / "catalog.md").read_text(encoding="utf-8")
    assert [name for name in FUNCTIONS if f"`${{{name}(" not in page] == []


def test_hand_written_prose_is_kept() -> None:
    assert catalog_page("before\n<!-- begin: categories -->\nold\n<!-- end -->\nbehind").startswith(
        "before\n<!-- begin"
    )
    assert catalog_page("before\n<!-- begin: categories -->\nold\n<!-- end -->\nbehind").endswith(
        "<!-- end -->\nbehind"
    )
