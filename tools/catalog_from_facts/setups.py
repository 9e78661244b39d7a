"""Converts ``setup-steps.json`` to the `setup` of entries. A whole family can share the console of one vendor."""

import re
from collections.abc import Mapping
from typing import Any, Final

Facts = Mapping[str, Any]

_ADDRESS: Final = re.compile(r"(callback|redirect) address(es)?", re.IGNORECASE)


def setups(document: Facts) -> dict[str, dict[str, Any]]:
    """Return the `setup` of each entry in `document`. If several facts name the same entry, use the fact with the
    fewest entries.
    """
    found: dict[str, dict[str, Any]] = {}
    for item in sorted(document["facts"].values(), key=lambda fact: -len(fact["entries"])):
        made = {key: item[key] for key in ("console", "app_type", "steps", "blocks_production") if item.get(key)}
        made["steps"] = [_with_urls(step) for step in made["steps"]]
        made["date"] = document["made"]
        if pages := [source["page"] for source in item["sources"] if source.get("read")]:
            made["sources"] = pages
        found |= dict.fromkeys(item["entries"], made)
    return found


def _with_urls(step: str) -> str:
    """Return `step` with ``callback URL`` instead of ``callback address``, because guides and providers say "callback
    URL".
    """
    return _ADDRESS.sub(lambda found: f"{found[1]} URL{'s' if found[2] else ''}", step)
