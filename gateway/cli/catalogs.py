"""The catalog as the commands see it: read with the scripts and auth modes that a gateway started here would have."""

from collections.abc import Sequence
from pathlib import Path

from gateway import resources
from gateway.auth import modes
from gateway.catalog.faults import Fault
from gateway.catalog.lint import lint
from gateway.catalog.load import Catalog, load_catalog
from gateway.config import Config, load
from gateway.scripts import POST_CONNECTION, WEBHOOK_ROUTING

DEFAULT_URL = "http://127.0.0.1:3003"


def catalog_for(config: Config | None) -> Catalog:
    """The shipped catalog, then the folders that `config` adds. Raises CatalogFaults."""
    folders = [resources.folder("catalog"), *(config.catalog if config else ())]
    return load_catalog(folders, scripts=scripts(), modes=modes().keys())


def linted(folders: Sequence[Path]) -> list[Fault]:
    """What is wrong with the entries in `folders`, and what could be better."""
    return lint(folders, scripts=scripts(), modes=modes().keys())


def scripts() -> set[str]:
    """The names that an entry may give as its scripts."""
    return {*POST_CONNECTION, *WEBHOOK_ROUTING}


def catalog_and_url(file: Path | None) -> tuple[Catalog, str]:
    """The catalog, and the public URL under which its logos are shown. Raises Faults, CatalogFaults."""
    config = load(file) if file else None
    return catalog_for(config), config.server.public_url if config else DEFAULT_URL
