"""Finds the next page, in the body or in a Link field, and detects when pages repeat in a cycle."""

import json
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote_plus

from gateway.authority import DEFAULT_PORTS, origin_of
from gateway.errors import UpstreamFailed
from gateway.http.headers import Fields
from gateway.http.origin import ABSOLUTE, parse_authority
from gateway.http.paging.page_document import NO_RECORDS, NonScalar, PageDocument, Records, Value
from gateway.http.references import links_in
from gateway.http.url import has_dot_segment, name_of
from gateway.records.proxied_call import PagingScheme, Position

# ── The URL of the next page: found in a Link field (RFC 8288), resolved against the current page's URL (RFC 3986
# §5).

_PARAM: Final = re.compile(
    r';\s*+(?P<name>[^\s=;,"]++)\s*+(?:=\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<token>[^\s;,"]*+)))?+'
)
_OTHER_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_KEPT: Final = "".join(character for character in string.printable if character.isprintable() and character != " ")


@dataclass(frozen=True, slots=True)
class Place:
    """The URL of one page. `target`: path and query as in the request line; `body`: the body if it is a POST."""

    scheme: str
    host: str
    port: int
    target: str
    body: bytes | None = None

    @property
    def origin(self) -> str:
        """Return the origin as `Address.origin` spells it."""
        return origin_of(self.scheme, self.host, self.port)

    @property
    def url(self) -> str:
        return self.origin + self.target

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


def link_of(rel: str, lines: Iterable[str]) -> str | None:
    """Return the target of the first link with relation `rel`, compared without case (RFC 8288 §3.3).

    Links with `anchor` are ignored, since they are about another page, and so are links with ``results="false"``: some
    providers mark a link to an empty page with it.
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
    """Parse an absolute http or https URL; drops its fragment. Raises ValueError with the reason."""
    text = quote(url.strip(), safe=_KEPT).partition("#")[0]
    found = ABSOLUTE.match(text)
    if found is None:
        raise ValueError("it is not an http or https URL")
    scheme = found["scheme"].lower()
    authority = parse_authority(scheme, found["authority"])
    if authority is None:
        raise ValueError("its host is not an ASCII name or an IP address, with or without a port")
    rest = text[found.end() :]
    target = rest if rest.startswith("/") else f"/{rest}"
    if "\\" in target or has_dot_segment(target.partition("?")[0]):
        raise ValueError("its path holds a backslash or a dot segment")
    return Place(scheme, *authority, target)


def resolve(reference: str, page: Place) -> Place:
    """Resolve `reference`, found in `page`. Raises ValueError with the reason.

    Corrects two mistakes of providers behind a reverse proxy. An http URL on the host of an https page becomes https,
    if both use the default port. A path that is a suffix of the page's path becomes the page's path: the provider does
    not know the prefix under which the proxy mounts it.
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


# ── Detects a cycle of pages of any length, with one page in memory (Brent's algorithm).


class CycleDetector:
    """Detects that pages repeat: a provider that ignores or misreads a cursor sends the same pages forever."""

    __slots__ = ("_kept", "_left", "_power")

    def __init__(self) -> None:
        self._kept: str | None = None
        self._power = self._left = 1

    def detect_repeat(self, key: str) -> bool:
        """Return whether this page is a repeat. A cycle is found within three rounds, a repeat of the last page
        immediately."""
        if key == self._kept:
            return True
        self._left -= 1
        if self._left == 0:
            self._kept = key
            self._power *= 2
            self._left = self._power
        return False


# ── Reads a page: which records it holds, and where the next page is.

_NO: Final = frozenset({None, False, "", "0", "false", "False"})
_LIKE_A_CURSOR: Final = re.compile(r"next|cursor|continu|token|after|marker", re.IGNORECASE)
_NO_CURSOR: Final = re.compile(r"sync|delta|prev|before|self|current", re.IGNORECASE)  # the last page has these too
_END: Final = frozenset({None, False, ""})
_NO_JSON: Final = frozenset({"null", "false", '""', "[]", "{}"})
MOST_CURSOR: Final = 8192  # maximum characters of a cursor that is sent in a body
MOST_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class PageResult:
    """One page. `way`: the pagination method used, with the path of the records. `next` None: this is the last page.

    `refused`: why the next page, which exists, cannot be fetched. `unseen`: set if the page has nothing at the cursor's
    path; names of the members that could be the cursor.
    """

    records: Records
    way: PagingScheme
    next: Position | None
    refused: UpstreamFailed | None = None
    unseen: Sequence[str] | None = None


def parse_page(content: bytes | bytearray, headers: Fields, ways: Sequence[PagingScheme], page: Place) -> PageResult:
    """Parse a page's content with the best of `ways`. Raises UpstreamFailed."""
    document = PageDocument(content)
    return read_page(document, headers, choose(document, headers, ways), page)


def choose(document: PageDocument, headers: Fields, ways: Sequence[PagingScheme]) -> PagingScheme:
    """Return the way that fits the first page best; on a tie, the first. Raises UpstreamFailed."""
    if len(ways) == 1:
        return ways[0]
    return max(ways, key=lambda way: _fit(document, headers, way))


def read_page(document: PageDocument, headers: Fields, way: PagingScheme, page: Place) -> PageResult:
    """Read records and next position from `document`, fetched from `page`.
    Raises UpstreamFailed if it does not fit `way`."""
    if way.type == "graphql":
        return _read_connection_page(document, way)
    records, way = _records(document, way)
    try:
        following = _next(document, headers, way, page, len(records))
    except UpstreamFailed as fault:
        return PageResult(records, way, None, fault)
    unseen = None
    if (
        way.type == "cursor"
        and following is None
        and document.value(way.cursor_path_in_response or "") is NonScalar.MISSING
    ):
        unseen = [name for name in document.texts() if _LIKE_A_CURSOR.search(name) and not _NO_CURSOR.search(name)]
    return PageResult(records, way, None if following is None else Position(way, following), unseen=unseen)


def _fit(document: PageDocument, headers: Fields, way: PagingScheme) -> tuple[int, int]:
    """Return how well the page fits `way`: a score for the records, then one for the reference to the next page."""
    if way.response_path:
        held = 2 * isinstance(document.records(way.response_path), Records)
    elif isinstance(document.records(""), Records):
        held = 2
    else:
        held = int(_only_array(document) is not None)
    if way.type == "cursor":
        named = _present(document, way.cursor_path_in_response)
    elif way.type == "graphql":
        named = bool(document.holders(PAGE_INFO))
        held = 2 * named
    elif way.type == "link":
        named = _header_link(headers, way) is not None or _present(document, way.link_path_in_response_body)
    else:
        named = _present(document, way.offset_name_in_request)
    return held, named


def _present(document: PageDocument, path: str | None) -> bool:
    return path is not None and document.value(path) is not NonScalar.MISSING


def _records(document: PageDocument, way: PagingScheme) -> tuple[Records, PagingScheme]:
    path = way.response_path
    found = document.records(path or "")
    if isinstance(found, Records):
        return found, way
    if not path:
        only = _only_array(document)
        if only is not None:
            return only, replace(way, response_path=only.path) if len(only) else way
    arrays = ", ".join(sorted(document.arrays())[:20])
    where = f"has no array at '{path}'" if path else "is not an array, and which of its members is the list is unclear"
    raise UpstreamFailed(
        "page_unreadable",
        f"The provider's response {where}. "
        + (f"It has arrays under: {arrays}. " if arrays else "It has no array that could be meant. ")
        + "Name the path of the records: 'Gateway-Paginate: all; response_path=…'.",
    )


def _only_array(document: PageDocument) -> Records | None:
    """Return the list if no path was given: the page's only array, or its only array of objects. None if ambiguous."""
    arrays = document.arrays()
    if len(arrays) > 1:
        filled = {name: records for name, records in arrays.items() if records.hold_objects}
        nothing_in_any = not any(len(records) for records in arrays.values())
        arrays = dict(list(arrays.items())[:1]) if nothing_in_any else filled
    if not arrays and document.is_empty_object:
        return NO_RECORDS
    return next(iter(arrays.values())) if len(arrays) == 1 else None


def _next(document: PageDocument, headers: Fields, way: PagingScheme, page: Place, count: int) -> str | None:
    """Return where the next page is; None on the last page.
    Raises UpstreamFailed if it exists but cannot be requested."""
    more = _more(document, way)
    if more is False:
        return None
    if way.type == "offset":
        return _next_offset(way, page, count, more=bool(more))
    if way.in_body:
        following = _json_at(document, way.cursor_path_in_response or "")
    else:
        following = _next_cursor(document, way) if way.type == "cursor" else _next_link(document, headers, way, page)
    if following is None and more:
        raise _refusal(f"says that more follows ({way.has_more_path_in_response}), but not where")
    return following


def _more(document: PageDocument, way: PagingScheme) -> bool | None:
    """Return the value of the has-more flag; None if the page has none."""
    if way.has_more_path_in_response is None:
        return None
    value = document.value(way.has_more_path_in_response)
    return None if value is NonScalar.MISSING else value not in _NO


def _next_cursor(document: PageDocument, way: PagingScheme) -> str | None:
    assert way.cursor_path_in_response is not None
    return _text(document.value(way.cursor_path_in_response), f"its cursor ({way.cursor_path_in_response})")


def _json_at(document: PageDocument, path: str) -> str | None:
    """Return the cursor at `path` as JSON text in ASCII, so that it is sent back with its JSON type."""
    raw = document.raw(path)
    if raw is None or raw in _NO_JSON:
        return None
    if len(raw) > MOST_CURSOR:
        raise _refusal(f"has a cursor of more than {MOST_CURSOR} characters ({path})")
    try:
        value = json.loads(raw)
        json.dumps(value, ensure_ascii=False).encode()
        return json.dumps(value, separators=(",", ":"))
    except (ValueError, RecursionError) as fault:
        raise _refusal(f"has a cursor that cannot be sent back ({path})") from fault


# ── GraphQL: a connection of the Relay specification, anywhere in the query.

PAGE_INFO: Final = "pageInfo"
_SELECT: Final = f"Select '{PAGE_INFO} {{ endCursor hasNextPage }}' beside its nodes"


def _read_connection_page(document: PageDocument, way: PagingScheme) -> PageResult:
    """Read a page by its GraphQL connection. The result's `way` names the connection; later pages use the same one."""
    refused = document.records("errors")
    if isinstance(refused, Records) and len(refused):
        reason = document.value("errors.0.message")
        raise _refusal(f"has errors: {json.dumps(reason)[:MOST_REASON] if isinstance(reason, str) else 'see its API'}")
    path = way.response_path or _connection_path(document)
    records = document.records(f"{path}.nodes")
    if not isinstance(records, Records):
        records = document.records(f"{path}.edges")
    if not isinstance(records, Records):
        raise _refusal(f"has neither nodes nor edges in '{path}'. {_SELECT}")
    way = replace(way, response_path=path)
    more = document.value(f"{path}.{PAGE_INFO}.hasNextPage")
    if more is False:
        return PageResult(records, way, None)
    try:
        following = _json_at(document, f"{path}.{PAGE_INFO}.endCursor") if more is True else None
    except UpstreamFailed as fault:
        return PageResult(records, way, None, fault)
    if following is None:
        return PageResult(records, way, None, _refusal(f"does not show whether more follows in '{path}'. {_SELECT}"))
    return PageResult(records, way, Position(way, following))


def _connection_path(document: PageDocument) -> str:
    paths = document.holders(PAGE_INFO)
    if len(paths) == 1:
        return paths[0]
    if not paths:
        raise _refusal(f"has no connection with {PAGE_INFO} outside of lists. {_SELECT}")
    shown = ", ".join(sorted(paths)[:20])
    raise _refusal(
        f"has several connections: {shown}. Say which one: 'Gateway-Paginate: all; type=graphql; response_path=…'"
    )


def _next_link(document: PageDocument, headers: Fields, way: PagingScheme, page: Place) -> str | None:
    link = _header_link(headers, way)
    if not link and way.link_path_in_response_body is not None:
        path = way.link_path_in_response_body
        link = _text(document.value(path), f"the URL of its next page ({path})")
    if not link:
        return None
    try:
        return resolve(link, page).url
    except ValueError as fault:
        raise UpstreamFailed(
            "next_page_refused", f"The URL of the provider's next page cannot be used: {fault}."
        ) from fault


def _header_link(headers: Fields, way: PagingScheme) -> str | None:
    if way.link_rel_in_response_header is None:
        return None
    lines = (value for name, value in headers if name.lower() == "link")
    return link_of(way.link_rel_in_response_header, lines)


def _next_offset(way: PagingScheme, page: Place, count: int, *, more: bool) -> str | None:
    """Return the next offset, counted from this page's offset.
    A short page may be filtered: only an empty page is the end."""
    by_page = way.offset_calculation_method == "per-page"
    if not count:
        if more and not by_page:
            raise _refusal("is empty but says that more records follow, so the next offset is unknown")
        return str(offset_of(way, page) + 1) if more else None
    return str(offset_of(way, page) + (1 if by_page else count))


def offset_of(way: PagingScheme, page: Place) -> int:
    """Return the offset that `page` was requested with, from its query or its body; else the start value."""
    if way.in_body:
        value = PageDocument(page.body or b"{}").value(way.offset_name_in_request or "")
        sent = [value] if isinstance(value, str) else []
    else:
        pairs = page.target.partition("?")[2].split("&")
        sent = [unquote_plus(pair.partition("=")[2]) for pair in pairs if name_of(pair) == way.offset_name_in_request]
    if sent and sent[-1].isascii() and sent[-1].isdigit():
        return int(sent[-1][:18])
    return way.offset_start_value or 0


def _text(value: Value, what: str) -> str | None:
    if value is NonScalar.MISSING or value in _END:
        return None
    if not isinstance(value, str):
        raise _refusal(f"has a value that is not text as {what}")
    try:
        value.encode()
    except UnicodeEncodeError as fault:
        raise _refusal(f"has invalid Unicode (a lone surrogate) in {what}") from fault
    return value


def _refusal(why: str) -> UpstreamFailed:
    return UpstreamFailed("page_unreadable", f"The provider's page {why}.")
