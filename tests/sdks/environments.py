"""Where the SDKs are installed: once, outside the repository, under a name that changes with what is asked for."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIMIT_S = 240
# Without a network, a test is skipped soon.
IMPATIENT = {"UV_HTTP_TIMEOUT": "15", "UV_HTTP_RETRIES": "1", "PIP_RETRIES": "1", "npm_config_fetch_retries": "1"}


def python(only: Collection[str] | None = None) -> Path:
    """An interpreter with the SDKs of requirements.txt, or `only` some. Skips the test where they cannot be had."""
    lines = (HERE / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    wanted = [pin for pin in pins if only is None or pin.partition("==")[0] in only]
    folder = _folder("python", "\n".join(wanted))
    interpreter = folder / "bin" / "python"
    uv = Path(sys.executable).parent / "uv"
    with _one_at_a_time(folder):
        if not (folder / ".whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
            install = (
                [str(uv), "pip", "install", "-q"] if uv.exists() else [sys.executable, "-m", "pip", "-q", "install"]
            )
            _run([*install, "--python", str(interpreter), *wanted])
            (folder / ".whole").touch()
    return interpreter


def node_modules() -> Path:
    """A folder with the packages of package.json. Skips the test where they, or node, cannot be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    wanted = HERE / "package.json"
    folder = _folder("node", wanted.read_text())
    with _one_at_a_time(folder):
        if not (folder / ".whole").exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(wanted, folder / "package.json")
            quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"]
            _run(["npm", "install", "--prefix", str(folder), *quiet])
            (folder / ".whole").touch()
    return folder / "node_modules"


def _folder(kind: str, wanted: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(f"{version}\n{wanted}".encode()).hexdigest()[:16]
    return cache / "integration-gateway" / f"sdks-{kind}-{digest}"


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Tests run in several processes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str]) -> None:
    try:
        environ = {**os.environ, **IMPATIENT}
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S, env=environ)
    except subprocess.CalledProcessError as fault:
        pytest.skip(f"the SDKs cannot be installed here: {(fault.stderr or '').strip()[-300:]}")
    except (OSError, subprocess.TimeoutExpired) as fault:
        pytest.skip(f"the SDKs cannot be installed here: {fault}")
