"""The lists of tables and of sealed columns are complete. A rotation would skip a column that is missing in the list.

The values in this column would stay sealed with a key that is then removed.
"""

import pytest
from sqlalchemy import LargeBinary

from gateway.store.preflight_checks import (
    KEY_ID_BYTES,
    KEY_ID_FROM,
    NOT_SEALED,
    REVISIONS,
    SEALED,
    TABLE_NAMES,
    StoreRefused,
    check_schema,
)
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


def test_listed_tables_are_those_of_the_schema() -> None:
    assert metadata.tables.keys() == TABLE_NAMES


def test_database_without_one_of_its_tables_is_refused() -> None:
    tables = {*TABLE_NAMES, "alembic_version"}
    check_schema("gateway.db", revision=REVISIONS[-1], tables=tables, advice="")
    with pytest.raises(
        StoreRefused, match=r"^gateway\.db lacks the tables deliveries, keys: restore a complete backup\.$"
    ):
        check_schema("gateway.db", revision=REVISIONS[-1], tables=tables - {"deliveries", "keys"}, advice="")
    check_schema("gateway.db", revision=REVISIONS[-2], tables=tables - {"keys"}, advice="")  # a migration adds tables


def test_listed_columns_exist() -> None:
    for sealed in SEALED:
        columns = metadata.tables[sealed.table].columns
        column_names = {sealed.column, sealed.key, sealed.row, "environment"}
        column_names |= {sealed.version} if isinstance(sealed.version, str) else set()
        assert column_names <= set(columns.keys()), sealed
        assert columns[sealed.key].primary_key, "a rotation reads the rows in the order of this column"


def test_sql_finds_the_key_id_where_the_vault_puts_it() -> None:
    assert (KEY_ID.start + 1, KEY_ID.stop - KEY_ID.start) == (KEY_ID_FROM, KEY_ID_BYTES)
