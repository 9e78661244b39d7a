"""The location of the data folders: inside an installed package, or at the top of a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """Return the folder ``catalog`` or ``templates``:
    the wheel's copy in ``gateway/data`` if present, else the checkout's."""
    installed = PACKAGE / "data" / name
    return installed if installed.is_dir() else PACKAGE.parent / name


def file(name: str) -> Path:
    """Return the path of ``gateway.yaml``, the reference configuration, found in the same way."""
    installed = PACKAGE / "data" / name
    return installed if installed.is_file() else PACKAGE.parent / name
