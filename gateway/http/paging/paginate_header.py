"""Parses the header ``Gateway-Paginate``, such as ``all; type=cursor; response_path="a.b"``.

The value is an item with parameters (RFC 8941 §3.3). The parser accepts more than the RFC: a value without blanks,
quotes, commas and semicolons needs no quotes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_START: Final = re.compile(r"[ \t]*+(?P<pages>[A-Za-z0-9_-]++)[ \t]*+")
_PARAM: Final = re.compile(
    r";[ \t]*+(?P<name>[a-z*][a-z0-9_.*-]*+)"
    r'(?:=(?:"(?P<quoted>(?:[ !#-\[\]-~]|\\["\\])*+)"|(?P<plain>[!#-+\--:<-~]++)))?+[ \t]*+'
)
MAX_VALUE_CHARS: Final = 255  # maximum length of the value of a parameter
MAX_STEPS: Final = 10  # maximum number of steps in a path
MAX_INDEXES: Final = 3  # maximum number of indexes in a path; each index costs another read of the page
_INDEX: Final = re.compile(r"-?[0-9]++")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}")
_TRUE_VALUES: Final = frozenset({"?1", "true", "1", None})
_FALSE_VALUES: Final = frozenset({"?0", "false", "0"})


@dataclass(frozen=True, slots=True)
class PaginateHeader:
    """The parsed header ``Gateway-Paginate``.

    `pages`: the maximum number of pages; None means all. `fields`: the parameters that replace fields of `paginate` in
    a catalog entry, as text. `limit`: the number of records in a page; None if the header does not set this number.
    `marks`: whether a line with a resume cursor follows each page.
    """

    pages: int | None
    fields: Mapping[str, str]
    limit: int | None = None
    marks: bool = False


def parse_paginate_header(text: str) -> PaginateHeader:
    """Parse the header's value.

    Raises ValueError; its message is the rest of a sentence that begins with the name of the header.
    """
    pages_match = _START.match(text)
    if pages_match is None or not (pages_match["pages"] == "all" or _COUNT.fullmatch(pages_match["pages"])):
        raise ValueError("must begin with 'all' or a number of pages, as in 'all' or '10; type=cursor'")
    params = _params(text, pages_match.end())
    return PaginateHeader(
        pages=None if pages_match["pages"] == "all" else int(pages_match["pages"]),
        limit=_limit(params.pop("limit")) if "limit" in params else None,
        marks=_flag("marks", params.pop("marks")) if "marks" in params else False,
        fields={
            name: _checked_value(name, _flag_text(name, value) if name == "in_body" else value)
            for name, value in params.items()
        },
    )


def _params(text: str, pos: int) -> dict[str, str | None]:
    """Return the parameters in `text` after `pos`, by name. A parameter without a value gets None."""
    params: dict[str, str | None] = {}
    while pos < len(text):
        param = _PARAM.match(text, pos)
        if param is None:
            raise ValueError(
                f"cannot be read from {text[pos : pos + 40]!r} on; write '; name=value' or '; name=\"value\"'"
            )
        if param["name"] in params:
            raise ValueError(f"has {param['name']} twice")
        quoted = param["quoted"]
        params[param["name"]] = param["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        pos = param.end()
    return params


def _limit(value: str | None) -> int:
    if value is None or not _COUNT.fullmatch(value):
        raise ValueError("has a limit that is not a number of records from 1")
    return int(value)


def _flag(name: str, value: str | None) -> bool:
    if value not in _TRUE_VALUES | _FALSE_VALUES:
        raise ValueError(f"has {name}={value}; write {name} without a value, or {name}=?1 or {name}=?0")
    return value in _TRUE_VALUES


def _flag_text(name: str, value: str | None) -> str:
    """Return a flag as ``true`` or ``false``, for `PaginateHeader.fields`."""
    return "true" if _flag(name, value) else "false"


def _checked_value(name: str, value: str | None) -> str:
    if value is None:
        raise ValueError(f"has {name} without a value")
    if len(value) > MAX_VALUE_CHARS:
        raise ValueError(f"has {name} with more than {MAX_VALUE_CHARS} characters")
    steps = value.split(".")
    if len(steps) > MAX_STEPS:
        raise ValueError(f"has {name} with more than {MAX_STEPS} steps")
    if sum(_INDEX.fullmatch(step) is not None for step in steps) > MAX_INDEXES:
        raise ValueError(f"has {name} with more than {MAX_INDEXES} numbers, which name items of arrays")
    return value
