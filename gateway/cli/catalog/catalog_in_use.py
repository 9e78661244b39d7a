"""Loads the catalog for commands, with the scripts and auth modes of this installation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway import resources
from gateway.catalog.checks import ExternalNames
from gateway.catalog.lint import lint
from gateway.catalog.load_catalog import Catalog, EntryValues
from gateway.catalog.yaml_file import CatalogFault
from gateway.config import load
from gateway.integrations.declared import SCRIPTS, catalog_of, known_modes

DEFAULT_URL = "http://127.0.0.1:3003"


def lint_folders(folders: Sequence[Path]) -> list[CatalogFault]:
    """Return the faults and warnings of the entries in `folders`."""
    shipped = resources.folder("catalog")
    base_folders = [] if shipped in folders else [shipped]
    return lint(folders, scripts=SCRIPTS, modes=known_modes(), base_folders=base_folders)


def external_names() -> ExternalNames:
    """Return the auth modes and scripts that an entry may use on this installation."""
    return ExternalNames(known_modes(), SCRIPTS)


def shipped_values() -> Mapping[str, Mapping[str, Any]]:
    """Return the shipped entries by name, each with all its fields."""
    return EntryValues(catalog_of(None).providers.contents)


def catalog_and_url(file: Path | None) -> tuple[Catalog, str]:
    """Return the catalog, and the public URL at the beginning of its logo URLs.

    `file`: the configuration whose catalog folders are added; None: only the shipped catalog. Raises Faults and
    CatalogFaults.
    """
    config = load(file) if file else None
    return catalog_of(config), config.server.public_url if config else DEFAULT_URL
