"""Values as YAML has them ▸ the kinds that our fields want."""

from collections.abc import Mapping
from typing import Any


def as_text(value: Any) -> str:
    """``true`` ▸ ``"true"``, ``7`` ▸ ``"7"``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def as_flag(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def as_list(value: Any) -> list[str]:
    """One value is a list of one."""
    return [as_text(one) for one in (value if isinstance(value, list) else [value])]


def is_flat(value: Any) -> bool:
    """Whether it is names with plain values."""
    return isinstance(value, Mapping) and not any(isinstance(inner, Mapping | list) for inner in value.values())
