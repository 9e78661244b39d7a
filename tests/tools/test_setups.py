"""Conversion of steps in a provider's console to the `setup` of its entries."""

from typing import Any

from tools.catalog_from_facts.setups import setups


def fact(*entries: str, console: str = "https://console.example.com", **extra: Any) -> dict[str, Any]:
    return {
        "entries": list(entries),
        "console": console,
        "steps": ["a", "b"],
        "blocks_production": [],
        "sources": [],
        **extra,
    }


def test_the_console_with_the_fewest_entries_is_used() -> None:
    facts = {"one": fact("x", console="https://x.example.com"), "all": fact("x", "y", "z")}
    found = setups({"made": "2026-11-22", "facts": facts})
    assert {name: item["console"] for name, item in found.items()} == {
        "x": "https://x.example.com",
        "y": "https://console.example.com",
        "z": "https://console.example.com",
    }
    assert found["x"] == {"console": "https://x.example.com", "steps": ["a", "b"], "date": "2026-11-22"}


def test_only_pages_that_were_read_are_sources() -> None:
    pages = [{"id": "page", "page": "https://a", "read": True}, {"id": "page", "page": "https://b", "read": False}]
    found = setups({"made": "2026-11-22", "facts": {"one": fact("x", sources=pages)}})
    assert found["x"]["sources"] == ["https://a"]


def test_steps_use_the_word_callback_url() -> None:
    steps = ["Callback address; redirect addresses.", "Add the callback address."]
    found = setups({"made": "2026-11-22", "facts": {"one": fact("x", steps=steps)}})
    assert found["x"]["steps"] == ["Callback URL; redirect URLs.", "Add the callback URL."]
