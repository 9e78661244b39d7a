"""``alias`` as the field's catalogs mean it: the base's fields, each replaced whole by one of the same name. Not deep."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.catalog.inherit import KEY

MERGE = "<<"  # YAML 1.1's own way to the same end, which some files use


@dataclass(frozen=True, slots=True)
class Expanded:
    """`values` without ``alias``; `owner`: by field, the entry that says it, for messages; `unknown`: a base that is not
    in the file; `circle`: it inherits from itself."""

    values: dict[str, Any]
    owner: dict[str, str]
    unknown: str | None = None
    circle: bool = False


def expanded(name: str, entries: Mapping[str, Any], heirs: tuple[str, ...] = ()) -> Expanded:
    """The entry called `name` with all that it inherits within `entries`."""
    said = _merged(entries[name])
    own = {key: value for key, value in said.items() if key != KEY}
    mine = dict.fromkeys(own, name)
    base = said.get(KEY)
    if base is None:
        return Expanded(own, mine)
    if base in (name, *heirs):
        return Expanded(own, mine, circle=True)
    if not isinstance(entries.get(str(base)), Mapping):
        return Expanded(own, mine, unknown=str(base))
    below = expanded(str(base), entries, (*heirs, name))
    return Expanded({**below.values, **own}, {**below.owner, **mine}, below.unknown, below.circle)


def _merged(said: Mapping[str, Any]) -> dict[str, Any]:
    bases = said.get(MERGE)
    below: dict[str, Any] = {}
    for base in reversed(bases if isinstance(bases, list) else [bases]):
        if isinstance(base, Mapping):
            below |= _merged(base)
    return {**below, **{key: value for key, value in said.items() if key != MERGE}}
