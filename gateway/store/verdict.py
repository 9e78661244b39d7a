"""What is refused in a database that was looked at, whichever it is: another program's, a newer one, one under another key."""

from collections.abc import Collection, Iterable

from gateway.store.refusal import StoreRefused
from gateway.store.revisions import REVISIONS
from gateway.vault import Keyring, UnknownKey, VaultError, WrappedKey


def judge_schema(place: object, *, revision: str | None, tables: Collection[str], other: str) -> None:
    """`revision`: of the schema, None where no gateway has made one. `other`: what to name instead. Raises StoreRefused."""
    if revision is None and tables:
        raise StoreRefused(f"{place} is another program's database: let store.url name {other}.")
    if revision is not None and revision not in REVISIONS:
        raise StoreRefused(
            f"{place} was written by a newer version of the gateway (schema {revision}; this one knows up to "
            f"{REVISIONS[-1]}): start that version, or restore an older backup."
        )


def judge_keys(place: object, stored: Iterable[WrappedKey], keyring: Keyring) -> None:
    """Every data key must open: one that does not would mean connections that do not. Raises StoreRefused."""
    for key in stored:
        try:
            keyring.unwrap(key)
        except UnknownKey:
            raise StoreRefused(
                f"{place} is sealed under an encryption key that is not in store.encryption_keys (key id "
                f"{key.master_key_id}): add the key it was made with, after the first if that is to replace it; it "
                "must stay in the list, since this version does not seal anew under another key."
            ) from None
        except VaultError as error:
            raise StoreRefused(f"{place} is damaged: {error} Restore a backup.") from None
