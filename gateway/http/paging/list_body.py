"""The JSON body of a POST that requests a list: checked, and written again for each page.

What a page does not change keeps its bytes. A GraphQL request must only read, and must have the variable for the cursor.
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
from gateway.records.proxied_call import PagingScheme, Position

JSON: Final = "application/json"
STALE: Final = (
    "Idempotency-Key", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest", "X-Amz-Content-Sha256",
)  # fmt: skip
"""Fields that hold for one body, and so not for those of later pages."""

# GraphQL, October 2021, §2.1: texts and comments are passed over, so that no word in them counts.
_LEXEME: Final = re.compile(
    r'"""(?:[^"\\]|\\"""|\\|"(?!""))*+"""|"(?:[^"\\\n\r]|\\.)*+"|#[^\n\r]*+|[{}()\[\]]|[$@]?[_A-Za-z][_0-9A-Za-z]*+'
)
_VARIABLES: Final = "variables."
_READING: Final = frozenset({"query", "fragment"})


def check_list_body(body: bytes, content_type: str, coding: str, ways: Sequence[PagingScheme]) -> list[PagingScheme]:
    """Return those of `ways` that fit this body: of GraphQL's ways, only the ones that have their variable in the query.

    Raises ValueError that says what is wrong, to stand behind the header's name.
    """
    media = media_type(content_type or JSON)
    if coding or not (media == JSON or media.endswith("+json")):
        raise ValueError("goes with a POST whose body is plain JSON; send it with Content-Type: application/json")
    try:
        document = PageDocument(body)
        inner = [name for way in ways for name in _names(way) if _is_blocked(document, name)]
        query = document.value("query")
    except UpstreamFailed as fault:
        raise ValueError("goes with a POST whose body is JSON, and this one is none") from fault
    if not body.lstrip().startswith(b"{"):
        raise ValueError("goes with a POST whose body is a JSON object; send at least {}")
    if inner:
        raise ValueError(f"cannot put {inner[0]} into the body, where something else than an object is in its way")
    if not any(way.type == "graphql" or _variable(way) for way in ways):
        return list(ways)
    return _with_variable(body, query, ways)


def first_body(body: bytes, ways: Sequence[PagingScheme], limit: int | None) -> bytes:
    """Return the body for the first page: with the page size, and with the offset to begin with if that is known."""
    if limit is not None:
        names = [way.limit_name_in_request for way in ways if way.limit_name_in_request is not None]
        body = _put(body, names[0], limit)
    way = ways[0]
    if len(ways) == 1 and way.type == "offset" and way.offset_start_value is not None:
        assert way.offset_name_in_request is not None
        if PageDocument(body).value(way.offset_name_in_request) is NonScalar.MISSING:
            body = _put(body, way.offset_name_in_request, way.offset_start_value)
    return body


def body_at(body: bytes, position: Position) -> bytes:
    """The body that requests the page at `position`; `body` is that of the first page."""
    way = position.way
    name = way.offset_name_in_request if way.type == "offset" else way.cursor_name_in_request
    assert name is not None  # a way is complete
    return _put(b"{}" if way.next_path_in_request is not None else body, name, json.loads(position.at))


def digest_of_body(body: bytes) -> str:
    """128 bits in hex."""
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
    """Return whether a step on the way to `name` is neither an object nor null nor absent."""
    steps = name.split(".")
    parents = [".".join(steps[:count]) for count in range(1, len(steps))]
    return any(
        isinstance(document.records(parent), Records)
        or document.value(parent) not in (None, NonScalar.MISSING, NonScalar.CONTAINER)
        for parent in parents
    )


def _variable(way: PagingScheme) -> str | None:
    """Return the variable of a GraphQL request that moves from page to page."""
    names = [name for name in _moving(way) if name.startswith(_VARIABLES)]
    return names[0].removeprefix(_VARIABLES) if names else None


def _query_members(body: bytes) -> int:
    """How many members of the object some reader takes for ``query``: Go's takes ``Query`` too, and the last of several."""
    counted: list[int] = []  # the outermost object comes last

    def note(pairs: list[tuple[str, Any]]) -> None:
        counted.append(sum(name.casefold() == "query" for name, _ in pairs))

    json.loads(body, object_pairs_hook=note, parse_int=str)
    return counted[-1]


def _with_variable(body: bytes, query: Any, ways: Sequence[PagingScheme]) -> list[PagingScheme]:
    if not isinstance(query, str):
        raise ValueError(
            "goes with a GraphQL request that has its document under query; a stored one cannot be checked"
        )
    if _query_members(body) > 1:
        raise ValueError("goes with a GraphQL request that has query once, in any spelling")
    kinds, used = _definitions(query)
    writing = sorted(kinds - _READING)
    if writing:
        raise ValueError(f"goes with a GraphQL query only, and this document has a {writing[0]}")
    fitting = [way for way in ways if _variable(way) is None or _variable(way) in used]
    if not fitting:
        names = " or ".join(dict.fromkeys(f"${_variable(way)}" for way in ways))
        raise ValueError(
            f"needs the variable {names} in the query, as in 'query($first: Int, $after: String) {{ things(first: "
            "$first, after: $after) { nodes { id } pageInfo { endCursor hasNextPage } } }'"
        )
    return fitting


def _definitions(query: str) -> tuple[set[str], set[str]]:
    """The kinds of a document's definitions (``query``, ``mutation`` …), and the variables in it."""
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
                raise ValueError("goes with a GraphQL query only, and this document closes more than it opens")
            depth -= 1
            begins = begins or (depth == 0 and word == "}")
        elif word.startswith("$"):
            variables.add(word[1:])
        elif begins and depth == 0 and word[0] not in '"#@':
            kinds.add(word)
            begins = False
    return kinds, variables
