"""Makes the start of test gateways faster: creates shared parts once per test process, and skips parts that no test
needs.
"""

import os
import ssl
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import Engine
from sqlalchemy.util import LRUCache

from gateway import resources
from gateway.app import lifetime
from gateway.catalog import load_catalog
from gateway.catalog.checks import ExternalNames
from gateway.config import Fault
from gateway.events.audit_keeper import AuditKeeper
from gateway.pages.templates import Templates


def share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the shipped catalog once, compile each SQL statement and page template once, and do not read the system's
    certificates.

    Tests need no system certificates, because no test calls a public host. Housekeeping and the keeper of the audit
    trail do not start by themselves, because they would then run at a time that depends on the machine. A test starts
    the part that it tests.
    """
    shipped, read, list_files = resources.folder("catalog"), load_catalog.rows_of_folder, load_catalog.entry_files
    shipped_files = list_files(shipped)
    known: dict[tuple[object, object], tuple[list[load_catalog.EntryRow], list[str]]] = {}

    def read_once(
        folder: Path,
        files: Sequence[Path],
        external_names: ExternalNames,
        earlier: Mapping[str, bytes],
        keys: list[str],
    ) -> Iterator[load_catalog.EntryRow]:
        if folder != shipped or earlier:
            return read(folder, files, external_names, earlier, keys)
        catalog_key = (_frozen(external_names.modes), _frozen(external_names.scripts))
        if catalog_key not in known:
            made: list[str] = []
            known[catalog_key] = (list(read(folder, files, external_names, earlier, made)), made)
        rows, made = known[catalog_key]
        keys += made
        return iter(rows)

    def files_once(folder: Path) -> tuple[list[Path], list[Fault]]:
        return shipped_files if folder == shipped else list_files(folder)

    load_all = ssl.SSLContext.load_default_certs

    def load_named(self: ssl.SSLContext, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
        if "SSL_CERT_FILE" in os.environ:  # the test itself has set the variable
            load_all(self, purpose)

    monkeypatch.setattr(lifetime, "HOUSEKEEPING_DELAY_S", 3600.0)
    monkeypatch.setattr(lifetime, "AuditKeeper", partial(AuditKeeper, batch_delay_s=3600.0))
    monkeypatch.setattr(load_catalog, "rows_of_folder", read_once)
    monkeypatch.setattr(load_catalog, "entry_files", files_once)
    configure = structlog.configure
    # A logger that caches its first configuration would keep that configuration in later tests.
    monkeypatch.setattr(structlog, "configure", lambda **how: configure(**{**how, "cache_logger_on_first_use": False}))
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load_named)
    # the environment keeps compiled templates, but reloads a file that has changed
    environment = Templates().environment
    monkeypatch.setattr(Templates, "environment", environment)
    compiled = SharedCache()
    monkeypatch.setattr(
        Engine, "_compiled_cache", property(lambda _: compiled, lambda _engine, _own: None), raising=False
    )


class SharedCache(LRUCache[Any, Any]):
    """A cache of compiled SQL statements that all engines share.

    SQLAlchemy has one cache per engine, and each key contains the engine's own dialect. This cache treats dialects as
    equal if they have the same class and server version, because such dialects compile the same SQL.
    """

    def __init__(self) -> None:
        super().__init__(capacity=5000)

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_dialect_key(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_dialect_key(key), compiled)


def _dialect_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *statement = key
    return type(dialect), dialect.server_version_info, *statement


def _frozen(names: Collection[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
