"""Simulates a person with a browser, over HTTP: follows redirects, fills in forms, clicks "Allow".

`gateway demo` uses this module to create its first connection as a person does, through every page of the real flow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin

from aiohttp import ClientSession, CookieJar

_MAX_PAGES: Final = 6


class VisitUnfinished(Exception):
    """The visit did not end after `_MAX_PAGES` forms. The text names the last page."""


@dataclass(frozen=True, slots=True)
class VisitedPage:
    """A page that was opened, after all redirects."""

    url: str
    status: int
    text: str


@dataclass(slots=True)
class VisitedForm:
    """A form of a page.

    `fields`: the current value of each field by its name. `buttons`: name and value of each named submit button, in the
    order of the page.
    """

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)


def browser() -> ClientSession:
    """Return a session that keeps cookies, also from hosts that are IP addresses."""
    return ClientSession(cookie_jar=CookieJar(unsafe=True))


def forms(page: VisitedPage) -> list[VisitedForm]:
    """Return all forms of a page in order, with their actions as absolute URLs."""
    reader = _FormReader(page.url)
    reader.feed(page.text)
    return reader.forms


async def visit(session: ClientSession, url: str, inputs: Mapping[str, str]) -> VisitedPage:
    """Open `url` and submit one form on each page, until a page has no form with one of `inputs`. Return this page.

    `inputs`: the text to type by the name of the field, and the value of the button to press by the name of the button.
    The visit also ends at a page with a status of 400 or above. Raises VisitUnfinished after `_MAX_PAGES` forms.
    """
    page = await _open(session, "GET", url, {})
    for _ in range(_MAX_PAGES):
        next_form = next((form for form in forms(page) if _form_values(form, inputs) != form.fields), None)
        if next_form is None or page.status >= 400:
            return page
        page = await _open(session, next_form.method, next_form.action, _form_values(next_form, inputs))
    raise VisitUnfinished(f"Stopped after {_MAX_PAGES} forms; the next one is at {page.url.partition('?')[0]}.")


def _form_values(form: VisitedForm, inputs: Mapping[str, str]) -> dict[str, str]:
    typed_values = {name: text for name, text in inputs.items() if name in form.fields}
    pressed_buttons = {name: value for name, value in form.buttons if inputs.get(name) == value}
    return {**form.fields, **typed_values, **pressed_buttons}


async def _open(session: ClientSession, method: str, url: str, fields: Mapping[str, str]) -> VisitedPage:
    sent_fields = {"data": fields} if method == "POST" else {"params": fields}
    async with session.request(method, url, **sent_fields) as response:  # type: ignore[arg-type]
        return VisitedPage(str(response.url), response.status, await response.text())


class _FormReader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.forms: list[VisitedForm] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            action = urljoin(self._url, attributes.get("action") or self._url)
            self.forms.append(VisitedForm(action, attributes.get("method", "get").upper()))
        elif self.forms and tag in ("input", "button") and attributes.get("name"):
            if tag == "button" or attributes.get("type") == "submit":
                self.forms[-1].buttons.append((attributes["name"], attributes.get("value", "")))
            else:
                self.forms[-1].fields[attributes["name"]] = attributes.get("value", "")
