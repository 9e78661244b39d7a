"""The vendors' SDKs that the tests use, and where they are installed."""

from collections.abc import Collection
from pathlib import Path

from tests.fakes import installed

HERE = Path(__file__).parent


def python(only: Collection[str] | None = None) -> Path:
    """Return an interpreter with the SDKs of requirements.txt, or `only` some. Skip the test if they cannot be installed."""
    lines = (HERE / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    return installed.python("sdks", [pin for pin in pins if only is None or pin.partition("==")[0] in only])


def node_modules() -> Path:
    """Return a folder with the packages of package.json. Skip the test if they or node cannot be installed."""
    return installed.node_modules("sdks", HERE / "package.json")
