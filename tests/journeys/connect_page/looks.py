"""Checks each state of the connect page with axe, in light and dark mode and at phone width. Saves each state as an
image.
"""

import base64
import os
from pathlib import Path
from typing import Any

from tests.journeys.connect_page.browser import violations

SHOTS = os.environ.get("CONNECT_SCREENSHOTS")
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 640, "height": 760}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 640, "height": 760}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 700}},
}


async def assert_page_accessible(page: Any, name: str) -> None:
    """Assert that axe finds no problem in light and dark mode, and that nothing is cut off on a phone."""
    for look, how in LOOKS.items():
        await page.emulate_media(color_scheme=how["color_scheme"])
        await page.set_viewport_size(how["viewport"])
        if look != "phone":
            assert await violations(page) == [], (name, look)
        else:
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        if SHOTS:
            for _ in range(3):  # the page's margin grows with the window
                await page.set_viewport_size(await whole_page_size(page, how["viewport"]))
            await save_screenshot(page, f"{name}-{look}")
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size(LOOKS["light"]["viewport"])


async def whole_page_size(page: Any, size: dict[str, int]) -> dict[str, int]:
    """Return a window size that shows the whole page, or the first part of a long list."""
    height: int = await page.evaluate("document.documentElement.scrollHeight")
    return {**size, "height": min(max(size["height"], height), 1200)}


async def save_screenshot(page: Any, name: str) -> None:
    devtools = await page.context.new_cdp_session(page)
    wanted = {"format": "webp", "quality": 70, "captureBeyondViewport": False}
    image = base64.b64decode((await devtools.send("Page.captureScreenshot", wanted))["data"])
    folder = Path(SHOTS or ".")
    folder.mkdir(exist_ok=True)
    (folder / f"connect-{name}.webp").write_bytes(image)
    await devtools.detach()


async def sign_in(page: Any, decision: str = "allow") -> None:
    """Sign in at the sandbox. The sandbox remembers signed-in users."""
    await page.wait_for_url("**/oauth/authorize**")
    if await page.locator("[name=email]").count():
        await page.fill("[name=email]", "demo@example.com")
        await page.fill("[name=password]", "demo")
        await page.locator("form[action='/oauth/login'] button").click()
        await page.wait_for_selector("[name=decision]")
    allow = page.locator("[name=decision][value=allow]")
    await (allow if decision == "allow" else page.locator("[name=decision]:not([value=allow])")).click()
