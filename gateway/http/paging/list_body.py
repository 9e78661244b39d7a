"""Checks the JSON body of a POST that requests a list, and rewrites the body for each page.

Members that do not change from page to page keep their bytes. A GraphQL request must be a query with a variable for the
cursor.
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
BODY_BOUND_FIELDS: Final = (
    "Idempotency-Key", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest", "X-Amz-Content-Sha256",
)  # fmt: skip
"""Fields that are valid for only one body. So the requests for later pages do not have these fields."""

# GraphQL, October 2021, §2.1. Each string and each comment is one match, so words inside them do not count.
_LEXEME: Final = re.compile(
    r'"""(?:[^"\\]|\\"""|\\|"(?!""))*+"""|"(?:[^"\\\n\r]|\\.)*+"|#[^\n\r]*+|[{}()\[\]]|[$@]?[_A-Za-z][_0-9A-Za-z]*+'
)
_VARIABLES: Final = "variables."
_READ_ONLY_KINDS: Final = frozenset({"query", "fragment"})


def check_list_body(body: bytes, content_type: str, coding: str, schemes: Sequence[PagingScheme]) -> list[PagingScheme]:
    """Return those of `schemes` that fit this body. A GraphQL scheme fits only if its variable is in the query.

    Raises ValueError; its message is the rest of a sentence that begins with the name of the header.
    """
    media = media_type(content_type or JSON)
    if coding or not (media == JSON or media.endswith("+json")):
        raise ValueError("needs a POST with a plain JSON body; send it with Content-Type: application/json")
    try:
        document = PageDocument(body)
        blocked_names = [name for scheme in schemes for name in _body_names(scheme) if _is_blocked(document, name)]
        query = document.value("query")
    except UpstreamFailed as fault:
        raise ValueError("needs a POST with a JSON body, and this body is not JSON") from fault
    if not body.lstrip().startswith(b"{"):
        raise ValueError("needs a POST with a JSON object as its body; send at least {}")
    if blocked_names:
        raise ValueError(f"cannot set {blocked_names[0]} in the body, because one of its parents is not an object")
    if not any(scheme.type == "graphql" or _variable(scheme) for scheme in schemes):
        return list(schemes)
    return _schemes_with_variable(body, query, schemes)


def first_body(body: bytes, schemes: Sequence[PagingScheme], limit: int | None) -> bytes:
    """Return the body for the first page: with the page size and, if known, the first offset.

    `limit`: the page size; None sets no page size. Raises InvalidRequest ``invalid_headers`` if there is a `limit`, but
    no scheme names a member for the limit.
    """
    if limit is not None:
        names = [scheme.limit_name_in_request for scheme in schemes if scheme.limit_name_in_request is not None]
        if not names:
            raise wrong_header(
                "Gateway-Paginate",
                "has a limit, but limit_name_in_request is not known for this body; give it, or put the limit into the "
                "body",
            )
        body = _put(body, names[0], limit)
    scheme = schemes[0]
    if len(schemes) == 1 and scheme.type == "offset" and scheme.offset_start_value is not None:
        assert scheme.offset_name_in_request is not None
        if PageDocument(body).value(scheme.offset_name_in_request) is NonScalar.MISSING:
            body = _put(body, scheme.offset_name_in_request, scheme.offset_start_value)
    return body


def body_at(body: bytes, position: Position) -> bytes:
    """Return the body that requests the page at `position`; `body` is the body of the first page."""
    scheme = position.scheme
    name = scheme.offset_name_in_request if scheme.type == "offset" else scheme.cursor_name_in_request
    assert name is not None  # a `PagingScheme` has all names that its type needs
    return _put(b"{}" if scheme.next_path_in_request is not None else body, name, json.loads(position.at))


def digest_of_body(body: bytes) -> str:
    """Return the body's digest: 128 bits in hexadecimal."""
    return hashlib.sha256(body).hexdigest()[:32]


def _put(body: bytes, name: str, value: Any) -> bytes:
    for step in reversed(name.split(".")):
        value = {step: value}
    return BodyMembers(slots=value).add_to_body(JSON, body)


def _changing_names(scheme: PagingScheme) -> Iterator[str]:
    return (name for name in (scheme.cursor_name_in_request, scheme.offset_name_in_request) if name is not None)


def _body_names(scheme: PagingScheme) -> Iterator[str]:
    yield from _changing_names(scheme)
    if scheme.limit_name_in_request is not None:
        yield scheme.limit_name_in_request


def _is_blocked(document: PageDocument, name: str) -> bool:
    """Return whether `document` has a parent of the dotted path `name` that is neither an object nor null."""
    steps = name.split(".")
    parents = [".".join(steps[:count]) for count in range(1, len(steps))]
    return any(
        isinstance(document.records(parent), Records)
        or document.value(parent) not in (None, NonScalar.MISSING, NonScalar.CONTAINER)
        for parent in parents
    )


def _variable(scheme: PagingScheme) -> str | None:
    """Return the GraphQL variable that changes from page to page; None if `scheme` has no such variable."""
    names = [name for name in _changing_names(scheme) if name.startswith(_VARIABLES)]
    return names[0].removeprefix(_VARIABLES) if names else None


def _query_members(body: bytes) -> int:
    """Return the number of members that a parser can read as ``query``.

    Go's parser also accepts ``Query``, and uses the last such member.
    """
    query_counts: list[int] = []  # the last count belongs to the outermost object

    def count_queries(pairs: list[tuple[str, Any]]) -> None:
        query_counts.append(sum(name.casefold() == "query" for name, _ in pairs))

    json.loads(body, object_pairs_hook=count_queries, parse_int=str)
    return query_counts[-1]


def _schemes_with_variable(body: bytes, query: Any, schemes: Sequence[PagingScheme]) -> list[PagingScheme]:
    """Return those of `schemes` whose GraphQL variable the query declares, and those without a variable."""
    if not isinstance(query, str):
        raise ValueError("needs a GraphQL request with its document in query; a stored document cannot be checked")
    if _query_members(body) > 1:
        raise ValueError("needs a GraphQL request with exactly one member named query, in upper or lower case")
    kinds, variables = _definitions(query)
    writing_kinds = sorted(kinds - _READ_ONLY_KINDS)
    if writing_kinds:
        raise ValueError(f"works only for a GraphQL query, and this document has a {writing_kinds[0]}")
    usable_schemes = [scheme for scheme in schemes if _variable(scheme) is None or _variable(scheme) in variables]
    if not usable_schemes:
        names = " or ".join(dict.fromkeys(f"${_variable(scheme)}" for scheme in schemes))
        raise ValueError(
            f"needs the variable {names} in the query, as in 'query($first: Int, $after: String) {{ things(first: "
            "$first, after: $after) { nodes { id } pageInfo { endCursor hasNextPage } } }'"
        )
    return usable_schemes


def _definitions(query: str) -> tuple[set[str], set[str]]:
    """Return the kinds of a document's definitions (``query``, ``mutation`` …), and its variables."""
    kinds: set[str] = set()
    variables: set[str] = set()
    depth, at_definition_start = 0, True
    for match in _LEXEME.finditer(query):
        lexeme = match[0]
        if lexeme in "{([":
            if at_definition_start and depth == 0:
                kinds.add("query")
                at_definition_start = False
            depth += 1
        elif lexeme in "})]":
            if not depth:
                raise ValueError("works only for a GraphQL query, and this document closes more brackets than it opens")
            depth -= 1
            at_definition_start = at_definition_start or (depth == 0 and lexeme == "}")
        elif lexeme.startswith("$"):
            variables.add(lexeme[1:])
        elif at_definition_start and depth == 0 and lexeme[0] not in '"#@':
            kinds.add(lexeme)
            at_definition_start = False
    return kinds, variables
