"""Every module is on a floor: import-linter checks only modules that it knows."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_module_is_on_a_floor() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    floors = {name.strip() for layer in contract["layers"] for name in re.split(r"[|:]", layer)}
    split_packages = {
        ".".join(name.split(".")[:2]) for name in floors if name.count(".") == 2
    }  # packages whose modules are on several floors
    modules = {
        f"gateway.{path.stem}"
        for path in (ROOT / "gateway").iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists()) and path.stem != "__init__"
    }
    for package in split_packages:
        modules.remove(package)
        folder = ROOT / package.replace(".", "/")
        modules |= {f"{package}.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    assert modules == floors
