"""Finds the next page of a list, in the body or in a Link field, and detects pages that repeat in a cycle."""

import json
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote_plus

from gateway.errors import UpstreamFailed
from gateway.http.headers import Fields
from gateway.http.paging.page_document import NO_RECORDS, NonScalar, PageDocument, Records, Value
from gateway.http.references import links_in
from gateway.http.url import has_dot_segment, parameter_name
from gateway.origin import ABSOLUTE, DEFAULT_PORTS, origin_of, parse_authority
from gateway.records.proxied_call import PagingScheme, Position

# ── Finds the URL of the next page in a Link field (RFC 8288), and resolves a relative URL (RFC 3986 §5).

_PARAM: Final = re.compile(
    r';\s*+(?P<name>[^\s=;,"]++)\s*+(?:=\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<token>[^\s;,"]*+)))?+'
)
_OTHER_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_UNQUOTED: Final = "".join(character for character in string.printable if character.isprintable() and character != " ")


@dataclass(frozen=True, slots=True)
class PageUrl:
    """The URL of one page.

    `target`: the path and query, as in the request line. `body`: the request's body; None if the request has no body.
    """

    scheme: str
    host: str
    port: int
    target: str
    body: bytes | None = None

    @property
    def origin(self) -> str:
        """The origin with its port, such as ``https://api.example.com:443``."""
        return origin_of(self.scheme, self.host, self.port)

    @property
    def url(self) -> str:
        return self.origin + self.target

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


def link_target(rel: str, lines: Iterable[str]) -> str | None:
    """Return the target of the first link with the relation `rel`; None if there is no such link.

    Relations are compared without case (RFC 8288 §3.3). A link with `anchor` is ignored, because the link is about
    another page. A link with ``results="false"`` is ignored too, because some providers use this parameter for a link
    to an empty page.
    """
    for line in lines:
        for link in links_in(line):
            params: dict[str, str] = {}
            for param in _PARAM.finditer(link.params):
                text = param["token"] if param["quoted"] is None else re.sub(r"\\(.)", r"\1", param["quoted"])
                params.setdefault(param["name"].lower(), text or "")
            has_rel = rel.lower() in params.get("rel", "").lower().split()
            if has_rel and "anchor" not in params and params.get("results", "").lower() != "false":
                return line[link.start : link.end]
    return None


def parse_page_url(url: str) -> PageUrl:
    """Parse an absolute http or https URL, and remove its fragment. Raises ValueError with the reason."""
    text = quote(url.strip(), safe=_UNQUOTED).partition("#")[0]
    match = ABSOLUTE.match(text)
    if match is None:
        raise ValueError("it is not an http or https URL")
    scheme = match["scheme"].lower()
    authority = parse_authority(scheme, match["authority"])
    if authority is None:
        raise ValueError("its host is not an ASCII name or an IP address, with or without a port")
    path_and_query = text[match.end() :]
    target = path_and_query if path_and_query.startswith("/") else f"/{path_and_query}"
    if "\\" in target or has_dot_segment(target.partition("?")[0]):
        raise ValueError("its path contains a backslash or a dot segment")
    return PageUrl(scheme, *authority, target)


def resolve(reference: str, page: PageUrl) -> PageUrl:
    """Return the URL of `reference`, which is relative to `page`. Raises ValueError with the reason.

    Corrects two mistakes of providers behind a reverse proxy. An http URL on the host of an https page becomes https
    if both use the default port. A path that is a suffix of the page's path is replaced by the page's path, because the
    provider does not know the prefix that its reverse proxy adds.
    """
    text = reference.strip()
    if text.startswith("//"):
        return _with_https(parse_page_url(f"{page.scheme}:{text}"), page)
    if _OTHER_SCHEME.match(text):
        return _with_https(parse_page_url(text), page)
    if text.startswith("/"):
        path, question_mark, query = text.partition("?")
        if page.path.endswith(path) and path != "/":
            path = page.path
        return parse_page_url(page.origin + path + question_mark + query)
    if text.startswith("?"):
        return parse_page_url(page.origin + page.path + text)
    if not text or text.startswith("#"):
        raise ValueError("it is empty")
    return parse_page_url(f"{page.origin}{page.path.rpartition('/')[0]}/{text}")


def _with_https(url: PageUrl, page: PageUrl) -> PageUrl:
    is_downgraded = (url.scheme, url.port, page.scheme, page.port) == ("http", DEFAULT_PORTS["http"], "https", 443)
    return PageUrl(page.scheme, page.host, page.port, url.target) if is_downgraded and url.host == page.host else url


# ── Detects a cycle of pages of any length, with one page in memory (Brent's algorithm).


class CycleDetector:
    """Detects that pages repeat. A provider that ignores or misreads a cursor sends the same pages forever."""

    __slots__ = ("_pages_until_new_key", "_power", "_remembered_key")

    def __init__(self) -> None:
        self._remembered_key: str | None = None
        self._power = self._pages_until_new_key = 1

    def detect_repeat(self, key: str) -> bool:
        """Return whether this page repeats an earlier page.

        A second page that equals the first is detected immediately. Any other cycle is detected after at most about
        three times as many pages as there are different pages; until then, the caller gets pages again. `key`:
        identifies the page.
        """
        if key == self._remembered_key:
            return True
        self._pages_until_new_key -= 1
        if self._pages_until_new_key == 0:
            self._remembered_key = key
            self._power *= 2
            self._pages_until_new_key = self._power
        return False


# ── Reads a page: its records, and the position of the next page.

_FALSE_VALUES: Final = frozenset({None, False, "", "0", "false", "False"})
_CURSOR_NAMES: Final = re.compile(r"next|cursor|continu|token|after|marker", re.IGNORECASE)
_NOT_THE_CURSOR: Final = re.compile(
    r"sync|delta|prev|before|self|current", re.IGNORECASE
)  # not cursors: the last page has such members too
_NO_CURSOR_VALUES: Final = frozenset({None, False, ""})
_EMPTY_JSON: Final = frozenset({"null", "false", '""', "[]", "{}"})
MAX_CURSOR: Final = 8192  # maximum characters of a cursor that is sent in a body
MAX_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class PageResult:
    """The result of reading one page.

    `scheme`: the paging scheme that was used, with the path of the records. `next`: the position of the next page;
    None on the last page. `next_page_fault`: the error if the next page exists, but cannot be requested.
    `cursor_candidates`: if the page has no value at the cursor's path, the names of members that could be the cursor;
    otherwise None.
    """

    records: Records
    scheme: PagingScheme
    next: Position | None
    next_page_fault: UpstreamFailed | None = None
    cursor_candidates: Sequence[str] | None = None


def parse_page(
    content: bytes | bytearray, headers: Fields, schemes: Sequence[PagingScheme], page: PageUrl
) -> PageResult:
    """Parse a page's content with the scheme in `schemes` that fits best. Raises UpstreamFailed."""
    document = PageDocument(content)
    return read_page(document, headers, choose_scheme(document, headers, schemes), page)


def choose_scheme(document: PageDocument, headers: Fields, schemes: Sequence[PagingScheme]) -> PagingScheme:
    """Return the paging scheme that fits the first page best. Raises UpstreamFailed.

    If several schemes fit equally, return the first of them.
    """
    if len(schemes) == 1:
        return schemes[0]
    return max(schemes, key=lambda scheme: _fit_score(document, headers, scheme))


def read_page(document: PageDocument, headers: Fields, scheme: PagingScheme, page: PageUrl) -> PageResult:
    """Read the records and the next position from `document`, which was fetched from `page`.

    Raises UpstreamFailed if `document` does not fit `scheme`.
    """
    if scheme.type == "graphql":
        return _read_connection_page(document, scheme)
    records, scheme = _records(document, scheme)
    try:
        position_text = _next_position_text(document, headers, scheme, page, len(records))
    except UpstreamFailed as fault:
        return PageResult(records, scheme, None, fault)
    cursor_candidates = None
    if (
        scheme.type == "cursor"
        and position_text is None
        and document.value(scheme.cursor_path_in_response or "") is NonScalar.MISSING
    ):
        cursor_candidates = [
            name for name in document.text_paths() if _CURSOR_NAMES.search(name) and not _NOT_THE_CURSOR.search(name)
        ]
    return PageResult(
        records,
        scheme,
        None if position_text is None else Position(scheme, position_text),
        cursor_candidates=cursor_candidates,
    )


def _fit_score(document: PageDocument, headers: Fields, scheme: PagingScheme) -> tuple[int, int]:
    """Return how well the page fits `scheme`: one score for the records, one for the reference to the next page."""
    if scheme.response_path:
        record_score = 2 * isinstance(document.records(scheme.response_path), Records)
    elif isinstance(document.records(""), Records):
        record_score = 2
    else:
        record_score = int(_only_array(document) is not None)
    if scheme.type == "cursor":
        reference_score = _has_value(document, scheme.cursor_path_in_response)
    elif scheme.type == "graphql":
        reference_score = bool(document.paths_of_objects_with(PAGE_INFO))
        record_score = 2 * reference_score
    elif scheme.type == "link":
        reference_score = _header_link(headers, scheme) is not None or _has_value(
            document, scheme.link_path_in_response_body
        )
    else:
        reference_score = _has_value(document, scheme.offset_name_in_request)
    return record_score, reference_score


def _has_value(document: PageDocument, path: str | None) -> bool:
    return path is not None and document.value(path) is not NonScalar.MISSING


def _records(document: PageDocument, scheme: PagingScheme) -> tuple[Records, PagingScheme]:
    path = scheme.response_path
    records = document.records(path or "")
    if isinstance(records, Records):
        return records, scheme
    if not path:
        only_array = _only_array(document)
        if only_array is not None:
            return only_array, replace(scheme, response_path=only_array.path) if len(only_array) else scheme
    arrays = ", ".join(sorted(document.arrays())[:20])
    fault = f"has no array at '{path}'" if path else "is not an array, and which of its members is the list is unclear"
    raise UpstreamFailed(
        "page_unreadable",
        f"The provider's response {fault}. "
        + (f"It has arrays under: {arrays}. " if arrays else "It has no array that could be the records. ")
        + "Name the path of the records: 'Gateway-Paginate: all; response_path=…'.",
    )


def _only_array(document: PageDocument) -> Records | None:
    """Return the page's only array, or its only array of objects, for a list without a given path.

    Return None if several arrays could be the list.
    """
    arrays = document.arrays()
    if len(arrays) > 1:
        object_arrays = {name: records for name, records in arrays.items() if records.hold_objects}
        all_are_empty = not any(len(records) for records in arrays.values())
        arrays = dict(list(arrays.items())[:1]) if all_are_empty else object_arrays
    if not arrays and document.is_empty_object:
        return NO_RECORDS
    return next(iter(arrays.values())) if len(arrays) == 1 else None


def _next_position_text(
    document: PageDocument, headers: Fields, scheme: PagingScheme, page: PageUrl, count: int
) -> str | None:
    """Return the position of the next page as text; None on the last page.

    Raises UpstreamFailed if the next page exists, but cannot be requested.
    """
    has_more = _has_more(document, scheme)
    if has_more is False:
        return None
    if scheme.type == "offset":
        return _next_offset(scheme, page, count, has_more=bool(has_more))
    if scheme.in_body:
        position_text = _cursor_json(document, scheme.cursor_path_in_response or "")
    else:
        position_text = (
            _next_cursor(document, scheme) if scheme.type == "cursor" else _next_link(document, headers, scheme, page)
        )
    if position_text is None and has_more:
        raise _page_error(f"says that more records follow ({scheme.has_more_path_in_response}), but not where")
    return position_text


def _has_more(document: PageDocument, scheme: PagingScheme) -> bool | None:
    """Return the value of the has-more flag; None if the page has no such flag."""
    if scheme.has_more_path_in_response is None:
        return None
    value = document.value(scheme.has_more_path_in_response)
    return None if value is NonScalar.MISSING else value not in _FALSE_VALUES


def _next_cursor(document: PageDocument, scheme: PagingScheme) -> str | None:
    assert scheme.cursor_path_in_response is not None
    return _cursor_text(document.value(scheme.cursor_path_in_response), f"a cursor ({scheme.cursor_path_in_response})")


def _cursor_json(document: PageDocument, path: str) -> str | None:
    """Return the cursor at `path` as JSON text in ASCII; None if there is no cursor.

    The JSON text keeps the cursor's type, so that a number is sent back as a number.
    """
    cursor_json = document.raw(path)
    if cursor_json is None or cursor_json in _EMPTY_JSON:
        return None
    if len(cursor_json) > MAX_CURSOR:
        raise _page_error(f"has a cursor of more than {MAX_CURSOR} characters ({path})")
    try:
        value = json.loads(cursor_json)
        json.dumps(value, ensure_ascii=False).encode()
        return json.dumps(value, separators=(",", ":"))
    except (ValueError, RecursionError) as fault:
        raise _page_error(f"has a cursor that cannot be sent back ({path})") from fault


# ── GraphQL: reads a connection of the Relay specification, at any place in the response.

PAGE_INFO: Final = "pageInfo"
_SELECT: Final = f"Select '{PAGE_INFO} {{ endCursor hasNextPage }}' beside its nodes"


def _read_connection_page(document: PageDocument, scheme: PagingScheme) -> PageResult:
    """Read a page of a GraphQL connection.

    In the result, `scheme` names the connection, so that later pages use the same connection.
    """
    errors = document.records("errors")
    if isinstance(errors, Records) and len(errors):
        reason = document.value("errors.0.message")
        raise _page_error(
            f"has errors: {json.dumps(reason)[:MAX_REASON] if isinstance(reason, str) else 'an error without a message'}"
        )
    path = scheme.response_path or _connection_path(document)
    records = document.records(f"{path}.nodes")
    if not isinstance(records, Records):
        records = document.records(f"{path}.edges")
    if not isinstance(records, Records):
        raise _page_error(f"has neither nodes nor edges in '{path}'. {_SELECT}")
    scheme = replace(scheme, response_path=path)
    has_more = document.value(f"{path}.{PAGE_INFO}.hasNextPage")
    if has_more is False:
        return PageResult(records, scheme, None)
    try:
        position_text = _cursor_json(document, f"{path}.{PAGE_INFO}.endCursor") if has_more is True else None
    except UpstreamFailed as fault:
        return PageResult(records, scheme, None, fault)
    if position_text is None:
        return PageResult(
            records, scheme, None, _page_error(f"does not say in '{path}' whether more records follow. {_SELECT}")
        )
    return PageResult(records, scheme, Position(scheme, position_text))


def _connection_path(document: PageDocument) -> str:
    paths = document.paths_of_objects_with(PAGE_INFO)
    if len(paths) == 1:
        return paths[0]
    if not paths:
        raise _page_error(f"has no connection with {PAGE_INFO} outside of lists. {_SELECT}")
    shown_paths = ", ".join(sorted(paths)[:20])
    raise _page_error(
        f"has several connections: {shown_paths}. Say which one: 'Gateway-Paginate: all; type=graphql; response_path=…'"
    )


def _next_link(document: PageDocument, headers: Fields, scheme: PagingScheme, page: PageUrl) -> str | None:
    link = _header_link(headers, scheme)
    if not link and scheme.link_path_in_response_body is not None:
        path = scheme.link_path_in_response_body
        link = _cursor_text(document.value(path), f"a URL of the next page ({path})")
    if not link:
        return None
    try:
        return resolve(link, page).url
    except ValueError as fault:
        raise UpstreamFailed(
            "next_page_refused", f"The URL of the provider's next page cannot be used: {fault}."
        ) from fault


def _header_link(headers: Fields, scheme: PagingScheme) -> str | None:
    if scheme.link_rel_in_response_header is None:
        return None
    lines = (value for name, value in headers if name.lower() == "link")
    return link_target(scheme.link_rel_in_response_header, lines)


def _next_offset(scheme: PagingScheme, page: PageUrl, count: int, *, has_more: bool) -> str | None:
    """Return the next offset, which follows from this page's offset; None on the last page.

    Only an empty page is the end of the list. A short page is not the end, because the provider can remove records from
    a page.
    """
    counts_pages = scheme.offset_calculation_method == "per-page"
    if not count:
        if has_more and not counts_pages:
            raise _page_error("is empty but says that more records follow, so the next offset is unknown")
        return str(offset_of(scheme, page) + 1) if has_more else None
    return str(offset_of(scheme, page) + (1 if counts_pages else count))


def offset_of(scheme: PagingScheme, page: PageUrl) -> int:
    """Return the offset in the query or the body of the request for `page`; the start value if there is no offset."""
    if scheme.in_body:
        value = PageDocument(page.body or b"{}").value(scheme.offset_name_in_request or "")
        sent_offsets = [value] if isinstance(value, str) else []
    else:
        pairs = page.target.partition("?")[2].split("&")
        sent_offsets = [
            unquote_plus(pair.partition("=")[2])
            for pair in pairs
            if parameter_name(pair) == scheme.offset_name_in_request
        ]
    if sent_offsets and sent_offsets[-1].isascii() and sent_offsets[-1].isdigit():
        return int(sent_offsets[-1][:18])
    return scheme.offset_start_value or 0


def _cursor_text(value: Value, name: str) -> str | None:
    """Return `value`; None if there is no next page. `name`: what `value` is, for messages."""
    if value is NonScalar.MISSING or value in _NO_CURSOR_VALUES:
        return None
    if not isinstance(value, str):
        raise _page_error(f"has {name} that is not text")
    try:
        value.encode()
    except UnicodeEncodeError as fault:
        raise _page_error(f"has {name} with invalid Unicode (a lone surrogate)") from fault
    return value


def _page_error(fault: str) -> UpstreamFailed:
    return UpstreamFailed("page_unreadable", f"The provider's page {fault}.")
