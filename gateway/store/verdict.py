"""What is refused in a database that was looked at, whichever it is: another program's, a newer one, one under another key."""

from collections.abc import Collection, Iterable, Sequence

from gateway.store.refusal import StoreRefused
from gateway.store.revisions import REVISIONS
from gateway.vault import Keyring, VaultError, WrappedKey
from gateway.wording import counted


def judge_schema(place: object, *, revision: str | None, tables: Collection[str], instead: str) -> None:
    """`revision`: of the schema, None where no gateway has made one. `instead`: what to do then. Raises StoreRefused."""
    if revision is None and tables:
        raise StoreRefused(f"{place} is another program's database: {instead}.")
    if revision is not None and revision not in REVISIONS:
        raise StoreRefused(
            f"{place} was written by a newer version of the gateway (schema {revision}; this one knows up to "
            f"{REVISIONS[-1]}): start that version, or restore an older backup."
        )


def locked_out(stored: Iterable[WrappedKey], keyring: Keyring) -> list[WrappedKey]:
    """The data keys whose master key is not in `keyring`."""
    return [key for key in stored if key.master_key_id not in keyring.ids]


def judge_keys(place: object, stored: Sequence[WrappedKey], keyring: Keyring, *, values: int | None = None) -> None:
    """Every data key must open: one that does not would mean connections that do not. Raises StoreRefused.

    `values`: how many are sealed under those that are `locked_out`, where that is known. A weak first key may go on where
    something is under it already, since nothing could be read otherwise.
    """
    missing = locked_out(stored, keyring)
    if missing:
        ids = list(dict.fromkeys(key.master_key_id for key in missing))
        held = counted(len(missing), "data key") + ("" if values is None else f", with {counted(values, 'value')},")
        raise StoreRefused(
            f"{place} has {held} under an encryption key that is not in store.encryption_keys (key id {', '.join(ids)}): "
            "add the key it was made with, after the first if that is to replace it. Then `gateway keys rotate` seals "
            "everything anew under the first, and `gateway keys status` tells which may be taken out."
        )
    weakness = keyring.weaknesses.get(0)
    if weakness is not None and all(key.master_key_id != keyring.first_id for key in stored):
        raise StoreRefused(
            f"store.encryption_keys: the first key {weakness}, so it can be guessed, and nothing is sealed under it yet. "
            "Put another in its place: `openssl rand -base64 32` makes one."
        )
    for key in stored:
        try:
            keyring.unwrap(key)
        except VaultError as error:
            raise StoreRefused(f"{place} is damaged: {error} Restore a backup.") from None
