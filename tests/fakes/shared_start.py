"""The parts that every gateway of a test process needs at its start are made once; parts that no test requests are left out."""

import os
import ssl
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from gateway.pages.templates import Templates


def share(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped catalog is read once, each SQL statement and each page template is compiled once, and no certificates
    of the system are read, since no test calls a public host. Housekeeping does not begin by itself within a test, at a
    moment that depends on the machine: a test runs the part that it is about."""
    shipped, read, list_files = resources.folder("catalog"), load_catalog.rows_of_folder, load_catalog.files_in
    shipped_files = list_files(shipped)
    known: dict[tuple[object, object], tuple[list[load_catalog.Row], list[str]]] = {}

    def read_once(
        folder: Path, files: Sequence[Path], words: ExternalNames, earlier: Mapping[str, bytes], keys: list[str]
    ) -> Iterator[load_catalog.Row]:
        if folder != shipped or earlier:
            return read(folder, files, words, earlier, keys)
        asked = (_frozen(words.modes), _frozen(words.scripts))
        if asked not in known:
            made: list[str] = []
            known[asked] = (list(read(folder, files, words, earlier, made)), made)
        rows, made = known[asked]
        keys += made
        return iter(rows)

    def files_once(folder: Path) -> tuple[list[Path], list[Fault]]:
        return shipped_files if folder == shipped else list_files(folder)

    load_all = ssl.SSLContext.load_default_certs

    def load_named(self: ssl.SSLContext, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
        if "SSL_CERT_FILE" in os.environ:  # the test's own
            load_all(self, purpose)

    monkeypatch.setattr(lifetime, "HOUSEKEEPING_AFTER_S", 3600.0)
    monkeypatch.setattr(load_catalog, "rows_of_folder", read_once)
    monkeypatch.setattr(load_catalog, "files_in", files_once)
    configure = structlog.configure
    # A logger that remembers its first set-up would keep it for the tests that follow.
    monkeypatch.setattr(structlog, "configure", lambda **how: configure(**{**how, "cache_logger_on_first_use": False}))
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load_named)
    environment = Templates().environment  # it keeps compiled templates, and reads a changed file again
    monkeypatch.setattr(Templates, "environment", environment)
    compiled = SharedCache()
    monkeypatch.setattr(
        Engine, "_compiled_cache", property(lambda _: compiled, lambda _engine, _own: None), raising=False
    )


class SharedCache(LRUCache[Any, Any]):
    """Compiled statements of all engines. SQLAlchemy has a cache an engine, with the engine's own dialect in each key;
    here dialects of one class that have met one version of a server are one, since they compile alike."""

    def __init__(self) -> None:
        super().__init__(capacity=5000)

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_alike(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_alike(key), compiled)


def _alike(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *statement = key
    return type(dialect), dialect.server_version_info, *statement


def _frozen(names: Collection[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
