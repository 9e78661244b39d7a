"""Nested names in a query, as published clients write them (api-contract 0.1)."""

from collections.abc import Mapping


def members(query: Mapping[str, str], name: str) -> dict[str, str]:
    """``params[subdomain]=acme`` as ``{"subdomain": "acme"}``."""
    start = name + "["
    return {key[len(start) : -1]: text for key, text in query.items() if key.startswith(start) and key.endswith("]")}
