"""Every module stands on a floor: what import-linter is not told of, it does not watch."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_module_stands_on_a_floor() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    floors = {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    modules = {
        f"gateway.{path.stem}"
        for path in (ROOT / "gateway").iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists()) and path.stem != "__init__"
    }
    assert modules | {"middleware"} == floors
