"""How many values each key seals: the proof that one of them is needed no more."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Column, LargeBinary, func, select

from gateway.store.sealed_columns import KEY_ID_BYTES, KEY_ID_FROM, SEALED, SealedColumn
from gateway.store.tables import data_keys, metadata
from gateway.store.transactions import Transactions

PAGE: Final = 2000  # rows at a time: no statement lasts, and no snapshot is held, however large the table

Rows = Sequence[tuple[Any, str]]


@dataclass(frozen=True, slots=True)
class DataKeyUse:
    """A data key and how many values it seals, by ``table.column``. `newest`: the one that seals in its environment."""

    id: str
    environment: str
    master_key_id: str
    created_at: datetime
    newest: bool
    values: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.values.values())


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """`homeless`: values, by data key id, whose data key is not stored: nothing opens them."""

    data_keys: Sequence[DataKeyUse]
    homeless: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(key.total for key in self.data_keys)

    def under_master(self, master_key_id: str) -> Sequence[DataKeyUse]:
        """The data keys that it wraps."""
        return [key for key in self.data_keys if key.master_key_id == master_key_id]


async def count(transactions: Transactions) -> KeyCounts:
    """All sealed values, by their keys. Reads in pages, so what is written meanwhile may be counted or not."""
    values: dict[str, Counter[str]] = {}
    for column in SEALED:
        async for rows in pages(transactions, column):
            for key_id, number in Counter(key_id for _, key_id in rows).items():
                values.setdefault(key_id, Counter())[column.name] += number
    async with transactions.read() as db:
        stored = (await db.execute(select(data_keys).order_by(data_keys.c.number))).all()
    newest = {row.environment: row.id for row in stored}
    uses = [
        DataKeyUse(
            row.id,
            row.environment,
            row.master_key_id,
            row.created_at,
            newest[row.environment] == row.id,
            dict(values.pop(row.id, {})),
        )
        for row in stored
    ]
    return KeyCounts(uses, {key_id: counted.total() for key_id, counted in values.items()})


async def pages(transactions: Transactions, column: SealedColumn) -> AsyncIterator[Rows]:
    """Primary key and data key id of every row that has a value there, in the order of the former."""
    table = metadata.tables[column.table]
    key, sealed = table.c[column.key], table.c[column.column]
    wanted = select(key, key_id_in(sealed)).where(sealed.is_not(None)).order_by(key).limit(PAGE)
    after: Any = None
    while True:
        async with transactions.read() as db:
            rows = (await db.execute(wanted if after is None else wanted.where(key > after))).all()
        if rows:
            yield [(row[0], bytes(row[1]).hex()) for row in rows]
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def key_id_in(sealed: Column[Any]) -> Any:
    """The data key's id, as it stands in the ciphertext."""
    return func.substr(sealed, KEY_ID_FROM, KEY_ID_BYTES, type_=LargeBinary)
