"""The location of the data folders: inside an installed package, or at the top of a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """Return the folder ``catalog`` or ``templates``: the installed wheel's copy in ``gateway/data`` if it exists, else
    the folder of the checkout."""
    installed = PACKAGE / "data" / name
    return installed if installed.is_dir() else PACKAGE.parent / name


def file(name: str) -> Path:
    """Return the path of ``gateway.yaml``, the reference configuration: the installed wheel's copy in ``gateway/data``
    if it exists, else the file of the checkout."""
    installed = PACKAGE / "data" / name
    return installed if installed.is_file() else PACKAGE.parent / name
