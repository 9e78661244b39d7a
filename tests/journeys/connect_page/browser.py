"""Chromium and npm packages for tests. A test is skipped if Chromium or the packages cannot be found."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP *.example 127.0.0.1",  # for pages that must appear to come from another machine
]
# Debian's `chromium-headless-shell` is the same engine without Chromium's windows. A page in it costs half the CPU time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CACHE = Path(tempfile.gettempdir()) / "integration-gateway-npm"
AXE_IS_LOADED = "typeof window.axe?.run === 'function'"  # by an earlier call on the same page
AXE_RUN = "axe.run(document, {resultTypes: ['violations']})"


def chromium() -> str:
    """Return the path of Chromium or Chrome. Skip the test if neither is installed."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip("there is no Chromium here: install Debian's `chromium-headless-shell`")
    return found


@asynccontextmanager
async def launch_browser() -> AsyncIterator[Any]:
    """Yield a headless browser with a new profile."""
    path = chromium()
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        pytest.skip("PyPI's `playwright` is not installed: `make venv-dev` does that")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, headless=True, args=SWITCHES)
        try:
            yield browser
        finally:
            await browser.close()


def npm(*packages: str) -> Path:
    """Return a `node_modules` folder with these packages, installed once outside of the repository. Skip the test on
    failure.

    Each set of packages has its own folder, because `npm install` removes all other packages. The packages are
    installed to a temporary folder, which is then renamed. So concurrent processes never see an incomplete folder.
    """
    folder = Path(f"{CACHE}-{sha256(' '.join(packages).encode()).hexdigest()[:12]}")
    if folder.exists():
        return folder / "node_modules"
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, so the published packages cannot be downloaded")
    with tempfile.TemporaryDirectory(prefix="integration-gateway-npm-", ignore_cleanup_errors=True) as aside:
        (Path(aside) / "package.json").write_text("{}")
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", *packages]
        try:
            done = subprocess.run(command, cwd=aside, capture_output=True, text=True, timeout=90, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm did not install {' '.join(packages)} within 90 s")
        if done.returncode != 0:
            pytest.skip(f"npm cannot install {' '.join(packages)}: {done.stderr.strip()[-200:]}")
        with suppress(OSError):  # another process has installed the same packages in the meantime
            Path(aside).rename(folder)
    return folder / "node_modules"


async def violations(page: Any) -> list[str]:
    """Return the accessibility problems that axe finds on the page in its current state, as ``rule: element``."""
    script = (await asyncio.to_thread(npm, "axe-core")) / "axe-core" / "axe.min.js"
    if not await page.evaluate(AXE_IS_LOADED):
        # The script runs in the debugger's context: the page's policy forbids foreign scripts, and the test must not
        # change it.
        source = await asyncio.to_thread(script.read_text)
        await page.evaluate(source + "; undefined")
    found = await page.evaluate(AXE_RUN)
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
