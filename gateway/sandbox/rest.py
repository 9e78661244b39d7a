"""The tracker's REST API: the sites that a token reaches, who it stands for, and the issues."""

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from gateway.sandbox import jql, paging
from gateway.sandbox.accounts import ACCOUNTS
from gateway.sandbox.callers import Caller, Refused, the_caller
from gateway.sandbox.state import SANDBOX
from gateway.sandbox.tracker import SITES, TYPES, Issue, Site


async def accessible_resources(request: web.Request) -> web.Response:
    """GET /oauth/token/accessible-resources: every site this token reaches, as an array."""
    caller = the_caller(request)
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
    """GET …/myself: the person behind the token."""
    caller = the_caller(request, "read:sandbox-user")
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
    """GET and POST …/search: the issues that a query finds, page by page."""
    caller = the_caller(request, "read:sandbox-work")
    site = _site(request, caller)
    asked = await _object(request) if request.method == "POST" else request.query
    try:
        found = jql.find(request.app[SANDBOX].memory.tracker.issues(site.cloud_id), str(asked.get("jql") or ""))
        page = paging.cut(found, asked, name="issues")
    except (jql.BadQuery, paging.BadPage) as fault:
        raise Refused(400, str(fault)) from fault
    page["issues"] = [_shown(request, site, issue) for issue in page["issues"]]
    return web.json_response(page)


async def read_issue(request: web.Request) -> web.Response:
    """GET …/issue/{key}"""
    caller = the_caller(request, "read:sandbox-work")
    site = _site(request, caller)
    issue = request.app[SANDBOX].memory.tracker.find(site.cloud_id, request.match_info["key"])
    if issue is None:
        raise Refused(404, "Issue does not exist or you do not have permission to see it.")
    return web.json_response(_shown(request, site, issue))


async def create_issue(request: web.Request) -> web.Response:
    """POST …/issue with ``{"fields": {"project": {"key"}, "summary", "issuetype": {"name"}}}``: 201 and where it is."""
    caller = the_caller(request, "write:sandbox-work")
    site = _site(request, caller)
    fields = (await _object(request)).get("fields")
    fields = fields if isinstance(fields, dict) else {}
    summary, project, kind = fields.get("summary"), fields.get("project"), fields.get("issuetype")
    faults = {}
    if not isinstance(project, dict) or project.get("key") != site.project:
        faults["project"] = f"This site has one project: {site.project}."
    if not isinstance(summary, str) or not 1 <= len(summary.strip()) <= 255:
        faults["summary"] = "You must specify a summary of at most 255 characters."
    if not isinstance(kind, dict) or kind.get("name") not in TYPES:
        faults["issuetype"] = f"Choose one of {', '.join(TYPES)}."
    if faults:
        raise Refused(400, fields=faults)
    assert isinstance(summary, str)
    assert isinstance(kind, dict)
    issue = request.app[SANDBOX].memory.tracker.create(
        site.cloud_id, summary=summary.strip(), issue_type=kind["name"], reporter=caller.account.account_id
    )
    address = f"{_root(request, site)}/issue/{issue.id}"
    return web.json_response(
        {"id": issue.id, "key": issue.key, "self": address}, status=201, headers={"Location": address}
    )


def _site(request: web.Request, caller: Caller) -> Site:
    """A site that is not the caller's looks like none."""
    cloud_id = request.match_info["cloud_id"].lower()
    if cloud_id not in caller.account.sites:
        raise Refused(404, f"No site {cloud_id} is open to this token; see /oauth/token/accessible-resources.")
    return SITES[cloud_id]


def _root(request: web.Request, site: Site) -> str:
    return f"{request.app[SANDBOX].issuer}/ex/sandbox/{site.cloud_id}/rest/api/3"


def _shown(request: web.Request, site: Site, issue: Issue) -> dict[str, Any]:
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


async def _object(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Refused(400, "The body must be a JSON object.")
    return body
