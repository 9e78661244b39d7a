"""Checks the JSON body of a POST that requests a list, and rewrites it for each page.

Members that do not change between pages keep their bytes.
A GraphQL request must be a query with a variable for the cursor.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gateway.errors import UpstreamFailed
from gateway.http.body_members import BodyMembers
from gateway.http.headers import media_type
from gateway.http.paging.page_document import NonScalar, PageDocument, Records
from gateway.http.proxy_options import wrong_header
from gateway.records.proxied_call import PagingScheme, Position

JSON: Final = "application/json"
STALE: Final = (
    "Idempotency-Key", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest", "X-Amz-Content-Sha256",
)  # fmt: skip
"""Fields that are valid for one body only, so they are not sent with later pages."""

# GraphQL, October 2021, §2.1: strings and comments are matched as a whole, so no word in them counts.
_LEXEME: Final = re.compile(
    r'"""(?:[^"\\]|\\"""|\\|"(?!""))*+"""|"(?:[^"\\\n\r]|\\.)*+"|#[^\n\r]*+|[{}()\[\]]|[$@]?[_A-Za-z][_0-9A-Za-z]*+'
)
_VARIABLES: Final = "variables."
_READING: Final = frozenset({"query", "fragment"})


def check_list_body(body: bytes, content_type: str, coding: str, ways: Sequence[PagingScheme]) -> list[PagingScheme]:
    """Return the `ways` that fit this body; a GraphQL way fits only if its variable is in the query.

    Raises ValueError; its message continues a sentence that begins with the header's name.
    """
    media = media_type(content_type or JSON)
    if coding or not (media == JSON or media.endswith("+json")):
        raise ValueError("needs a POST with a plain JSON body; send it with Content-Type: application/json")
    try:
        document = PageDocument(body)
        inner = [name for way in ways for name in _names(way) if _is_blocked(document, name)]
        query = document.value("query")
    except UpstreamFailed as fault:
        raise ValueError("needs a POST with a JSON body, and this body is not JSON") from fault
    if not body.lstrip().startswith(b"{"):
        raise ValueError("needs a POST with a JSON object as its body; send at least {}")
    if inner:
        raise ValueError(f"cannot set {inner[0]} in the body, because one of its parents is not an object")
    if not any(way.type == "graphql" or _variable(way) for way in ways):
        return list(ways)
    return _with_variable(body, query, ways)


def first_body(body: bytes, ways: Sequence[PagingScheme], limit: int | None) -> bytes:
    """Return the body for the first page: with the page size, and with the first offset if it is known.

    Raises InvalidRequest ``invalid_headers`` for a `limit` without a member for it:
    the ways that name one may not fit this body.
    """
    if limit is not None:
        names = [way.limit_name_in_request for way in ways if way.limit_name_in_request is not None]
        if not names:
            raise wrong_header(
                "Gateway-Paginate",
                "has a limit, but limit_name_in_request is not known for this body; give it, or put the limit into the "
                "body",
            )
        body = _put(body, names[0], limit)
    way = ways[0]
    if len(ways) == 1 and way.type == "offset" and way.offset_start_value is not None:
        assert way.offset_name_in_request is not None
        if PageDocument(body).value(way.offset_name_in_request) is NonScalar.MISSING:
            body = _put(body, way.offset_name_in_request, way.offset_start_value)
    return body


def body_at(body: bytes, position: Position) -> bytes:
    """Return the body that requests the page at `position`; `body` is the body of the first page."""
    way = position.way
    name = way.offset_name_in_request if way.type == "offset" else way.cursor_name_in_request
    assert name is not None  # a `PagingScheme` has all names that its type needs
    return _put(b"{}" if way.next_path_in_request is not None else body, name, json.loads(position.at))


def digest_of_body(body: bytes) -> str:
    """Return the body's digest: 128 bits in hex."""
    return hashlib.sha256(body).hexdigest()[:32]


def _put(body: bytes, name: str, value: Any) -> bytes:
    for step in reversed(name.split(".")):
        value = {step: value}
    return BodyMembers(slots=value).add_to_body(JSON, body)


def _moving(way: PagingScheme) -> Iterator[str]:
    return (name for name in (way.cursor_name_in_request, way.offset_name_in_request) if name is not None)


def _names(way: PagingScheme) -> Iterator[str]:
    yield from _moving(way)
    if way.limit_name_in_request is not None:
        yield way.limit_name_in_request


def _is_blocked(document: PageDocument, name: str) -> bool:
    """Return whether a parent of `name`, a dotted path, exists and is neither an object nor null."""
    steps = name.split(".")
    parents = [".".join(steps[:count]) for count in range(1, len(steps))]
    return any(
        isinstance(document.records(parent), Records)
        or document.value(parent) not in (None, NonScalar.MISSING, NonScalar.CONTAINER)
        for parent in parents
    )


def _variable(way: PagingScheme) -> str | None:
    """Return the variable of a GraphQL request that changes from page to page."""
    names = [name for name in _moving(way) if name.startswith(_VARIABLES)]
    return names[0].removeprefix(_VARIABLES) if names else None


def _query_members(body: bytes) -> int:
    """Return how many members some parser may read as ``query``: Go's also accepts ``Query``,
    and takes the last one."""
    counted: list[int] = []  # the outermost object comes last

    def note(pairs: list[tuple[str, Any]]) -> None:
        counted.append(sum(name.casefold() == "query" for name, _ in pairs))

    json.loads(body, object_pairs_hook=note, parse_int=str)
    return counted[-1]


def _with_variable(body: bytes, query: Any, ways: Sequence[PagingScheme]) -> list[PagingScheme]:
    if not isinstance(query, str):
        raise ValueError("needs a GraphQL request with its document in query; a stored document cannot be checked")
    if _query_members(body) > 1:
        raise ValueError("needs a GraphQL request with exactly one member named query, in upper or lower case")
    kinds, used = _definitions(query)
    writing = sorted(kinds - _READING)
    if writing:
        raise ValueError(f"works only for a GraphQL query, and this document has a {writing[0]}")
    fitting = [way for way in ways if _variable(way) is None or _variable(way) in used]
    if not fitting:
        names = " or ".join(dict.fromkeys(f"${_variable(way)}" for way in ways))
        raise ValueError(
            f"needs the variable {names} in the query, as in 'query($first: Int, $after: String) {{ things(first: "
            "$first, after: $after) { nodes { id } pageInfo { endCursor hasNextPage } } }'"
        )
    return fitting


def _definitions(query: str) -> tuple[set[str], set[str]]:
    """Return the kinds of a document's definitions (``query``, ``mutation`` …), and its variables."""
    kinds: set[str] = set()
    variables: set[str] = set()
    depth, begins = 0, True
    for found in _LEXEME.finditer(query):
        word = found[0]
        if word in "{([":
            if begins and depth == 0:
                kinds.add("query")
                begins = False
            depth += 1
        elif word in "})]":
            if not depth:
                raise ValueError("works only for a GraphQL query, and this document closes more brackets than it opens")
            depth -= 1
            begins = begins or (depth == 0 and word == "}")
        elif word.startswith("$"):
            variables.add(word[1:])
        elif begins and depth == 0 and word[0] not in '"#@':
            kinds.add(word)
            begins = False
    return kinds, variables
