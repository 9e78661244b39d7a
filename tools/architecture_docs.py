"""Generates two blocks of docs/architecture.md: the packages, from their docstrings, and the floors, from pyproject.toml."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent


def packages() -> Iterator[tuple[str, Path]]:
    """Yield each package's import name (``gateway.access`` …) and folder. `gateway.middleware` is in middleware/."""
    for folder in sorted(init.parent for init in (ROOT / "gateway").rglob("__init__.py")):
        name = ".".join(folder.relative_to(ROOT).parts)
        if not name.startswith("gateway.middleware"):
            yield name, folder
    yield "gateway.middleware", ROOT / "middleware"


def docstring(folder: Path) -> str:
    """Return the docstring of a package, or "" if it has none."""
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""


def packages_table() -> str:
    """Return a Markdown table: each package except the root, and the first line of its docstring."""
    lines = ["| package | subject |", "|---|---|"]
    for name, folder in packages():
        if name == "gateway":
            continue
        where = folder.relative_to(ROOT).as_posix()
        subject = docstring(folder).partition("\n")[0].replace("``", "`").replace("|", "\\|")
        lines.append(f"| [`{where}/`](../{where}/__init__.py) | {subject} |")
    return "\n".join(lines)


def floors() -> list[list[str]]:
    """Return the floors of the first import contract, the highest floor first. Each has its modules, without
    ``gateway.``.
    """
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers: list[str] = contracts[0]["layers"]
    return [[part.strip().removeprefix("gateway.") for part in re.split(r"[|:]", layer)] for layer in layers]


def floors_table() -> str:
    """Return a Markdown table: the number of each floor (1 is the lowest) and its modules."""
    levels = floors()
    lines = ["| floor | modules |", "|---|---|"]
    for number, modules in zip(range(len(levels), 0, -1), levels, strict=True):
        lines.append(f"| {number} | {' '.join(f'`{module}`' for module in modules)} |")
    return "\n".join(lines)
