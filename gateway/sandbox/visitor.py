"""A person with a browser, played over HTTP: follows the links, fills in the forms, clicks "Allow".

The demo uses it to make its first connection the way a person would, through every page of the real flow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin

from aiohttp import ClientSession, CookieJar

_PAGES: Final = 6


class LostTheWay(Exception):
    """The pages did not lead to an end; the text says at which one it stuck."""


@dataclass(frozen=True, slots=True)
class VisitedPage:
    """The page that the browser shows at last."""

    url: str
    status: int
    text: str


@dataclass(slots=True)
class VisitedForm:
    """`fields` hold what is filled in already; `buttons` the (name, value) of each named submit button, in order."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)


def browser() -> ClientSession:
    """A session that keeps cookies, those of bare IP addresses too."""
    return ClientSession(cookie_jar=CookieJar(unsafe=True))


def forms(page: VisitedPage) -> list[VisitedForm]:
    """All forms of a page in order, their actions resolved against its address."""
    reader = _FormReader(page.url)
    reader.feed(page.text)
    return reader.forms


async def visit(session: ClientSession, url: str, answers: Mapping[str, str]) -> VisitedPage:
    """Open `url` and submit every form that asks for one of `answers`, until a page asks for none of them.

    `answers` maps the names of fields to what is typed, and those of buttons to the value of the one to press.
    Raises LostTheWay after six pages.
    """
    page = await _open(session, "GET", url, {})
    for _ in range(_PAGES):
        wanted = next((form for form in forms(page) if _filled(form, answers) != form.fields), None)
        if wanted is None or page.status >= 400:
            return page
        page = await _open(session, wanted.method, wanted.action, _filled(wanted, answers))
    raise LostTheWay(f"After {_PAGES} forms there was still another one, at {page.url.partition('?')[0]}.")


def _filled(form: VisitedForm, answers: Mapping[str, str]) -> dict[str, str]:
    typed = {name: text for name, text in answers.items() if name in form.fields}
    pressed = {name: value for name, value in form.buttons if answers.get(name) == value}
    return {**form.fields, **typed, **pressed}


async def _open(session: ClientSession, method: str, url: str, fields: Mapping[str, str]) -> VisitedPage:
    sent = {"data": fields} if method == "POST" else {"params": fields}
    async with session.request(method, url, **sent) as response:  # type: ignore[arg-type]
        return VisitedPage(str(response.url), response.status, await response.text())


class _FormReader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.forms: list[VisitedForm] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "form":
            action = urljoin(self._url, has.get("action") or self._url)
            self.forms.append(VisitedForm(action, has.get("method", "get").upper()))
        elif self.forms and tag in ("input", "button") and has.get("name"):
            if tag == "button" or has.get("type") == "submit":
                self.forms[-1].buttons.append((has["name"], has.get("value", "")))
            else:
                self.forms[-1].fields[has["name"]] = has.get("value", "")
