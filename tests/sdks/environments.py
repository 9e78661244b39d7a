"""The vendors' SDKs that the tests drive: which ones, and where they are installed."""

from collections.abc import Collection
from pathlib import Path

from tests.fakes import installed

HERE = Path(__file__).parent


def python(only: Collection[str] | None = None) -> Path:
    """An interpreter with the SDKs of requirements.txt, or `only` some. Skips the test where they cannot be installed."""
    lines = (HERE / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    return installed.python("sdks", [pin for pin in pins if only is None or pin.partition("==")[0] in only])


def node_modules() -> Path:
    """A folder with the packages of package.json. Skips the test where they, or node, cannot be installed."""
    return installed.node_modules("sdks", HERE / "package.json")
