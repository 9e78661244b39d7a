"""The encryption keys as an operator knows them: by their place in store.encryption_keys, and by id."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.config import StoreConfig
    from gateway.store.key_counts import KeyCounts


@dataclass(frozen=True, slots=True)
class Master:
    """`place`: in store.encryption_keys, from 1. `values`: how many its data keys seal."""

    place: int
    id: str
    data_keys: int
    values: int

    @property
    def may_go(self) -> bool:
        """The first stays: it wraps what is made next."""
        return self.place > 1 and self.data_keys == 0


def masters(store: "StoreConfig", counts: "KeyCounts") -> Sequence[Master]:
    from gateway.vault import Keyring

    ids = Keyring(store.encryption_keys).ids
    wrapped = [counts.under_master(one) for one in ids]
    return [
        Master(place, one, len(keys), sum(key.total for key in keys))
        for place, (one, keys) in enumerate(zip(ids, wrapped, strict=True), start=1)
    ]


def advice(found: Sequence[Master]) -> str:
    """What to do next, in one line."""
    gone = [str(one.place) for one in found if one.may_go]
    needed = [one for one in found if one.place > 1 and one.data_keys]
    if needed:
        return "`gateway keys rotate` seals everything anew under key 1; until then keep all of them in the list."
    if gone:
        which = f"key {gone[0]} is" if len(gone) == 1 else f"keys {', '.join(gone)} are"
        return f"Encryption {which} needed no more: take it out of store.encryption_keys on every node, then reload."
    return "Every key in store.encryption_keys is needed."
