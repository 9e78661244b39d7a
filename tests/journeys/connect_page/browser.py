"""Chromium for tests, and npm packages. A test is skipped if it cannot find them."""

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
    "--host-resolver-rules=MAP *.example 127.0.0.1",  # for pages that appear to be on another machine
]
CACHE = Path(tempfile.gettempdir()) / "integration-gateway-npm"
AXE_RUN = "axe.run(document, {resultTypes: ['violations']})"


def chromium() -> str:
    """Return the path of a Chromium or Chrome. Skip the test if there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no Chromium here: install Debian's `chromium` to run the browser's tests")
    return found


@asynccontextmanager
async def launched() -> AsyncIterator[Any]:
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
    """Return the `node_modules` with these packages, installed once outside the repository. Skip the test if that
    fails.

    Each set of packages has its own folder, since `npm install` removes unnamed packages. It is installed to a
    temporary folder and renamed, so that concurrent processes never see an incomplete folder.
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
        with suppress(OSError):  # another process has just installed the same packages
            Path(aside).rename(folder)
    return folder / "node_modules"


async def violations(page: Any) -> list[str]:
    """Return axe's findings on the page as it is now, as ``rule: element``."""
    script = (await asyncio.to_thread(npm, "axe-core")) / "axe-core" / "axe.min.js"
    # Uses the debugger's own context, because the page's policy forbids foreign scripts and must not be changed for a
    # test.
    source = await asyncio.to_thread(script.read_text)
    await page.evaluate(source + "; undefined")
    found = await page.evaluate(AXE_RUN)
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
