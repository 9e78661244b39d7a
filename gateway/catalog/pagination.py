"""Finds the possible pagination methods of a list, in the provider's catalog entry and in the caller's header."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import Any, Final

from pydantic import ValidationError

from gateway.catalog.provider_parts import Paginate
from gateway.documents.pydantic_messages import pydantic_message
from gateway.documents.read_document import dotted
from gateway.http.url import has_dot_segment
from gateway.records.proxied_call import PagingScheme
from gateway.text import close_matches

MAX_FAULTS: Final = 10
FIELDS: Final = tuple(field.name for field in fields_of(PagingScheme))
_SPELLINGS: Final = {
    "_".join(field.split("_")[:count]): field for field in FIELDS for count in range(2, field.count("_") + 2)
} | {"type": "type"}
_NEEDS: Final = {
    "cursor": (("cursor_path_in_response",), ("cursor_name_in_request",)),
    "link": (("link_rel_in_response_header", "link_path_in_response_body"),),
    "offset": (("offset_name_in_request",),),
}
DEFAULT_CURSOR_PATH: Final = "variables.after"
"""The path of the cursor in the body of a GraphQL request, if neither the entry nor the caller states a path."""
_NO_PATH: Final = re.compile(r"[?#\\\s{}]")


class InvalidPagination(ValueError):
    """The pagination fields are invalid. `faults`: what is wrong.

    Each text in `faults` is the rest of a sentence that begins with the name of the header.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class PaginationOptions:
    """The parts of the caller's request that decide how the list is paginated.

    `path`: the path below the base URL. `query_names`: the names of the query parameters. `fields`: the parameters of
    the header ``Gateway-Paginate``, as text. `posted`: whether the request is a POST.
    """

    path: str
    query_names: Collection[str]
    fields: Mapping[str, str]
    posted: bool = False


def paging_schemes(
    paginate: Paginate | None, alternatives: Sequence[Paginate], options: PaginationOptions
) -> list[PagingScheme]:
    """Return the possible pagination methods of the list, the best method first. Raises InvalidPagination.

    The result has at least one method. If the caller's fields describe a complete method, only this method is returned.
    Otherwise the result is the entry's methods with an `applies_to` that covers the path; without these, its methods
    with a parameter of the caller's query; without these too, all its methods, and the first page decides.

    The caller's fields override the fields of the entry's methods, and an empty field removes a field. If the caller
    states a `type`, only the entry's methods of this type are used. The caller may shorten a field's name, for example
    ``cursor_path_in_response`` to ``cursor_path``.

    Each page of a POST is another POST, which could change data. So a POST is paginated only if an `applies_to` covers
    its path, or if the caller states that it returns a list.
    """
    fields = _full_names(options.fields)
    kind = fields.get("type")
    by_post = is_requested_by_post(kind, fields.get("in_body"))
    if by_post and not options.posted:
        raise InvalidPagination("says that the list is requested by POST, but this request has another method")
    applicable_schemes = [
        scheme
        for scheme in (paginate, *alternatives)
        if scheme is not None and _may_apply(scheme, options, by_post=by_post)
    ]
    schemes_of_type = [scheme for scheme in applicable_schemes if kind is None or scheme.type == kind]
    if kind is not None and not _missing(kind, fields) and by_post == options.posted:
        return [_parse_scheme(fields)]
    if not schemes_of_type:
        if options.posted and not by_post:
            raise InvalidPagination(
                "works for a POST only if the provider's catalog entry describes this path as a list. If this POST only "
                "reads, describe the list in the header, as in 'all; in_body; type=cursor; cursor_path_in_response=next; "
                "cursor_name_in_request=cursor; response_path=items' or 'all; type=graphql'"
            )
        if not fields:
            raise InvalidPagination(
                "does not say how to request the next page, and neither does the provider's catalog entry. Describe it in "
                "the header, as in "
                "'all; type=cursor; cursor_path_in_response=next; cursor_name_in_request=cursor; response_path=items'"
            )
        return [_parse_scheme(fields)]
    matching_schemes = (
        [
            scheme
            for scheme in schemes_of_type
            if scheme.applies_to is not None and applies_to_path(scheme.applies_to, options.path or "/")
        ]
        or [scheme for scheme in schemes_of_type if _page_parameters(scheme) & set(options.query_names)]
        or schemes_of_type
    )
    return _complete_schemes(
        [{**scheme.model_dump(include=set(FIELDS), exclude_none=True), **fields} for scheme in matching_schemes]
    )


def is_requested_by_post(kind: str | None, in_body: str | bool | None) -> bool:
    """Return whether lists with pagination of type `kind` are requested by POST, as GraphQL lists always are.

    `in_body`: this field, from the entry, or as text from the caller's header; None: the field is absent.
    """
    return kind == "graphql" or in_body in (True, "true")


def _may_apply(scheme: Paginate, options: PaginationOptions, *, by_post: bool) -> bool:
    """Return whether `scheme` can paginate this request.

    `scheme` must be for requests of the same method. For a POST, the caller must also state that the response is a list
    (`by_post`), or the `applies_to` of `scheme` must cover the path.
    """
    if is_requested_by_post(scheme.type, scheme.in_body) != options.posted:
        return False
    if not options.posted or by_post:
        return True
    return scheme.applies_to is not None and applies_to_path(scheme.applies_to, options.path or "/")


def _complete_schemes(candidates: Sequence[Mapping[str, Any]]) -> list[PagingScheme]:
    """Return the candidates that are complete. Raises InvalidPagination if no candidate is complete."""
    schemes: list[PagingScheme] = []
    faults: list[str] = []
    for candidate in candidates:
        try:
            schemes.append(_parse_scheme(candidate))
        except InvalidPagination as fault:
            faults += fault.faults
    if not schemes:
        raise InvalidPagination(*dict.fromkeys(faults))
    return schemes


def applies_to_path(applies_to: str, path: str) -> bool:
    """Return whether `applies_to` covers `path`. Return False if `applies_to` is a description and not a path.

    ``/search/…`` covers all paths below ``/search/``. ``{id}`` covers any single segment.
    """
    text = applies_to.strip()
    if not text.startswith("/") or re.search(r"\s", text):
        return False  # `applies_to` is a description, not a path
    beginning = text.rstrip(".…*")
    pattern = "[^/]+".join(map(re.escape, re.split(r"\{[^/{}]*\}", beginning)))
    return re.fullmatch(pattern + (".*" if beginning != text else "/?"), path, re.DOTALL) is not None


def _page_parameters(scheme: Paginate) -> set[str]:
    """Return the names of the parameters that differ from page to page."""
    return {name for name in (scheme.cursor_name_in_request, scheme.offset_name_in_request) if name}


def _parse_scheme(fields: Mapping[str, Any]) -> PagingScheme:
    nonempty_fields = {name: value for name, value in fields.items() if value != ""}
    if nonempty_fields.get("type") == "graphql":
        nonempty_fields = {"cursor_name_in_request": DEFAULT_CURSOR_PATH, **nonempty_fields, "in_body": True}
    if "type" not in nonempty_fields:
        raise InvalidPagination("has fields but no type; add type=cursor, link, offset or graphql")
    try:
        model = Paginate.model_validate(nonempty_fields)
    except ValidationError as invalid:
        faults = (f"has {dotted(error['loc'])}: {pydantic_message(error, 'json')}" for error in invalid.errors())
        raise InvalidPagination(*faults) from invalid
    missing_fields = _missing(model.type, model.model_dump(exclude_none=True))
    if missing_fields:
        raise InvalidPagination(*(f"has type={model.type} but no {name}" for name in missing_fields))
    fault = misplaced_fields(model)
    if fault is not None:
        raise InvalidPagination(f"has {fault}")
    return PagingScheme(**model.model_dump(include=set(FIELDS)))


def misplaced_fields(scheme: Paginate) -> str | None:
    """Return a text that names fields of `scheme` that cannot be combined; None if all fields can be combined."""
    if scheme.type == "link" and scheme.in_body:
        return "in_body with type=link, whose next page is a URL"
    if scheme.next_path_in_request is None:
        return None
    if scheme.type != "cursor" or not scheme.in_body:
        return "next_path_in_request, which goes with in_body and type=cursor only"
    path = scheme.next_path_in_request.replace("{path}", "/x")
    if not path.startswith("/") or _NO_PATH.search(path) or has_dot_segment(path):
        return "a next_path_in_request that is not a path, such as '/files/continue' or '{path}/continue'"
    return None


def _missing(kind: str, fields: Collection[str]) -> list[str]:
    return [" or ".join(names) for names in _NEEDS.get(kind, ()) if not any(name in fields for name in names)]


def _full_names(sent_fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields by their full names: ``cursor_path`` becomes ``cursor_path_in_response``.

    Raises InvalidPagination.
    """
    fields: dict[str, str] = {}
    faults: list[str] = []
    for name, value in sent_fields.items():
        if len(faults) >= MAX_FAULTS:
            break
        matching_fields = [name] if name in FIELDS else [field for field in FIELDS if field.startswith(f"{name}_")]
        if len(matching_fields) == 1 and matching_fields[0] not in fields:
            fields[matching_fields[0]] = value
        elif len(matching_fields) == 1:
            faults.append(f"has {matching_fields[0]} twice")
        else:
            similar_spellings = close_matches(name, _SPELLINGS, 1)
            suggestions = (
                matching_fields or [_SPELLINGS[word] for word in similar_spellings] or [*FIELDS, "limit", "marks"]
            )
            faults.append(f"has no field {name}; its fields are {', '.join(suggestions)}")
    if faults:
        raise InvalidPagination(*faults)
    return fields
