"""The REST API of the fake Jira: sites, issues, a subset of Jira's query language JQL, pagination."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from gateway.sandbox.accounts import ACCOUNTS
from gateway.sandbox.callers import AccessRefused, SandboxCaller, authenticated_caller
from gateway.sandbox.state import SANDBOX
from gateway.sandbox.tracker import SITES, TYPES, TrackerIssue, TrackerSite

# ── The supported subset of JQL: ``project = ACME AND status = "To Do" ORDER BY created DESC``.
#
# Any other JQL is refused. If the sandbox ignored a filter, the caller would get wrong issues without an error.

_FIELDS: Final[Mapping[str, Callable[[TrackerIssue], str]]] = {
    "project": lambda issue: SITES[issue.cloud_id].project,
    "key": lambda issue: issue.key,
    "status": lambda issue: issue.status,
    "issuetype": lambda issue: issue.issue_type,
    "assignee": lambda issue: _display_name(issue.assignee),
    "reporter": lambda issue: _display_name(issue.reporter),
}
_ORDERS: Final[Mapping[str, Callable[[TrackerIssue], float]]] = {
    "created": lambda issue: issue.created_at,
    "key": lambda issue: float(issue.number),
}
_ORDER_BY = re.compile(r"\s*\border\s+by\s+(\w+)(?:\s+(asc|desc))?\s*$", re.IGNORECASE)
_TERM = re.compile(r"""\s*(\w+)\s*(!?=)\s*(?:"([^"]*)"|'([^']*)'|([\w.-]+))\s*""")
_AND = re.compile(r"and\b", re.IGNORECASE)


class BadQuery(Exception):
    """The query contains JQL that the sandbox does not support. The text lists the supported JQL."""


def find_issues(issues: Sequence[TrackerIssue], query: str) -> list[TrackerIssue]:
    """Return the issues that match the query. Raises BadQuery.

    Without ORDER BY in the query, the newest issue comes first.
    """
    order = _ORDER_BY.search(query)
    order_field = order[1].lower() if order else "created"
    if order_field not in _ORDERS:
        raise BadQuery(f"ORDER BY takes {' or '.join(_ORDERS)} here, not {order_field!r}.")
    matches = list(issues)
    for name, value, must_equal in _terms(query[: order.start()] if order else query):
        matches = [issue for issue in matches if (_FIELDS[name](issue).lower() == value) is must_equal]
    ascending = order is not None and (order[2] or "asc").lower() == "asc"
    return sorted(matches, key=_ORDERS[order_field], reverse=not ascending)


def _terms(text: str) -> list[tuple[str, str, bool]]:
    """Return the terms of a query, each as its field, its value in lower case, and whether its operator is ``=``."""
    terms: list[tuple[str, str, bool]] = []
    position = 0
    while text[position:].strip():
        conjunction = _AND.match(text, position) if terms else None
        term = _TERM.match(text, conjunction.end() if conjunction else position)
        if term is None or (terms and conjunction is None) or term[1].lower() not in _FIELDS:
            raise BadQuery(
                f"Cannot parse {text[position:].strip()!r}. Supported: 'field = value' and 'field != value', joined by AND, "
                f"for {', '.join(_FIELDS)}, and ORDER BY {' or '.join(_ORDERS)}."
            )
        terms.append((term[1].lower(), (term[3] or term[4] or term[5] or "").lower(), term[2] == "="))
        position = term.end()
    return terms


def _display_name(account_id: str | None) -> str:
    return ACCOUNTS[account_id].display_name if account_id else "empty"


# ── Pagination by `startAt` and `maxResults`, or by the `nextPageToken` of the previous page.

PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 100


class BadPage(Exception):
    """An invalid pagination parameter. The text names the parameter and its valid values."""


def page_of(records: Sequence[Any], parameters: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """Return one page in Jira's format, with its records under `name`. Raises BadPage.

    The last page has no `nextPageToken`.
    """
    token = parameters.get("nextPageToken")
    start = position_in(token) if token else _whole_number(parameters, "startAt", 0)
    size = min(_whole_number(parameters, "maxResults", PAGE_SIZE), MAX_PAGE_SIZE)
    page_records = list(records[start : start + size])
    page: dict[str, Any] = {"startAt": start, "maxResults": size, "total": len(records), name: page_records}
    page["isLast"] = start + len(page_records) >= len(records)
    if not page["isLast"]:
        page["nextPageToken"] = token_for(start + len(page_records))
    return page


def token_for(position: int) -> str:
    """Return the token that requests the page with its first record at `position`."""
    return base64.urlsafe_b64encode(f"from:{position}".encode()).decode().rstrip("=")


def _whole_number(parameters: Mapping[str, Any], name: str, default: int) -> int:
    text = str(parameters.get(name, default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadPage(f"{name} must be a whole number from 0, not {text!r}.")
    return int(text)


def position_in(token: object) -> int:
    """Return the position that `token_for` encoded. Raises BadPage."""
    text = str(token)
    try:
        prefix, _, number = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).partition(
            b":"
        )
    except (binascii.Error, ValueError):
        prefix = number = b""
    if prefix != b"from" or not number.isdigit() or len(number) > 9:
        raise BadPage("The token of a page must be copied unchanged from the page before.")
    return int(number)


# ── The REST API: the sites and the user of an access token, and the issues.


async def accessible_resources(request: web.Request) -> web.Response:
    """Handle ``GET /oauth/token/accessible-resources``: return an array of the sites that the token can access."""
    caller = authenticated_caller(request)
    issuer = request.app[SANDBOX].issuer
    sites = [SITES[cloud_id] for cloud_id in caller.account.sites]
    return web.json_response(
        [
            {
                "id": site.cloud_id,
                "url": site.url,
                "name": site.name,
                "scopes": [scope for scope in caller.scopes if ":" in scope],
                "avatarUrl": f"{issuer}/avatars/{site.label}.svg",
            }
            for site in sites
        ]
    )


async def myself(request: web.Request) -> web.Response:
    """Handle ``GET …/myself``: return the user of the access token."""
    caller = authenticated_caller(request, "read:sandbox-user")
    site = _site(request, caller)
    account = caller.account
    return web.json_response(
        {
            "self": f"{_root(request, site)}/user?accountId={account.account_id}",
            "accountId": account.account_id,
            "emailAddress": account.email,
            "displayName": account.display_name,
            "active": True,
            "timeZone": "Etc/UTC",
        }
    )


async def search(request: web.Request) -> web.Response:
    """Handle ``GET …/search`` and ``POST …/search``: return one page of the issues that match a JQL query."""
    caller = authenticated_caller(request, "read:sandbox-work")
    site = _site(request, caller)
    parameters = await _json_object(request) if request.method == "POST" else request.query
    try:
        matches = find_issues(
            request.app[SANDBOX].memory.tracker.issues(site.cloud_id), str(parameters.get("jql") or "")
        )
        page = page_of(matches, parameters, name="issues")
    except (BadQuery, BadPage) as fault:
        raise AccessRefused(400, str(fault)) from fault
    page["issues"] = [_issue_json(request, site, issue) for issue in page["issues"]]
    return web.json_response(page)


async def read_issue(request: web.Request) -> web.Response:
    """Handle ``GET …/issue/{key}``: return one issue."""
    caller = authenticated_caller(request, "read:sandbox-work")
    site = _site(request, caller)
    issue = request.app[SANDBOX].memory.tracker.find(site.cloud_id, request.match_info["key"])
    if issue is None:
        raise AccessRefused(404, "Issue does not exist or you do not have permission to see it.")
    return web.json_response(_issue_json(request, site, issue))


async def create_issue(request: web.Request) -> web.Response:
    """Handle ``POST …/issue``: create an issue, and return a 201 with its URL.

    The body is ``{"fields": {"project": {"key"}, "summary", "issuetype": {"name"}}}``.
    """
    caller = authenticated_caller(request, "write:sandbox-work")
    site = _site(request, caller)
    fields = (await _json_object(request)).get("fields")
    fields = fields if isinstance(fields, dict) else {}
    summary, project, issue_type = fields.get("summary"), fields.get("project"), fields.get("issuetype")
    faults = {}
    if not isinstance(project, dict) or project.get("key") != site.project:
        faults["project"] = f"This site has one project: {site.project}."
    if not isinstance(summary, str) or not 1 <= len(summary.strip()) <= 255:
        faults["summary"] = "You must specify a summary of at most 255 characters."
    if not isinstance(issue_type, dict) or issue_type.get("name") not in TYPES:
        faults["issuetype"] = f"Choose one of {', '.join(TYPES)}."
    if faults:
        raise AccessRefused(400, fields=faults)
    assert isinstance(summary, str)
    assert isinstance(issue_type, dict)
    issue = request.app[SANDBOX].memory.tracker.create(
        site.cloud_id, summary=summary.strip(), issue_type=issue_type["name"], reporter=caller.account.account_id
    )
    url = f"{_root(request, site)}/issue/{issue.id}"
    return web.json_response({"id": issue.id, "key": issue.key, "self": url}, status=201, headers={"Location": url})


def _site(request: web.Request, caller: SandboxCaller) -> TrackerSite:
    """Return the site in the path.

    Raises AccessRefused with a 404, which is the same for an unknown site and for a site of another user.
    """
    cloud_id = request.match_info["cloud_id"].lower()
    if cloud_id not in caller.account.sites:
        raise AccessRefused(404, f"This token cannot access a site {cloud_id}; see /oauth/token/accessible-resources.")
    return SITES[cloud_id]


def _root(request: web.Request, site: TrackerSite) -> str:
    return f"{request.app[SANDBOX].issuer}/ex/sandbox/{site.cloud_id}/rest/api/3"


def _issue_json(request: web.Request, site: TrackerSite, issue: TrackerIssue) -> dict[str, Any]:
    def person(account_id: str | None) -> dict[str, str] | None:
        if account_id is None:
            return None
        return {"accountId": account_id, "displayName": ACCOUNTS[account_id].display_name}

    return {
        "id": issue.id,
        "key": issue.key,
        "self": f"{_root(request, site)}/issue/{issue.id}",
        "fields": {
            "summary": issue.summary,
            "status": {"name": issue.status},
            "issuetype": {"name": issue.issue_type},
            "project": {"key": site.project, "name": site.name},
            "reporter": person(issue.reporter),
            "assignee": person(issue.assignee),
            "created": datetime.fromtimestamp(issue.created_at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000+0000"),
        },
    }


async def _json_object(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise AccessRefused(400, "The body must be a JSON object.")
    return body
