"""Each class name and file name is used once in the product, so that a search finds one place."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

CLASS: Final = re.compile(r"^[ \t]*class (\w+)[(:\[]", re.MULTILINE)
TOP: Final = Path(__file__).parents[1]
FILES: Final = [path for package in ("gateway", "middleware") for path in (TOP / package).rglob("*.py")]
# `gateway.client.GatewayError` is the name that callers catch; `gateway.errors.GatewayError` is its base in the server.
TWICE: Final = {"GatewayError"}


def modules() -> list[Path]:
    """Return each file once: `gateway/middleware` is a link to `middleware`."""
    return sorted({path.resolve() for path in FILES})


def test_a_class_name_is_used_once() -> None:
    names = Counter(name for path in modules() for name in CLASS.findall(path.read_text()))
    assert names["Connection"] == 1
    assert {name for name, count in names.items() if count > 1} == TWICE


def test_a_file_name_is_used_once() -> None:
    names = Counter(path.name for path in modules() if not path.name.startswith("__"))
    assert {name for name, count in names.items() if count > 1} == set()
