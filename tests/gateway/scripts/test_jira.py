"""The choice of a Jira site: by subdomain, by cloud id, by the end user, or the first one."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.scripts.jira import SITES, jira_post_connection
from gateway.scripts.script_context import ProviderUnreadable, Refused, SiteChoiceNeeded
from tests.fakes.providers import provider

ACME = {"id": "id-acme", "url": "https://acme.atlassian.net", "name": "Acme", "scopes": ["read:jira-work"]}
XACME = {"id": "id-xacme", "url": "https://xacme.atlassian.net", "name": "acme", "scopes": ["read:jira-work"]}
WIKI = {"id": "id-wiki", "url": "https://wiki.atlassian.net/", "name": "Wiki", "scopes": ["read:confluence-user"]}


class FakeContext:
    """A script's context. The provider responds from a dict of path ▸ JSON; other paths are unreadable."""

    def __init__(self, sites: Any, config: Mapping[str, Any] | None = None, **responses: Any) -> None:
        settings = responses.pop("connection_config", {})
        proxy = {"base_url": "https://api.example.com", **responses.pop("proxy", {})}
        self.provider = provider(proxy=proxy, connection_config=settings)
        self.config = dict(config or {})
        self.responses = {SITES: sites, **responses}
        self.paths: list[str] = []
        self.must_ask = False
        self.account: tuple[str | None, str | None] = (None, None)

    def set_account(self, *, id: str | None, label: str | None) -> None:  # noqa: A002
        self.account = (id, label)

    def set_config(self, **settings: str) -> None:
        self.config.update(settings)

    async def get_json(self, path: str) -> Any:
        self.paths.append(path)
        if path not in self.responses:
            raise ProviderUnreadable(f"{path} returned 404")
        return self.responses[path]


async def test_without_a_subdomain_the_first_site_is_used() -> None:
    context = FakeContext([XACME, ACME])
    await jira_post_connection(context)
    assert context.config == {"cloudId": "id-xacme", "subdomain": "xacme", "baseUrl": "https://xacme.atlassian.net"}


@pytest.mark.parametrize(
    "value", ["acme", "ACME", " acme ", "acme.atlassian.net", "Acme.Atlassian.NET", "acme.atlassian.net."]
)
async def test_a_subdomain_selects_the_site_with_that_host_label(value: str) -> None:
    context = FakeContext([XACME, ACME], {"subdomain": value})
    await jira_post_connection(context)
    assert (context.config["cloudId"], context.config["subdomain"]) == ("id-acme", "acme")


@pytest.mark.parametrize(
    "value", ["cme", "acm", "xacm", "acme.example.net", "acme.atlassian.net.evil.test", "Wiki Inc"]
)
async def test_a_subdomain_that_matches_no_site_refuses_and_names_the_sites(value: str) -> None:
    context = FakeContext([XACME, ACME], {"subdomain": value})
    with pytest.raises(Refused, match="xacme, acme") as refused:
        await jira_post_connection(context)
    assert [site["subdomain"] for site in refused.value.payload["sites"]] == ["xacme", "acme"]
    assert "cloudId" not in context.config


LOOKALIKE = {"id": "id-evil", "url": "https://acme.evil.test", "name": "Acme", "scopes": ["read:jira-work"]}
SUFFIX: dict[str, Any] = {"subdomain": {"suffix": ".atlassian.net", "optional": True}}


async def test_a_subdomain_does_not_match_a_host_of_another_domain() -> None:
    context = FakeContext([LOOKALIKE, ACME], {"subdomain": "acme"}, connection_config=SUFFIX)
    await jira_post_connection(context)
    assert context.config["cloudId"] == "id-acme"
    with pytest.raises(Refused, match="No site matches"):
        await jira_post_connection(FakeContext([LOOKALIKE], {"subdomain": "acme"}, connection_config=SUFFIX))


async def test_a_subdomain_that_matches_hosts_of_two_domains_is_refused() -> None:
    with pytest.raises(Refused, match=r"Enter the whole host: acme\.atlassian\.net, acme\.evil\.test\."):
        await jira_post_connection(FakeContext([LOOKALIKE, ACME], {"subdomain": "acme"}))
    context = FakeContext([LOOKALIKE, ACME], {"subdomain": "acme.atlassian.net"})
    await jira_post_connection(context)
    assert context.config["cloudId"] == "id-acme"


async def test_a_site_that_was_connected_without_a_subdomain_is_found_again_by_its_cloud_id() -> None:
    context = FakeContext([LOOKALIKE], connection_config=SUFFIX)
    await jira_post_connection(context)
    again = FakeContext([LOOKALIKE, ACME], context.config, connection_config=SUFFIX)
    await jira_post_connection(again)
    assert again.config["cloudId"] == "id-evil"


async def test_the_name_of_a_site_is_not_its_host() -> None:
    context = FakeContext([XACME], {"subdomain": "acme"})
    with pytest.raises(Refused):
        await jira_post_connection(context)


async def test_a_given_cloud_id_must_be_among_the_sites() -> None:
    context = FakeContext([XACME, ACME], {"cloudId": "id-acme"})
    await jira_post_connection(context)
    assert context.config["subdomain"] == "acme"
    with pytest.raises(Refused, match="cloudId 'elsewhere'"):
        await jira_post_connection(FakeContext([ACME], {"cloudId": "elsewhere"}))


async def test_a_cloud_id_and_a_subdomain_must_select_the_same_site() -> None:
    with pytest.raises(Refused):
        await jira_post_connection(FakeContext([XACME, ACME], {"cloudId": "id-xacme", "subdomain": "acme"}))


@pytest.mark.parametrize("sites", [[], [{}], [{"id": "x"}], [{"id": "x", "url": "http://["}], [{"id": 7, "url": 8}]])
async def test_no_usable_site_refuses_the_connection(sites: Any) -> None:
    with pytest.raises(Refused, match="no site"):
        await jira_post_connection(FakeContext(sites))


@pytest.mark.parametrize("response", [{}, None, "sites", {"error": "x"}])
async def test_response_that_is_not_a_list_is_unreadable(response: Any) -> None:
    with pytest.raises(ProviderUnreadable):
        await jira_post_connection(FakeContext(response))


async def test_the_account_that_authorized_is_stored_if_the_provider_reports_it() -> None:
    context = FakeContext([ACME], **{"/ex/jira/id-acme/rest/api/3/myself": {"accountId": "5b10"}})
    await jira_post_connection(context)
    assert context.config["accountId"] == "5b10"


async def test_account_of_a_confluence_site_is_read_from_confluence() -> None:
    context = FakeContext([WIKI], **{"/ex/confluence/id-wiki/wiki/rest/api/user/current": {"accountId": "w"}})
    await jira_post_connection(context)
    assert (context.config["accountId"], context.config["subdomain"]) == ("w", "wiki")


async def test_path_of_the_account_follows_the_entrys_path_form() -> None:
    form = {"path_form": "/ex/sandbox/${connectionConfig.cloudId}/rest/api/3/<endpoint>"}
    context = FakeContext([{**ACME, "id": "a/../b"}], proxy=form)
    await jira_post_connection(context)
    assert context.paths[1] == "/ex/sandbox/a%2F..%2Fb/rest/api/3/myself"


async def test_a_session_that_asks_for_the_site_gets_the_matching_sites() -> None:
    context = FakeContext([ACME, XACME])
    context.must_ask = True
    with pytest.raises(SiteChoiceNeeded) as open_:
        await jira_post_connection(context)
    first = open_.value.sites[0]
    assert [site.name for site in open_.value.sites] == ["Acme", "acme"]
    assert (first.id, first.url, first.settings) == (
        "id-acme",
        "https://acme.atlassian.net",
        {"cloudId": "id-acme", "subdomain": "acme"},
    )


@pytest.mark.parametrize("config", [{"subdomain": "acme"}, {"cloudId": "id-acme"}])
async def test_a_session_that_names_a_site_offers_no_choice(config: dict[str, str]) -> None:
    context = FakeContext([XACME, ACME], config)
    context.must_ask = True
    await jira_post_connection(context)
    assert context.config["cloudId"] == "id-acme"


async def test_label_of_the_account_is_its_email_and_its_site() -> None:
    me = {"accountId": "42", "emailAddress": "ada@example.com", "displayName": "Ada"}
    context = FakeContext([ACME], **{"/ex/jira/id-acme/rest/api/3/myself": me})
    await jira_post_connection(context)
    assert context.account == ("42", "ada@example.com · acme.atlassian.net")
