"""The corner of JQL that the tracker understands: ``project = ACME AND status = "To Do" ORDER BY created DESC``.

What it does not understand it refuses, since a filter that is ignored would be worse than none.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.sandbox.accounts import ACCOUNTS
from gateway.sandbox.tracker import SITES, Issue

_FIELDS: Final[Mapping[str, Callable[[Issue], str]]] = {
    "project": lambda issue: SITES[issue.cloud_id].project,
    "key": lambda issue: issue.key,
    "status": lambda issue: issue.status,
    "issuetype": lambda issue: issue.issue_type,
    "assignee": lambda issue: _name(issue.assignee),
    "reporter": lambda issue: _name(issue.reporter),
}
_ORDERS: Final[Mapping[str, Callable[[Issue], float]]] = {
    "created": lambda issue: issue.created_at,
    "key": lambda issue: float(issue.number),
}
_ORDER_BY = re.compile(r"\s*\border\s+by\s+(\w+)(?:\s+(asc|desc))?\s*$", re.IGNORECASE)
_TERM = re.compile(r"""\s*(\w+)\s*(!?=)\s*(?:"([^"]*)"|'([^']*)'|([\w.-]+))\s*""")
_AND = re.compile(r"and\b", re.IGNORECASE)


class BadQuery(Exception):
    """The text says what is understood here."""


def find(issues: Sequence[Issue], query: str) -> list[Issue]:
    """The issues that fit, newest first unless it says otherwise. Raises BadQuery."""
    order = _ORDER_BY.search(query)
    by = order[1].lower() if order else "created"
    if by not in _ORDERS:
        raise BadQuery(f"ORDER BY takes {' or '.join(_ORDERS)} here, not {by!r}.")
    found = list(issues)
    for name, wanted, equal in _terms(query[: order.start()] if order else query):
        found = [issue for issue in found if (_FIELDS[name](issue).lower() == wanted) is equal]
    ascending = order is not None and (order[2] or "asc").lower() == "asc"
    return sorted(found, key=_ORDERS[by], reverse=not ascending)


def _terms(text: str) -> list[tuple[str, str, bool]]:
    """Field, value in lower case, and whether it must be equal."""
    terms: list[tuple[str, str, bool]] = []
    at = 0
    while text[at:].strip():
        joint = _AND.match(text, at) if terms else None
        term = _TERM.match(text, joint.end() if joint else at)
        if term is None or (terms and joint is None) or term[1].lower() not in _FIELDS:
            raise BadQuery(
                f"Not understood: {text[at:].strip()!r}. This tracker knows 'field = value' or '!=', joined by AND, "
                f"for {', '.join(_FIELDS)}, and ORDER BY {' or '.join(_ORDERS)}."
            )
        terms.append((term[1].lower(), (term[3] or term[4] or term[5] or "").lower(), term[2] == "="))
        at = term.end()
    return terms


def _name(account_id: str | None) -> str:
    return ACCOUNTS[account_id].display_name if account_id else "empty"
