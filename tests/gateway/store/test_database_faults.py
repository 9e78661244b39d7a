"""The cause that operators and callers read when the database cannot be used."""

import pytest
from sqlalchemy.exc import ProgrammingError

from gateway.store.database_faults import cause_of


class DriverError(Exception):
    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (TimeoutError(), "it does not respond"),
        (ConnectionResetError(), "the connection to it was lost"),
        (ConnectionResetError(104, "Connection reset by peer"), "it cannot be reached (Connection reset by peer)"),
        (
            ProgrammingError("SELECT 1", None, DriverError("42P01")),
            "it lacks a table, as after an incomplete restore; restore a complete backup",
        ),
        (
            ProgrammingError("SELECT 1", None, DriverError("42703")),
            "it lacks a column, as after an incomplete restore; restore a complete backup",
        ),
        (ProgrammingError("SELEC 1", None, DriverError("42601")), None),
    ],
)
def test_each_error_has_a_cause_in_words(error: Exception, cause: str | None) -> None:
    assert cause_of(error) == cause
