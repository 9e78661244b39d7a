"""The sandbox's issue tracker: sites, issues, pages, and access control."""

from typing import Any

import pytest

from gateway.sandbox.accounts import ACME, GLOBEX
from tests.gateway.sandbox.conftest import Application

API = f"/ex/sandbox/{ACME}/rest/api/3"


async def test_a_token_can_access_only_the_sites_of_its_user(application: Application) -> None:
    token = (await application.connect(email="viewer@example.com"))["access_token"]
    _, sites = await application.get("/oauth/token/accessible-resources", token)
    assert [site["id"] for site in sites] == [GLOBEX]
    assert (await application.get(f"{API}/myself", token))[0] == 404
    status, person = await application.get(f"/ex/sandbox/{GLOBEX}/rest/api/3/myself", token)
    assert (status, person["emailAddress"]) == (200, "viewer@example.com")


async def test_the_demo_user_has_two_sites_in_a_fixed_order(application: Application) -> None:
    token = (await application.connect())["access_token"]
    _, sites = await application.get("/oauth/token/accessible-resources", token)
    assert [(site["id"], site["url"]) for site in sites] == [
        (ACME, "https://acme.sandbox.example"),
        (GLOBEX, "https://globex.sandbox.example"),
    ]
    assert sites[0]["scopes"] == ["read:sandbox-user", "read:sandbox-work", "write:sandbox-work"]
    async with application.browser.get(sites[0]["avatarUrl"]) as response:
        assert response.content_type == "image/svg+xml"


async def test_pages_by_offset_cover_the_list_once(application: Application) -> None:
    token = (await application.connect())["access_token"]
    keys: list[str] = []
    while True:
        _, page = await application.get(f"{API}/search?startAt={len(keys)}&maxResults=20", token)
        keys += [issue["key"] for issue in page["issues"]]
        if page["isLast"]:
            break
    assert len(keys) == len(set(keys)) == page["total"] == 57


async def test_pages_by_token_cover_the_list_once(application: Application) -> None:
    token = (await application.connect())["access_token"]
    _, page = await application.get(f"{API}/search?maxResults=25", token)
    keys = [issue["key"] for issue in page["issues"]]
    while "nextPageToken" in page:
        _, page = await application.get(f"{API}/search?maxResults=25&nextPageToken={page['nextPageToken']}", token)
        keys += [issue["key"] for issue in page["issues"]]
    assert keys == [f"ACME-{number}" for number in range(57, 0, -1)]


@pytest.mark.parametrize("query", ["maxResults=-1", "startAt=x", "nextPageToken=x", "jql=project", "jql=priority=1"])
async def test_an_invalid_request_is_400_with_the_reason(application: Application, query: str) -> None:
    token = (await application.connect())["access_token"]
    status, refusal = await application.get(f"{API}/search?{query}", token)
    assert status == 400
    assert refusal["errorMessages"][0]


async def test_a_query_filters_and_sorts(application: Application) -> None:
    token = (await application.connect())["access_token"]
    jql = 'project = acme AND status != "Done" AND assignee = "Dana Demo" ORDER BY key ASC'
    async with application.browser.get(
        f"{application.base}{API}/search", params={"jql": jql}, headers={"Authorization": f"Bearer {token}"}
    ) as response:
        issues = (await response.json())["issues"]
    assert issues
    assert all(issue["fields"]["status"]["name"] != "Done" for issue in issues)
    assert all(issue["fields"]["assignee"]["displayName"] == "Dana Demo" for issue in issues)
    numbers = [int(issue["key"].partition("-")[2]) for issue in issues]
    assert numbers == sorted(numbers)


async def test_an_issue_is_found_by_key_and_by_id_and_its_url_responds(application: Application) -> None:
    token = (await application.connect())["access_token"]
    _, by_key = await application.get(f"{API}/issue/acme-7", token)
    _, by_id = await application.get(f"{API}/issue/{by_key['id']}", token)
    _, by_self = await application.get(by_key["self"].removeprefix(application.base), token)
    assert by_key == by_id == by_self
    assert (await application.get(f"{API}/issue/ACME-999", token))[0] == 404


async def test_a_created_issue_is_first_in_the_list(application: Application) -> None:
    token = (await application.connect())["access_token"]
    status, made = await _create(
        application, token, {"summary": "Neu: Prüfen", "project": {"key": "ACME"}, "issuetype": {"name": "Bug"}}
    )
    assert (status, made["key"]) == (201, "ACME-58")
    _, page = await application.get(f"{API}/search?maxResults=1", token)
    assert page["issues"][0]["fields"]["summary"] == "Neu: Prüfen"


async def test_all_faults_of_a_new_issue_are_reported_together(application: Application) -> None:
    token = (await application.connect())["access_token"]
    status, refusal = await _create(application, token, {"project": {"key": "GLX"}})
    assert status == 400
    assert set(refusal["errors"]) == {"project", "summary", "issuetype"}


async def test_a_missing_scope_is_403_and_names_it(application: Application) -> None:
    token = (await application.connect(scope="read:sandbox-user"))["access_token"]
    status, refusal = await application.get(f"{API}/search", token)
    assert status == 403
    assert "read:sandbox-work" in refusal["message"]


@pytest.mark.parametrize("authorization", [None, "Bearer", "Bearer nonsense", "Basic eDp5", "Bearer sbx_at_x"])
async def test_an_invalid_token_is_401_with_a_challenge(application: Application, authorization: str | None) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    async with application.browser.get(f"{application.base}{API}/myself", headers=headers) as response:
        assert response.status == 401
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


async def _create(application: Application, token: str, fields: dict[str, Any]) -> tuple[int, Any]:
    async with application.browser.post(
        f"{application.base}{API}/issue", json={"fields": fields}, headers={"Authorization": f"Bearer {token}"}
    ) as response:
        return response.status, await response.json()
