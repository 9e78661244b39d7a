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
