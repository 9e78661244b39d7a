"""Simulates an end user's browser on the pages of an OAuth server, over HTTP."""

from collections.abc import Sequence

import aiohttp

from gateway.sandbox.visitor import VisitedForm, VisitedPage, forms

Fields = Sequence[tuple[str, str]]


async def open_page(session: aiohttp.ClientSession, url: str) -> VisitedPage:
    """Return the page at the end of the redirects from `url`."""
    async with session.get(url) as response:
        return VisitedPage(str(response.url), response.status, await response.text())


async def submit(session: aiohttp.ClientSession, form: VisitedForm, *extra: tuple[str, str]) -> VisitedPage:
    """Send `form` with `extra` fields, which replace those of the same name. Return the page at the end of the
    redirects."""
    replaced = {name for name, _ in extra}
    fields = [*((name, value) for name, value in form.fields.items() if name not in replaced), *extra]
    async with session.request(form.method, form.action, data=fields) as response:
        return VisitedPage(str(response.url), response.status, await response.text())


def form_with(page: VisitedPage, field: str) -> VisitedForm:
    """Return the form of `page` that has `field`, as a field or as a button."""
    found = [form for form in forms(page) if field in form.fields or field in {name for name, _ in form.buttons}]
    assert len(found) == 1, (
        f"{page.url} ({page.status}) has {len(found)} forms with a field '{field}': {page.text[:2000]}"
    )
    return found[0]
