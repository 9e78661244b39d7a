"""Files that others may read although they hold secrets, and the room that is left on the disk."""

import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gateway.cli.diagnosis.finding import Finding, Level, ok
from gateway.cli.diagnosis.patient import Patient

FILE: Final = re.compile(r"(?<!\$)\$\{file:([^}]+)\}")
LOGIN: Final = re.compile(r"://[^/@]*:[^/@]+@")  # of a database, or of an outbound proxy
SECRETS: Final = frozenset({"encryption_keys", "secret_keys", "client_secret", "private_key", "webhook_signing_key"})
MOUNTED: Final = (Path("/run"), Path("/var/run"))  # by Docker, Kubernetes or systemd, whose modes are theirs
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
FULL_BYTES: Final = 100 << 20
TIGHT_BYTES: Final = 1 << 30


def files(patient: Patient) -> Iterator[Finding]:
    """Modes of the configuration, of the files it refers to and of the database, and free space."""
    config = patient.config
    assert config.path is not None
    doubts = []
    if any(_written_out(config.document.tree)):
        doubts += list(_open_to_others(config.path, "holds secrets"))
    for place, name in _referred(config.document.tree):
        path = config.path.parent / name
        if not path.is_relative_to(MOUNTED[0]) and not path.is_relative_to(MOUNTED[1]):
            doubts += list(_open_to_others(path, f"is read by {'.'.join(place)}"))
    database = _database(config.store.url)
    if database is not None and database.exists():
        doubts += list(_open_to_others(database, "holds the sealed credentials"))
    yield from dict.fromkeys(doubts)
    if not doubts:
        yield ok("files", "keys, configuration and database are their owner's alone")
    if database is not None:
        yield _room(patient, database)


def _open_to_others(path: Path, why: str) -> Iterator[Finding]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return  # told where the configuration is read
    if mode & OTHERS:
        who = "everybody" if mode & stat.S_IROTH else "its group"
        yield Finding(
            "warn", "files", f"{path} {why}, and {who} may read it ({mode:04o})", str(path), f"chmod 600 {path}"
        )


def _referred(tree: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every ``${file:name}``, with the keys that lead to it."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _referred(value, (*place, str(key)))
    elif isinstance(tree, list):
        for value in tree:
            yield from _referred(value, place)
    elif isinstance(tree, str):
        yield from ((place, name) for name in FILE.findall(tree))


def _written_out(tree: Any, key: str = "") -> Iterator[bool]:
    """True for each secret that stands in the configuration itself."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from _written_out(value, str(name))
    elif isinstance(tree, list):
        for value in tree:
            yield from _written_out(value, key)
    elif isinstance(tree, str) and "${" not in tree and (key in SECRETS or LOGIN.search(tree)):
        yield True


def _database(url: str) -> Path | None:
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def _room(patient: Patient, database: Path) -> Finding:
    folder = database.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as fault:
        return Finding("warn", "disk", f"the free space of {folder} cannot be told: {fault.strerror}", str(folder))
    told = f"{free >> 20:,} MiB are free in {folder}"
    if free >= TIGHT_BYTES:
        return ok("disk", told)
    level: Level = "fail" if free < FULL_BYTES else "warn"
    where = patient.where("store", "url")
    return Finding(level, "disk", told, where, "make room, or let store.url name a file elsewhere")
