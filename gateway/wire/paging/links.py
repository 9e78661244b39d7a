"""The address of the next page: found in a Link field (RFC 8288), and resolved against the page it stood in (RFC 3986 §5)."""

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from gateway.dot_segments import has_dot_segment
from gateway.wire.link_field import links_in
from gateway.wire.origin import ABSOLUTE, DEFAULT_PORTS, bracketed, parse_authority

_PARAM: Final = re.compile(
    r';\s*+(?P<name>[^\s=;,"]++)\s*+(?:=\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<token>[^\s;,"]*+)))?+'
)
_OTHER_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_KEPT: Final = "".join(character for character in string.printable if character.isprintable() and character != " ")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one page lies. `target` is path and query as they go into the request line."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> str:
        """As `Address.origin` spells it."""
        return f"{self.scheme}://{bracketed(self.host)}:{self.port}"

    @property
    def url(self) -> str:
        return self.origin + self.target

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


def link_of(rel: str, lines: Iterable[str]) -> str | None:
    """The target of the first link with that relation, in any case (RFC 8288 §3.3).

    A link about something else (`anchor`) is none; nor is one with ``results="false"``, by which some say that the page
    it leads to is empty.
    """
    for line in lines:
        for link in links_in(line):
            params: dict[str, str] = {}
            for param in _PARAM.finditer(link.params):
                text = param["token"] if param["quoted"] is None else re.sub(r"\\(.)", r"\1", param["quoted"])
                params.setdefault(param["name"].lower(), text or "")
            wanted = rel.lower() in params.get("rel", "").lower().split()
            if wanted and "anchor" not in params and params.get("results", "").lower() != "false":
                return line[link.start : link.end]
    return None


def place_of(url: str) -> Place:
    """An absolute http or https address, its fragment left out. Raises ValueError that says what is wrong with it."""
    text = quote(url.strip(), safe=_KEPT).partition("#")[0]
    found = ABSOLUTE.match(text)
    if found is None:
        raise ValueError("it is no http or https address")
    scheme = found["scheme"].lower()
    authority = parse_authority(scheme, found["authority"])
    if authority is None:
        raise ValueError("its host is no ASCII name or IP address, with a port at most")
    rest = text[found.end() :]
    target = rest if rest.startswith("/") else f"/{rest}"
    if "\\" in target or has_dot_segment(target.partition("?")[0]):
        raise ValueError("its path holds a backslash or a dot segment")
    return Place(scheme, *authority, target)


def resolve(reference: str, page: Place) -> Place:
    """What `reference` in `page` means. Raises ValueError that says what is wrong with it.

    Two things are mended that providers behind another server get wrong: the http address of a page that we reach by
    https stays https, and a path that is the end of the page's own path, since the provider does not know that it is
    mounted below another one, is that page's path.
    """
    text = reference.strip()
    if text.startswith("//"):
        return _upgraded(place_of(f"{page.scheme}:{text}"), page)
    if _OTHER_SCHEME.match(text):
        return _upgraded(place_of(text), page)
    if text.startswith("/"):
        path, mark, query = text.partition("?")
        if page.path.endswith(path) and path != "/":
            path = page.path
        return place_of(page.origin + path + mark + query)
    if text.startswith("?"):
        return place_of(page.origin + page.path + text)
    if not text or text.startswith("#"):
        raise ValueError("it is empty")
    return place_of(f"{page.origin}{page.path.rpartition('/')[0]}/{text}")


def _upgraded(place: Place, page: Place) -> Place:
    downgraded = (place.scheme, place.port, page.scheme, page.port) == ("http", DEFAULT_PORTS["http"], "https", 443)
    return Place(page.scheme, page.host, page.port, place.target) if downgraded and place.host == page.host else place
