"""Where the data folders lie: inside an installed package, or at the top of a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """``catalog`` or ``templates``: the wheel's copy under ``gateway/data`` if there is one, else the checkout's."""
    installed = PACKAGE / "data" / name
    return installed if installed.is_dir() else PACKAGE.parent / name


def file(name: str) -> Path:
    """``gateway.yaml``, the reference configuration, found the same way."""
    installed = PACKAGE / "data" / name
    return installed if installed.is_file() else PACKAGE.parent / name
