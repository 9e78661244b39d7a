"""Chromium for tests, and what npm packages they need; both are looked for, and a test without them is skipped.

All tests of a process use one Chromium. Each page is in a browser context of its own, so tests share no cookies.
"""

import asyncio
import atexit
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.patience import PATIENCE_S

SWITCHES = [
    "--headless",
    "--remote-debugging-port=0",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP *.example 127.0.0.1",  # for pages that are not of this machine, as far as it can tell
]
CACHE = Path(tempfile.gettempdir()) / "integration-gateway-npm"
AXE_RUN = "axe.run(document, {resultTypes: ['violations']})"


def chromium() -> str:
    """The path of a Chromium or Chrome. Skips where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no Chromium here: install Debian's `chromium` to run the browser's tests")
    return found


@cache
def started(path: str) -> str:
    """The address of the debugger of a headless Chromium with a fresh profile, which ends with this process."""
    profile = Path(tempfile.mkdtemp(prefix="gateway-chromium-"))
    command = [path, *SWITCHES, f"--user-data-dir={profile}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @atexit.register
    def end() -> None:
        process.kill()
        process.wait()
        shutil.rmtree(profile, ignore_errors=True)

    file = profile / "DevToolsActivePort"  # two lines, the port and a path
    deadline = time.monotonic() + PATIENCE_S
    while not file.exists() or file.read_text().count("\n") < 1:
        assert process.poll() is None, f"Chromium ended with exit code {process.returncode}"
        assert time.monotonic() < deadline, "Chromium opened no debugging port"
        time.sleep(0.02)
    return f"http://127.0.0.1:{file.read_text().split()[0]}"


@asynccontextmanager
async def launched() -> AsyncIterator[Any]:
    """A connection to the browser; the contexts that it opens are closed with it."""
    path = chromium()
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        pytest.skip("PyPI's `playwright` is not installed: `make venv-dev` does that")
    async with async_playwright() as driver:
        browser = await driver.chromium.connect_over_cdp(await asyncio.to_thread(started, path))
        try:
            yield browser
        finally:
            await browser.close()


def npm(*packages: str) -> Path:
    """The `node_modules` that holds them, filled once and kept outside the repository. Skips where that cannot be done."""
    folder = CACHE / "node_modules"
    names = [package.rpartition("@")[0] or package for package in packages]
    if all((folder / name / "package.json").exists() for name in names):
        return folder
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here, so the published packages cannot be had")
    CACHE.mkdir(exist_ok=True)
    (CACHE / "package.json").write_text("{}")
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", *packages]
    try:
        done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not bring {' '.join(packages)} within 90 s")
    if done.returncode != 0:
        pytest.skip(f"npm cannot bring {' '.join(packages)}: {done.stderr.strip()[-200:]}")
    return folder


async def violations(page: Any) -> list[str]:
    """What axe finds wrong with the page as it is now, as ``rule: element``."""
    script = (await asyncio.to_thread(npm, "axe-core")) / "axe-core" / "axe.min.js"
    # Through the debugger's own world: the page's policy forbids foreign scripts, and shall not be loosened for a test.
    source = await asyncio.to_thread(script.read_text)
    await page.evaluate(source + "; undefined")
    found = await page.evaluate(AXE_RUN)
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
