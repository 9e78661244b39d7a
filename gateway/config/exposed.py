"""Finds what a configuration exposes to other users and machines: files with secrets, and the metrics port."""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from os import geteuid
from pathlib import Path
from typing import Any, Final, get_args

from gateway.config.model import Config, ServerConfig
from gateway.config.values import is_loopback
from gateway.documents.read_document import Place, dotted
from gateway.secret import Secret

# ── The metrics port, which needs no key.


@dataclass(frozen=True, slots=True)
class OpenPort:
    message: str
    fix: str


def open_port_warning(server: ServerConfig, address: str) -> OpenPort | None:
    """Return a warning if other machines can reach the admin port on `address`, and `admin_host` is not set.

    Otherwise return None.
    """
    if server.admin_host is not None or is_loopback(address):
        return None
    return OpenPort(
        f"everybody who can connect to {address} can read the metrics on server.admin_port, which need no key",
        f"set server.admin_host: 127.0.0.1, or the address at which your monitoring reads them ({address} if intended)",
    )


# ── Files with secrets that other users of this machine can read.

FILE_REFERENCE: Final = re.compile(r"(?<!\$)\$\{file:([^}]+)\}")
LOGIN: Final = re.compile(r"://[^/@]*:[^/@]+@")  # user and password of a database or an outbound proxy
# These URLs can contain a user name and a password.
URLS_WITH_LOGIN: Final[frozenset[Place]] = frozenset({("store", "url"), ("egress", "proxy")})
MOUNTED_FOLDERS: Final = (
    Path("/run"),
    Path("/var/run"),
)  # Docker, Kubernetes and systemd mount files in these folders and set the files' permissions
GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
SQLITE: Final = "sqlite:///"


@dataclass(frozen=True, slots=True)
class ExposedFile:
    """A file that other users of this machine can read.

    `risk`: why this is a risk. `readers`: the users who can read the file. `mode`: the permission bits of the file.
    """

    path: Path
    risk: str
    readers: str
    mode: int

    @property
    def message(self) -> str:
        return f"{self.path} {self.risk}, and {self.readers} may read it ({self.mode:04o})"

    @property
    def fix(self) -> str:
        return f"chmod 600 {self.path}"


def exposed_files(config: Config) -> list[ExposedFile]:
    """Return the files of `config` that other users can read.

    Checked are gateway.yaml if it contains secrets, the files with secrets that it names, and the SQLite database. Each
    file is returned once, with the first reason.
    """
    if config.path is None:
        return []
    reasons = dict[Path, str]()
    for place, text in _texts(config.document.tree):
        if not _may_hold_secret(place):
            continue
        if "${" not in text and (LOGIN.search(text) or place not in URLS_WITH_LOGIN):
            reasons.setdefault(config.path, "contains secrets")
        for name in FILE_REFERENCE.findall(text):
            reasons.setdefault(config.path.parent / name, f"is read by {dotted(place)}")
    if config.store.url.startswith(SQLITE):
        database = Path(config.store.url.removeprefix(SQLITE))
        for suffix in ("", "-wal"):
            reasons.setdefault(database.with_name(database.name + suffix), "contains the sealed credentials")
    return [
        exposed_file
        for path, reason in reasons.items()
        if (exposed_file := _find_exposed_file(path, reason)) is not None
    ]


def _find_exposed_file(path: Path, reason: str) -> ExposedFile | None:
    """Return the file if other users can read it; None if they cannot, or if the file does not exist.

    If another user owns the file, its group may read it, because the gateway can be a member of this group.
    """
    if any(path.is_relative_to(folder) for folder in MOUNTED_FOLDERS):
        return None
    try:
        status = path.stat()
    except OSError:
        return None  # loading the configuration reports an unreadable file
    mode = stat.S_IMODE(status.st_mode)
    if not mode & (GROUP_AND_OTHERS if status.st_uid == geteuid() else stat.S_IRWXO):
        return None
    return ExposedFile(path, reason, "everybody" if mode & stat.S_IRWXO else "its group", mode)


def _texts(tree: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _texts(value, (*place, str(key)))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _texts(value, (*place, str(index)))
    elif isinstance(tree, str):
        yield place, tree


def _may_hold_secret(place: Place) -> bool:
    """Return whether the value at `place` is a secret, or a URL that can contain a secret."""
    return place in URLS_WITH_LOGIN or any(step in _secret_keys() for step in place)


@cache
def _secret_keys() -> frozenset[str]:
    from gateway.config.config_shape import SECTIONS

    return frozenset(
        name
        for shape in SECTIONS.values()
        for name, field in shape.model_fields.items()
        if _contains_secret(field.annotation)
    )


def _contains_secret(annotation: Any) -> bool:
    return annotation is Secret or any(map(_contains_secret, get_args(annotation)))
