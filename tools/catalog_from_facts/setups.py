"""Converts ``setup-steps.json`` to the `setup` of entries. One vendor console may serve a whole family."""

import re
from collections.abc import Mapping
from typing import Any, Final

Facts = Mapping[str, Any]

_ADDRESS: Final = re.compile(r"(callback|redirect) address(es)?", re.IGNORECASE)


def setups(document: Facts) -> dict[str, dict[str, Any]]:
    """Return the `setup` of each entry in `document`. If several facts name an entry, the one with the fewest entries
    wins.
    """
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(document["facts"].values(), key=lambda fact: -len(fact["entries"])):
        made = {key: one[key] for key in ("console", "app_type", "steps", "blocks_production") if one.get(key)}
        made["steps"] = [_with_urls(step) for step in made["steps"]]
        made["date"] = document["made"]
        if pages := [source["page"] for source in one["sources"] if source.get("read")]:
            made["sources"] = pages
        found |= dict.fromkeys(one["entries"], made)
    return found


def _with_urls(step: str) -> str:
    """Return `step` with ``callback URL`` for ``callback address``: the words of the guides and of the providers."""
    return _ADDRESS.sub(lambda found: f"{found[1]} URL{'s' if found[2] else ''}", step)
