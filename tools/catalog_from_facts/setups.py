"""Converts ``setup-steps.json`` to the `setup` of entries. One vendor console may serve a whole family."""

from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]


def setups(document: Facts) -> dict[str, dict[str, Any]]:
    """Return the `setup` of each entry in `document`. If several facts name an entry, the one with the fewest entries
    wins.
    """
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(document["facts"].values(), key=lambda fact: -len(fact["entries"])):
        made = {key: one[key] for key in ("console", "app_type", "steps", "blocks_production") if one.get(key)}
        made["date"] = document["made"]
        if pages := [source["page"] for source in one["sources"] if source.get("read")]:
            made["sources"] = pages
        found |= dict.fromkeys(one["entries"], made)
    return found
