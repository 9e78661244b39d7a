"""npm packages, each installed once in a folder of the user's cache. No lock file is written."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

OPTIONS = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def install_package(package: str, version: str) -> Path:
    """Return the folder in which Node finds `package`. Skip the test if Node, npm or the registry is missing."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "integration-gateway-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{package.strip('@').replace('/', '-')}-{version}"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (folder / "node_modules" / package / "package.json").exists():
            fresh = folder.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            (fresh / "package.json").write_text('{"private": true}')
            try:
                ran = subprocess.run(
                    ["npm", "install", *OPTIONS, f"{package}@{version}"],
                    cwd=fresh,
                    capture_output=True,
                    text=True,
                    timeout=100,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                pytest.skip(f"npm did not install {package}@{version} in time")
            if ran.returncode != 0:
                pytest.skip(f"npm cannot install {package}@{version} here: {ran.stderr.strip()[-200:]}")
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
    return folder
