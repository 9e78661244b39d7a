"""The store: whether it can be reached, is ours, at which revision, and whether the encryption keys open it. Writes nothing."""

from collections.abc import Iterator
from typing import Final

from gateway.catalog.refresh_tokens import what_brings_one
from gateway.cli.diagnosis.finding import Finding, ok
from gateway.cli.diagnosis.patient import Patient
from gateway.cli.program import program
from gateway.config.store_url import unguarded
from gateway.store.looking import ending_with_token, look_at
from gateway.store.refusal import StoreDamaged, StoreRefused
from gateway.store.revisions import REVISIONS
from gateway.wording import counted

CHECK_S: Final = 10.0


def refresh_tokens(patient: Patient) -> Iterator[Finding]:
    """Integrations whose connections end with their access token, since the provider gave no refresh token."""
    by_name = {one.name: one for one in patient.integrations}
    try:
        found = ending_with_token(patient.config.store)
    except StoreRefused:  # in use by others just now; what is wrong with the database is reported elsewhere
        return
    for environment, key, number, first in found:
        one = by_name.get(f"{environment}/{key}")
        if one is None:
            continue
        has = "has no refresh token and ends" if number == 1 else "have no refresh token and end"
        message = f"{counted(number, 'connection')} {has} with its access token, the next on {first} UTC"
        asked = one.config.scopes if one.config.scopes is not None else one.provider.default_scopes or ()
        how = what_brings_one(one.provider, asked)
        yield Finding("warn", "refresh tokens", message, patient.where(*one.place), how, one.name)


def database(patient: Patient) -> Iterator[Finding]:
    """Blocks, for at most `store.pool.connect_s` and as long for an answer, or `CHECK_S` for a file."""
    config = patient.config
    key = ("store", "url")
    try:
        revision = look_at(config.store)
        sound = revision is None or not config.store.url.startswith("sqlite:") or _sound(config.store.url)
    except StoreDamaged as damage:
        fix = f"stop the gateway, then `{program()} restore BACKUP -c {config.path}`"
        yield Finding("fail", "store", str(damage), patient.where(*key), fix)
        return
    except StoreRefused as refusal:
        message = str(refusal)
        if "encryption_keys" in message:
            key = ("store", "encryption_keys")
        yield Finding("fail", "store", message, patient.where(*key), f"correct {'.'.join(key)}")
        return
    if revision is None:
        yield ok("store", "there is no database yet, or an empty one; the first start makes its tables")
    elif revision == REVISIONS[-1]:
        yield ok("store", f"the database is at revision {revision}, which this version needs")
        yield from refresh_tokens(patient)
    else:
        yield Finding(
            "warn",
            "store",
            f"the database is at revision {revision}; the next start moves it to {REVISIONS[-1]}",
            patient.where(*key),
            f"back it up first; then start `{program()} serve`",
        )
    if not sound:
        yield ok(
            "store",
            f"{CHECK_S:g} s did not suffice to look for damage; `{program()} backup FILE` checks its whole copy",
        )
    if revision is not None:
        yield ok("encryption key", "the encryption keys open everything in the database")
    if unguarded(config.store.url):
        yield Finding(
            "warn",
            "store",
            "the database's certificate is not checked, so that somebody between could read everything",
            patient.where(*key),
            "add ?sslmode=verify-full to store.url",
        )


def _sound(url: str) -> bool:
    """False where there was no time to look at the whole file. Raises StoreDamaged."""
    from gateway.store.look import quick_check, sqlite_path

    return quick_check(sqlite_path(url), at_most_s=CHECK_S)
