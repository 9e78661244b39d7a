"""Builds the responses of ``GET /providers``.

The JSON of each provider is built once per catalog, and pages are joined from it.
"""

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from gateway.catalog.load_catalog import Catalog


@dataclass(frozen=True, slots=True)
class ListingBody:
    """A JSON body of a response. `etag`: the entity tag of the body, without quotes (RFC 9110 §8.8.3)."""

    content: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Query:
    """A search for providers. `search`, `category` and `auth_mode` ignore case.

    `search`: words; each word must occur in the provider's name, display name or categories. `category`, `auth_mode`:
    the category and the auth mode of the provider; None: any. `limit`: the maximum number of results; None: no maximum.
    `after`: results are only providers whose name comes after this text in alphabetical order.
    """

    search: str = ""
    category: str | None = None
    auth_mode: str | None = None
    limit: int | None = None
    after: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    content: bytes
    search_text: str
    categories: frozenset[str]
    auth_mode: str

    def matches(self, query: Query) -> bool:
        return (
            self.name > query.after
            and (query.category is None or query.category.casefold() in self.categories)
            and (query.auth_mode is None or query.auth_mode.upper() == self.auth_mode)
            and all(word in self.search_text for word in query.search.casefold().split())
        )


class Listing:
    """The providers of one catalog as JSON.

    `public_url`: the base URL of the gateway, for the URLs of logos and guides.
    """

    def __init__(self, catalog: Catalog, public_url: str) -> None:
        self._rows = [_build_row(catalog.provider_json(name, public_url)) for name in catalog.providers]
        self._by_name = {row.name: row for row in self._rows}
        self._whole_list = self._page(self._rows, None)

    @cached_property
    def categories(self) -> frozenset[str]:
        """The categories of all entries in lower case, for comparison with `Query.category`."""
        return frozenset(category for row in self._rows for category in row.categories)

    @cached_property
    def auth_modes(self) -> frozenset[str]:
        """The auth modes of all entries."""
        return frozenset(row.auth_mode for row in self._rows)

    def provider_body(self, name: str) -> ListingBody | None:
        """Return the body of ``GET /providers/{name}``; None if the provider does not exist."""
        row = self._by_name.get(name)
        return None if row is None else _with_etag(b'{"data":' + row.content + b"}")

    def page(self, query: Query) -> ListingBody:
        """Return the body of ``GET /providers`` for `query`. The body has `next_cursor` if more providers follow."""
        if query == Query():
            return self._whole_list
        matches = [row for row in self._rows if row.matches(query)]
        if query.limit is None or len(matches) <= query.limit:
            return self._page(matches, None)
        page = matches[: query.limit]
        return self._page(page, cursor_after(page[-1].name))

    def _page(self, rows: list[_Row], next_cursor: str | None) -> ListingBody:
        data = b'{"data":[' + b",".join(row.content for row in rows) + b"]"
        cursor_member = b"" if next_cursor is None else b',"next_cursor":' + _json(next_cursor)
        return _with_etag(data + cursor_member + b"}")


def cursor_after(name: str) -> str:
    """Return an opaque cursor for the providers after `name`.

    The cursor stays valid after a reload of the catalog, and no page repeats a provider.
    """
    return base64.urlsafe_b64encode(b"after:" + name.encode()).decode().rstrip("=")


def name_in(cursor: str) -> str:
    """Return the name in a cursor that `cursor_after` returned. Raises ValueError for any other text."""
    try:
        decoded = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError) as fault:
        raise ValueError("not a cursor") from fault
    prefix, _, name = decoded.partition(":")
    if prefix != "after" or cursor_after(name) != cursor:
        raise ValueError("not a cursor")
    return name


def get_listing(catalog: Catalog, public_url: str) -> Listing:
    """Return the listing of `catalog`, built on the first call and cached as long as the catalog exists."""
    listings = _LISTINGS.setdefault(catalog, {})
    if public_url not in listings:
        listings[public_url] = Listing(catalog, public_url)
    return listings[public_url]


_LISTINGS: WeakKeyDictionary[Catalog, dict[str, Listing]] = WeakKeyDictionary()


def _build_row(provider: dict[str, Any]) -> _Row:
    categories = frozenset(category.casefold() for category in provider["categories"])
    search_text = "\n".join((provider["name"], provider["display_name"], *provider["categories"])).casefold()
    return _Row(provider["name"], _json(provider), search_text, categories, provider["auth_mode"])


def _with_etag(content: bytes) -> ListingBody:
    return ListingBody(content, hashlib.sha256(content).hexdigest()[:32])


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
