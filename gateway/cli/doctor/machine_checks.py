"""Checks of this machine: file permissions, disk space, the store, the refresh journal."""

import asyncio
import contextlib
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from gateway.catalog.refresh_tokens import advice_on_refresh_token
from gateway.cli.doctor.findings import DoctorFinding, ExaminedGateway, Level, ok
from gateway.cli.terminal import configuration_option, program
from gateway.config.exposed import SQLITE, exposed_files
from gateway.config.store_url import is_unverified_remote
from gateway.journal.journal_folder import NO_FOLDER, journal_beside, journal_of_node
from gateway.journal.segment import Segment
from gateway.store.preflight import (
    check_database,
    connections_ending_with_token,
    connections_without_stored_integration,
)
from gateway.store.preflight_checks import REVISIONS, StoreDamaged, StoreRefused
from gateway.store.sqlite.file_preflight import sqlite_path
from gateway.text import counted

# ── Files with secrets that other users can read, and free disk space.

FAIL_BELOW_BYTES: Final = 100 << 20
WARN_BELOW_BYTES: Final = 1 << 30


def check_files(examined: ExaminedGateway) -> Iterator[DoctorFinding]:
    """Check the file modes of the configuration, its secret files and the database, and the free disk space."""
    config = examined.config
    files = exposed_files(config)
    for file in files:
        yield DoctorFinding("warn", "files", file.message, str(file.path), file.fix)
    if not files:
        yield ok("files", "only the owner of the files can read keys, configuration and database")
    if config.store.url.startswith(SQLITE):
        yield _check_free_space(examined, Path(config.store.url.removeprefix(SQLITE)))


def _check_free_space(examined: ExaminedGateway, database: Path) -> DoctorFinding:
    folder = database.parent
    try:
        free_bytes = shutil.disk_usage(folder).free
    except OSError as fault:
        return DoctorFinding("warn", "disk", f"the free space of {folder} is unknown: {fault.strerror}", str(folder))
    message = f"{free_bytes >> 20:,} MiB are free in {folder}"
    if free_bytes >= WARN_BELOW_BYTES:
        return ok("disk", message)
    level: Level = "fail" if free_bytes < FAIL_BELOW_BYTES else "warn"
    location = examined.file_and_line("store", "url")
    return DoctorFinding(level, "disk", message, location, "free space, or set store.url to a file on another disk")


# ── The store: whether the gateway can reach it, its revision, and whether the encryption keys match. These checks do
# not write to the store.

DAMAGE_CHECK_TIMEOUT_S: Final = 10.0


def check_refresh_tokens(examined: ExaminedGateway) -> Iterator[DoctorFinding]:
    """Warn about integrations that have connections without a refresh token.

    Such a connection ends when its access token expires.
    """
    by_name = {integration.name: integration for integration in examined.integrations}
    try:
        ending_connections = connections_ending_with_token(examined.config.store)
    except StoreRefused:  # for example, another process locks the file; `check_store` reports such faults
        return
    for environment, key, count, first_end in ending_connections:
        integration = by_name.get(f"{environment}/{key}")
        if integration is None:
            continue
        has_no_token_text = "has no refresh token and ends" if count == 1 else "have no refresh token and end"
        message = (
            f"{counted(count, 'connection')} {has_no_token_text} with its access token, the next on {first_end} UTC"
        )
        scopes = (
            integration.config.scopes
            if integration.config.scopes is not None
            else integration.provider.default_scopes or ()
        )
        advice = advice_on_refresh_token(integration.provider, scopes)
        yield DoctorFinding(
            "warn", "refresh tokens", message, examined.file_and_line(*integration.place), advice, integration.name
        )


def check_connections(examined: ExaminedGateway) -> Iterator[DoctorFinding]:
    """Warn about connections that no call can use: their integration was removed, renamed, or has another provider."""
    environments = examined.config.environments
    try:
        orphaned = connections_without_stored_integration(examined.config.store)
    except StoreRefused:  # as in `check_refresh_tokens`
        return
    for environment, key, provider, number in orphaned:
        place: tuple[str, ...] = ("environments",)
        if environment not in environments:
            reason, fix = f"environment '{environment}' is not declared", f"declare environment '{environment}' again"
        elif (declared := environments[environment].integrations.get(key)) is None:
            place = (*place, environment, "integrations")
            reason, fix = f"integration '{key}' is not declared", f"declare '{key}' with provider '{provider}' again"
        elif declared.provider != provider:
            place = (*place, environment, "integrations", key)
            reason, fix = (
                f"integration '{key}' uses provider '{declared.provider}'",
                f"set provider: '{provider}' again",
            )
        else:
            continue
        message = f"{counted(number, 'connection')} of provider '{provider}' cannot be used: {reason}"
        yield DoctorFinding("warn", "connections", message, examined.file_and_line(*place), fix, f"{environment}/{key}")


def check_store(examined: ExaminedGateway) -> Iterator[DoctorFinding]:
    """Check the store. Blocks for a limited time.

    PostgreSQL has `store.pool.connect_s` seconds to accept the connection, and the same time to respond. The check of a
    SQLite file ends after `DAMAGE_CHECK_TIMEOUT_S` seconds.
    """
    config = examined.config
    key = ("store", "url")
    try:
        revision = check_database(config.store)
        is_sound = revision is None or not config.store.url.startswith("sqlite:") or _is_sound(config.store.url)
    except StoreDamaged as damage:
        fix = f"stop the gateway, then `{program()} restore BACKUP{configuration_option(config.path)}`"
        yield DoctorFinding("fail", "store", str(damage), examined.file_and_line(*key), fix)
        return
    except StoreRefused as refusal:
        message = str(refusal)
        if "encryption_keys" in message:
            key = ("store", "encryption_keys")
        fix = refusal.fix or f"correct {'.'.join(key)}"
        yield DoctorFinding("fail", "store", message, examined.file_and_line(*key), fix)
        return
    if revision is None:
        yield ok("store", "the database does not exist or is empty; the first start creates its tables")
    elif revision == REVISIONS[-1]:
        yield ok("store", f"the database has revision {revision}, which this version needs")
        yield from check_refresh_tokens(examined)
        yield from check_connections(examined)
    else:
        yield DoctorFinding(
            "warn",
            "store",
            f"the database has revision {revision}; the next start upgrades it to {REVISIONS[-1]}",
            examined.file_and_line(*key),
            f"back it up, then run `{program()} serve{configuration_option(config.path)}`",
        )
    if not is_sound:
        yield ok(
            "store",
            f"the check for damage stopped after {DAMAGE_CHECK_TIMEOUT_S:g} s; for a complete check, run "
            f"`{program()} backup FILE{configuration_option(config.path)}`",
        )
    if revision is not None:
        yield ok("encryption key", "the encryption keys match the database")
    if is_unverified_remote(config.store.url):
        yield DoctorFinding(
            "warn",
            "store",
            "the database server's certificate is not verified, so an attacker in the network could read everything",
            examined.file_and_line(*key),
            "add ?sslmode=verify-full to store.url",
        )


def _is_sound(url: str) -> bool:
    """Return whether the whole file was checked; False if the time was not enough. Raises StoreDamaged."""
    from gateway.store.sqlite.file_preflight import quick_check, sqlite_path

    return quick_check(sqlite_path(url), at_most_s=DAMAGE_CHECK_TIMEOUT_S)


# ── The refresh journal, which keeps token endpoints' replies if a process is killed: whether it can be written.

JOURNAL = "journal"
RISK = "a token may be lost if a process is killed while refreshing it"


async def check_journal(examined: ExaminedGateway) -> AsyncIterator[DoctorFinding]:
    """Check that this user can write the refresh journal on this machine. No file is left behind."""
    url, location = examined.config.store.url, examined.file_and_line("store", "url")
    folder = journal_beside(sqlite_path(url)) if url.startswith("sqlite:") else journal_of_node("doctor")
    if folder is None:
        yield DoctorFinding(
            "warn",
            JOURNAL,
            f"{RISK}: there is no folder for the refresh journal",
            location,
            NO_FOLDER.partition(": ")[2],
        )
        return
    if not folder.parent.exists():
        return  # `check_store` reports the missing folder
    exists = folder.exists()
    try:
        await asyncio.to_thread(lambda: Segment(folder, f"doctor-{secrets.token_hex(6)}").close(remove=True))
    except OSError as fault:
        detail = f"{RISK}: the refresh journal cannot be written in {folder} ({fault.strerror})"
        fix = (
            "free space and give the service's user write permission for that folder, or set store.url to a file in "
            "another folder"
        )
        yield DoctorFinding("warn", JOURNAL, detail, location, fix)
        return
    if not exists:
        with contextlib.suppress(OSError):  # removing the folder fails if a gateway has started to use it
            folder.rmdir()
    yield ok(JOURNAL, f"this user can write the refresh journal in {folder.parent}")
