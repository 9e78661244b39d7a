"""Which columns hold ciphertexts, and what each is bound to; known without SQLAlchemy.

Whoever adds a column that is sealed adds it here: rotation and its proof go by this list, and what is missing in it would
be left under a key that is removed. A test compares it with the tables.
"""

from typing import Final, NamedTuple


class SealedColumn(NamedTuple):
    """`key`: the primary key, by which rows are walked through. `row` and `version`, columns too, are what the associated
    data name; a number in place of the latter is the same for all rows. The environment is in the column of that name.
    """

    table: str
    column: str
    key: str
    row: str
    version: str | int

    @property
    def name(self) -> str:
        return f"{self.table}.{self.column}"


SEALED: Final = (
    SealedColumn("connections", "credential", "id", "uid", "version"),
    SealedColumn("connections", "secret_config", "id", "uid", "secret_config_version"),
    SealedColumn("connections", "previous_refresh", "id", "uid", "previous_refresh_version"),
    SealedColumn("integrations", "secrets", "uid", "uid", "version"),
    SealedColumn("outbox", "sealed", "id", "uid", 1),
    SealedColumn("signing_keys", "key", "uid", "uid", 1),
    SealedColumn("connect_sessions", "defaults", "digest", "digest", 1),
    SealedColumn("flows", "details", "state_digest", "state_digest", 1),
    SealedColumn("pending_connections", "sealed", "uid", "uid", 1),
)
NOT_SEALED: Final = frozenset({"data_keys.wrapped"})
"""Binary columns that hold something else: a data key is wrapped under a master key, and bound to its own row."""

KEY_ID_FROM: Final = 2  # where the data key's id begins in a ciphertext, as SQL counts (gateway.vault.seal)
KEY_ID_BYTES: Final = 8
