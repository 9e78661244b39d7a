"""The database that `backup` and `restore` work on: a file, or PostgreSQL, whose own tools do it."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from gateway.vault import Keyring


def sqlite_file(file: Path, instead: str) -> "tuple[Path, Keyring]":
    """The file of the store that the configuration in `file` names, there or not, and the keys that open it.

    Where the store is PostgreSQL, exits 1 with the command to give `instead`, its ``{url}`` without the password.
    Raises what `config.load` raises.
    """
    from gateway.config import load
    from gateway.vault import Keyring

    config = load(file)
    _refuse_postgresql(config.store.url, instead)
    from gateway.store.look import sqlite_path

    return sqlite_path(config.store.url), Keyring(config.store.encryption_keys)


def _refuse_postgresql(url: str, instead: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "postgresql":
        return
    user, _, host = parts.netloc.rpartition("@")
    bare = f"{user.partition(':')[0]}@{host}" if user else host
    shown = shlex.quote(urlunsplit(parts._replace(netloc=bare)))
    told = f"The store is PostgreSQL, whose own tools do this: {instead.format(url=shown)}"
    print(f"gateway: {told}", file=sys.stderr)
    sys.exit(1)
