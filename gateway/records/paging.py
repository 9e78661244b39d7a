"""A list fetched page by page: how its provider cuts it, and how far one call has come."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["cursor", "link", "offset"]


@dataclass(frozen=True, slots=True)
class Way:
    """One way in which a provider cuts lists, complete enough to follow. The names are those of a catalog entry."""

    type: Kind
    cursor_path_in_response: str | None = None
    cursor_name_in_request: str | None = None
    limit_name_in_request: str | None = None
    response_path: str | None = None
    has_more_path_in_response: str | None = None
    link_rel_in_response_header: str | None = None
    link_path_in_response_body: str | None = None
    offset_name_in_request: str | None = None
    offset_start_value: int | None = None
    offset_calculation_method: Literal["per-page", "by-response-size"] | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page lies: `at` is the cursor, the absolute address or the offset, by the way's type."""

    way: Way
    at: str


@dataclass(frozen=True, slots=True)
class Paging:
    """What one call asked for.

    `pages`: how many answers to read, None for all. `ways`: what the first answer may turn out to be, best first.
    `cursor_named`: the caller said where the cursor is.
    `start`: the position to go on from, None for the beginning. `marks`: a line after each page tells how far it came.
    `request_digest` names the call that a resume cursor belongs to.
    """

    pages: int | None
    ways: Sequence[Way]
    start: Position | None
    marks: bool
    request_digest: str
    cursor_named: bool = False
