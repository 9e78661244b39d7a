"""The catalog as the commands see it: read with the scripts and auth modes that a gateway started here would have."""

from collections.abc import Sequence
from pathlib import Path

from gateway import resources
from gateway.catalog.faults import Fault
from gateway.catalog.lint import lint
from gateway.catalog.load import Catalog
from gateway.config import load
from gateway.declared import SCRIPTS, catalog_of, known_modes

DEFAULT_URL = "http://127.0.0.1:3003"


def linted(folders: Sequence[Path]) -> list[Fault]:
    """What is wrong with the entries in `folders`, and what could be better."""
    shipped = resources.folder("catalog")
    below = [] if shipped in folders else [shipped]
    return lint(folders, scripts=SCRIPTS, modes=known_modes(), below=below)


def catalog_and_url(file: Path | None) -> tuple[Catalog, str]:
    """The catalog, and the public URL under which its logos are shown. Raises Faults, CatalogFaults."""
    config = load(file) if file else None
    return catalog_of(config), config.server.public_url if config else DEFAULT_URL
