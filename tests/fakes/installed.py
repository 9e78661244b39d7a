"""Packages that only tests need. Each set is installed only once, outside of the repository.

The folder's name is a hash of the requirements. If the packages cannot be installed, the test is skipped, with the
reason.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

LIMIT_S = 240
# Without a network, the installation gives up early, and the test is skipped.
IMPATIENT = {"UV_HTTP_TIMEOUT": "15", "UV_HTTP_RETRIES": "1", "PIP_RETRIES": "1", "npm_config_fetch_retries": "1"}


def python(name: str, pins: Sequence[str]) -> Path:
    """Return a Python interpreter with the packages `pins`. Skip the test if they cannot be installed."""
    folder = _folder(f"{name}-python", "\n".join(pins))
    interpreter = folder / "bin" / "python"
    uv = Path(sys.executable).parent / "uv"
    with _exclusive(folder):
        if not (folder / ".whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run(name, [sys.executable, "-m", "venv", "--without-pip", str(folder)])
            install = (
                [str(uv), "pip", "install", "-q"] if uv.exists() else [sys.executable, "-m", "pip", "-q", "install"]
            )
            _run(name, [*install, "--python", str(interpreter), *pins])
            (folder / ".whole").touch()
    return interpreter


def node_modules(name: str, package_json: Path) -> Path:
    """Return a folder with the packages of `package_json`. Skip the test if they or node cannot be installed."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = _folder(f"{name}-node", package_json.read_text())
    with _exclusive(folder):
        if not (folder / ".whole").exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(package_json, folder / "package.json")
            quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"]
            _run(name, ["npm", "install", "--prefix", str(folder), *quiet])
            (folder / ".whole").touch()
    return folder / "node_modules"


def debian(name: str, packages: Sequence[str]) -> Path:
    """Return a folder with the files of Debian `packages` (``name`` or ``name=version``), unpacked but not configured.

    Dependencies are not unpacked: the system's libraries are used. Skip the test if apt does not have these packages.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip(f"{name} is a Debian package, and apt-get and dpkg are not installed")
    folder = _folder(f"{name}-debian", "\n".join(packages))
    with _exclusive(folder):
        if not (folder / ".whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            archives = folder / "archives"
            archives.mkdir(parents=True)
            # These tests use package lists of their own, because the system may have none, and only root can write the
            # system's lists.
            lists = folder / "lists"
            (lists / "partial").mkdir(parents=True)
            apt = ["apt-get", "-q", "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={folder}"]
            apt += ["-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=15"]
            _run(name, [*apt, "update"])
            _run(name, [*apt, "download", *packages], archives)
            for archive in archives.iterdir():
                _run(name, ["dpkg", "-x", str(archive), str(folder / "root")])
            shutil.rmtree(lists)
            (folder / ".whole").touch()
    return folder / "root"


def _folder(kind: str, wanted: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(f"{version}\n{wanted}".encode()).hexdigest()[:16]
    return cache / "integration-gateway" / f"{kind}-{digest}"


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Lock the folder, because several test processes may install at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(name: str, command: list[str], folder: Path | None = None) -> None:
    environ = {**os.environ, **IMPATIENT}
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S, env=environ, cwd=folder)
    except subprocess.CalledProcessError as fault:
        pytest.skip(f"{name} cannot be installed here: {(fault.stderr or '').strip()[-300:]}")
    except (OSError, subprocess.TimeoutExpired) as fault:
        pytest.skip(f"{name} cannot be installed here: {fault}")
