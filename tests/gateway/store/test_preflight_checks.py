"""The list of sealed columns is complete. A rotation would skip a column that is missing in the list.

The values in this column would stay sealed with a key that is then removed.
"""

from sqlalchemy import LargeBinary

from gateway.store.preflight_checks import KEY_ID_BYTES, KEY_ID_FROM, NOT_SEALED, SEALED
from gateway.store.tables import metadata
from gateway.vault.seal import KEY_ID


def test_every_binary_column_is_in_the_list_or_known_not_to_be_sealed() -> None:
    binary = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, LargeBinary)
    }
    assert binary == {column.name for column in SEALED} | NOT_SEALED


def test_listed_columns_exist() -> None:
    for sealed in SEALED:
        columns = metadata.tables[sealed.table].columns
        named = {sealed.column, sealed.key, sealed.row, "environment"}
        named |= {sealed.version} if isinstance(sealed.version, str) else set()
        assert named <= set(columns.keys()), sealed
        assert columns[sealed.key].primary_key, "rows are walked through in its order"


def test_sql_finds_the_key_id_where_the_vault_puts_it() -> None:
    assert (KEY_ID.start + 1, KEY_ID.stop - KEY_ID.start) == (KEY_ID_FROM, KEY_ID_BYTES)
