"""`store.url` looked at before a start, by whichever way its database needs; the other way is not even loaded."""

from typing import TYPE_CHECKING, Final

from gateway.vault import Keyring

if TYPE_CHECKING:
    from gateway.config import StoreConfig

POSTGRES: Final = "postgresql://"


def look_at(store: "StoreConfig") -> str | None:
    """Refuse what cannot be opened before the seconds that loading the rest may take. Raises StoreRefused. Blocks.

    Returns the schema's revision; None where no gateway has made one yet.
    """
    keyring = Keyring(store.encryption_keys)
    if store.url.startswith(POSTGRES):
        from gateway.store.postgres import look as postgres

        return postgres.look(store.url, keyring, connect_s=store.pool.connect_s)
    from gateway.store.look import look, sqlite_path

    return look(sqlite_path(store.url), keyring)


def usable(url: str) -> None:
    """Whether it names a database at all, without looking there. Raises StoreRefused."""
    if not url.startswith(POSTGRES):
        from gateway.store.look import sqlite_path

        sqlite_path(url)
