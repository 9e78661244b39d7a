"""``alias: base``: an entry inherits what another one says, deep. Plain values, before anything is checked."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.nearest import did_you_mean

KEY: Final = "alias"
# Who an entry is, it says itself.
_OWN: Final = frozenset({"name", KEY})

Values = Mapping[str, Any]


class CannotInherit(ValueError):
    """The base cannot be had; the message says why and what to do."""


class Heirs:
    """The entries of one folder with everything that they inherit.

    A base is looked for in the same folder, then in `earlier` ones. An entry that names itself inherits from the earlier
    one of its name, and so changes a shipped entry without repeating it.
    """

    def __init__(self, own: Mapping[str, Values], earlier: Mapping[str, Values]) -> None:
        self._own = own
        self._earlier = earlier
        self._whole: dict[str, Values] = {}

    def whole(self, name: str) -> Values:
        """What the entry called `name` says, with what its bases say below it. Raises CannotInherit."""
        return self._found(name, ())

    def _found(self, name: str, heirs: tuple[str, ...]) -> Values:
        if name in heirs:
            circle = " ▸ ".join((*heirs[heirs.index(name) :], name))
            raise CannotInherit(f"{circle} goes round in a circle; let one of them stand by itself")
        if name not in self._whole:
            said = self._own[name]
            base = said.get(KEY)
            self._whole[name] = said if base is None else merged(self._base(name, base, (*heirs, name)), said)
        return self._whole[name]

    def _base(self, name: str, base: Any, heirs: tuple[str, ...]) -> Values:
        if not isinstance(base, str):
            raise CannotInherit("must be the name of another entry")
        if base != name and base in self._own:
            found = self._found(base, heirs)
        elif base in self._earlier:
            found = self._earlier[base]
        else:
            known = sorted({*self._own, *self._earlier} - {name})
            hint = did_you_mean(base, known) or "; `gateway catalog list` shows what there is"
            raise CannotInherit(f"there is no entry {base!r} to inherit from{hint}")
        return {key: value for key, value in found.items() if key not in _OWN}


def merged(base: Values, heir: Values) -> dict[str, Any]:
    """`base` with what `heir` says over it: mappings key by key, all else whole, and ``null`` takes a key away."""
    result = dict(base)
    for key, value in heir.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            inherited = result.get(key)
            result[key] = merged(inherited if isinstance(inherited, Mapping) else {}, value)
        else:
            result[key] = value
    return result
