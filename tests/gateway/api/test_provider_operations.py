"""`GET /providers/{provider}/operations`."""

from typing import Any

import pytest

from tests.gateway.api import test_providers as base
from tests.gateway.api.test_providers import Client

catalog, client = base.catalog, base.client


async def body(client: Client, query: str, status: int = 200) -> dict[str, Any]:
    response = await client.get(f"/providers/{query}")
    assert response.status == status, await response.text()
    found: dict[str, Any] = await response.json()
    return found


async def test_operations_are_found_by_words_risk_and_scope(client: Client) -> None:
    found = await body(client, "jira/operations?search=issue&risk=read&starter=true")
    assert [item["id"] for item in found["data"]] == ["get_issue", "list_comments", "list_transitions", "search_issues"]
    assert found["data"][0]["path"] == "/ex/jira/${connectionConfig.cloudId}/rest/api/3/issue/{issueIdOrKey}"
    assert found["source"]["licence"].startswith("Apache-2.0")
    assert found["scopes"] == {"all_of": ["read:jira-work"], "any_of": [], "unstated": 0}
    found = await body(client, "jira/operations?scope=manage:jira-webhook&granted=manage:jira-webhook%20me")
    assert found["data"]
    assert all("manage:jira-webhook" in item["scopes"] for item in found["data"])
    assert found["scopes"]["unneeded"] == ["me"]


async def test_pages_follow_each_other_without_a_gap(client: Client) -> None:
    every = [item["id"] for item in (await body(client, "jira/operations?limit=1000"))["data"]]
    assert len(every) == 380
    seen: list[str] = []
    cursor = ""
    while True:
        page = await body(client, f"jira/operations?limit=150&cursor={cursor}")
        seen += [item["id"] for item in page["data"]]
        if "next_cursor" not in page:
            break
        cursor = page["next_cursor"]
    assert seen == every


async def test_the_entity_tag_saves_the_body(client: Client) -> None:
    response = await client.get("/providers/jira/operations")
    again = await client.get("/providers/jira/operations", headers={"If-None-Match": response.headers["ETag"]})
    assert again.status == 304


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("nobody/operations", 404, "not_found"),
        ("sandbox/operations", 404, "not_found"),
        ("jira/operations?risk=high", 400, "invalid_query_params"),
        ("jira/operations?starter=maybe", 400, "invalid_query_params"),
        ("jira/operations?limit=0", 400, "invalid_query_params"),
        ("jira/operations?cursor=x", 400, "invalid_query_params"),
        ("jira/operations?colour=red", 400, "invalid_query_params"),
        ("ji%20ra/operations", 400, "invalid_uri_params"),
    ],
)
async def test_wrong_query_is_refused_with_a_reason(client: Client, query: str, status: int, code: str) -> None:
    assert (await body(client, query, status))["error"]["code"] == code
