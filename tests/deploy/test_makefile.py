"""The Makefile does not change the environment of another checkout."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import ROOT


@pytest.mark.skipif(shutil.which("make") is None, reason="this machine has no make")
@pytest.mark.parametrize("target", ["venv", "venv-dev"])
def test_linked_environment_is_refused_before_anything_is_installed(tmp_path: Path, target: str) -> None:
    checkout, shared, started = tmp_path / "checkout", tmp_path / "shared", tmp_path / "started"
    checkout.mkdir()
    shared.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, checkout)
    (checkout / ".venv").symlink_to(shared)
    done = subprocess.run(
        ["make", target, f"PYTHON=touch {started} #"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert (
        f"make: .venv is a symbolic link to {shared}, which make would overwrite. Remove the link: rm .venv"
        in done.stderr
    )
    assert not started.exists()
    assert list(shared.iterdir()) == []


PYTHON_STUB = """#!/bin/sh
case "$*" in "-m venv"*) mkdir -p .venv/bin
  for name in python uv gateway; do printf '#!/bin/sh\\necho "%s $*" >> calls\\n' $name > .venv/bin/$name; done
  chmod +x .venv/bin/*
esac
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="this machine has no make")
def test_installation_shows_its_steps_and_the_progress_of_the_packages(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "python"
    python.write_text(PYTHON_STUB)
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "venv", f"PYTHON={python}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("make: ")] == [
        "make: setting up .venv, in half a minute or more, depending on the network",
        "make: installing uv",
        "make: installing the packages of requirements.lock",
        "make: installing the gateway",
        "make: compiling Python files and the catalog",
    ]
    (packages,) = (call for call in (tmp_path / "calls").read_text().splitlines() if "requirements.lock" in call)
    assert " -q" not in packages, "uv shows its progress"
