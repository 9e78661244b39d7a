"""Every provider has a page that explains its setup, with snippets that work."""

import ast
import asyncio
import html
import json
import shlex
import sys
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from pytest_aiohttp.plugin import AiohttpServer

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.load_catalog import load_catalog
from gateway.catalog.provider import Provider
from gateway.pages.guide import (
    SnippetCall,
    behavior,
    curl_snippet,
    example_call,
    node_snippet,
    placeholders_in,
    python_snippet,
)
from gateway.pages.guide_steps import declaration, steps, visible_settings
from tests.fakes.gateways import RunningGateway, document
from tests.gateway.catalog.folders import SHIPPED

URL = "https://gw.example.com"


@pytest.fixture(scope="module")
def providers() -> Any:
    return load_catalog([SHIPPED]).providers


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    configured = document([])
    configured["environments"]["dev"]["integrations"] = {}
    configured["catalog"] = []
    served = RunningGateway(tmp_path, configured)
    await served.start()
    yield served
    await served.stop()


async def page(running: RunningGateway, name: str) -> tuple[int, str, Any]:
    async with running.http.get(f"{running.url}/providers/{name}/guide") as response:
        return response.status, await response.text(), response.headers


async def test_the_guide_needs_no_key_and_loads_nothing_from_other_hosts(running: RunningGateway) -> None:
    status, text, headers = await page(running, "jira")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'nonce-")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert f"{running.url}/oauth/callback" in text
    assert "read:jira-work" in text
    assert "the one callback URL the app can have" in text
    assert "As of 2026-11-22, from the provider&#39;s pages. Consoles change." in text
    assert loaded_urls(text) == {f"{running.url}/images/template-logos/jira.svg", "../../connect/assets/icon.svg"}


async def test_the_end_of_an_api_is_shown_before_the_steps_with_its_replacement(running: RunningGateway) -> None:
    _, text, _ = await page(running, "greenhouse-harvest")
    assert text.index("Sunset on 2026-08-31.") < text.index("Set-up")
    assert '<a href="../greenhouse-harvest-partner/guide">' in text
    _, text, _ = await page(running, "greenhouse-harvest-partner")
    assert "Sunset" not in text


async def test_an_unknown_provider_gets_a_404_page(running: RunningGateway) -> None:
    status, text, headers = await page(running, "<b>nobody")
    assert status == 404
    assert headers["Gateway-Error"] == "not_found"
    assert "<b>nobody" not in text


async def test_every_provider_has_a_guide(running: RunningGateway) -> None:
    for name in running.runtime.generation.catalog.providers:
        status, text, _ = await page(running, name)
        assert status == 200, name
        assert "A call" in text, name


async def test_texts_of_an_entry_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    entry = {
        "display_name": "<script>alert(1)</script>",
        "categories": ["<i>"],
        "auth_mode": "API_KEY",
        "credentials": {"apiKey": {"title": "<u>", "description": "'\"><svg onload=x>", "example": "</pre><b>'"}},
        "proxy": {"base_url": "https://api.example.com", "headers": {"k": "${apiKey}"}, "path_form": "/<b>'"},
    }
    (tmp_path / "mine" / "evil.yaml").write_text(yaml.safe_dump(entry))
    configured = {**document([]), "catalog": ["mine"]}
    configured["environments"]["dev"]["integrations"] = {}
    running = RunningGateway(tmp_path, configured)
    await running.start()
    try:
        _, text, _ = await page(running, "evil")
    finally:
        await running.stop()
    assert "documentation is not known" in text
    assert names_of_tags(text).count("script") == 1, "only the gateway's own script, which copies texts"
    assert not set(names_of_tags(text)) & {"i", "u", "b", "svg"}


def test_the_guide_has_the_required_steps(providers: Any) -> None:
    result = steps(providers["jira"], URL, None)
    assert [step.text.partition(" ")[0] for step in result] == [
        "Create",
        "Register",
        "Select",
        "Copy",
        "Make",
        "Connect",
    ]
    assert result[0].link == "https://developer.atlassian.com/console/myapps/"
    assert result[1].code == f"{URL}/oauth/callback"
    assert f"The callback URL is {URL}/oauth/callback." in result[0].notes
    assert "offline_access" in result[2].notes[0]
    declared = yaml.safe_load(result[3].code or "")["environments"]["dev"]["integrations"]["jira"]
    assert declared["client_secret"] == "${JIRA_CLIENT_SECRET}"
    assert "privacy policy" in result[4].text
    assert f"{URL}/connect/sessions" in (result[5].code or "")


def test_the_guide_of_the_sandbox_links_to_the_sandbox(providers: Any) -> None:
    register = steps(providers["sandbox"], URL, None)[0]
    assert register.link == "http://127.0.0.1:3004/"
    assert "python -m gateway.sandbox --client-id" in register.items[0]


def test_a_guide_suggests_the_app_of_the_family(providers: Any) -> None:
    assert (
        "If you have an app for Google, use it for this provider too"
        in steps(providers["google-calendar"], URL, "Google")[0].notes[0]
    )


def test_the_guide_for_an_api_key_asks_for_no_app(providers: Any) -> None:
    result = steps(providers["openai"], URL, None)
    assert [step.text.partition(" ")[0] for step in result] == ["Each", "Declare", "Create"]
    command = shlex.split((result[2].code or "").replace("\\\n", " "))
    body = json.loads(command[command.index("-d") + 1])
    assert body["credentials"] == {"type": "API_KEY", "apiKey": "sk-proj-0123456789abcdef"}


def test_hidden_fields_are_filled_in_and_not_requested(providers: Any) -> None:
    freshdesk = providers["freshdesk"]
    assert [name for name, _ in visible_settings(freshdesk.credentials)] == ["username"]
    command = shlex.split((steps(freshdesk, URL, None)[2].code or "").replace("\\\n", " "))
    body = json.loads(command[command.index("-d") + 1])
    assert body["credentials"] == {"type": "BASIC", "username": "…", "password": "X"}
    assert body["connection_config"] == {"subdomain": "acme"}


def test_provider_with_dynamic_registration_needs_no_client(providers: Any) -> None:
    for name in ("linear-mcp", "mcp-generic"):
        assert steps(providers[name], URL, None)[0].text.startswith("There is nothing to register")
        from gateway.catalog.auth_modes import AUTH_MODES

        assert "client_id" not in declaration(providers[name], AUTH_MODES[providers[name].auth_mode])


def test_the_declaration_in_a_guide_is_valid_configuration(providers: Any) -> None:
    from gateway.catalog.auth_modes import AUTH_MODES

    for name, provider in providers.items():
        configuration = yaml.safe_load(declaration(provider, AUTH_MODES[provider.auth_mode]))
        declared = configuration["environments"]["dev"]["integrations"][name]
        assert declared["provider"] == name
        assert all(isinstance(scope, str) for scope in declared.get("scopes", [])), name


def test_example_call_is_the_verification_call_or_an_example_path(providers: Any) -> None:
    assert example_call(providers["openai"]) == SnippetCall("GET", "/v1/models")
    assert example_call(providers["plivo"]).path == "/Account/<username>/"
    assert example_call(providers["linear"]) == SnippetCall("POST", "/graphql", {"query": "{ viewer { id } }"})
    assert example_call(providers["google-calendar"]) == SnippetCall("GET", "/calendar/v3/<endpoint>")
    assert example_call(providers["zoho-desk"]) == SnippetCall("GET", "/<endpoint>")


@pytest.mark.parametrize(
    "call", [SnippetCall("GET", "/v1/it's?a=1&b=2"), SnippetCall("POST", "/graphql", {"query": "{ a'\"b\\ ü }"})]
)
async def test_the_python_snippet_makes_the_call(call: SnippetCall, aiohttp_server: AiohttpServer) -> None:
    seen, server = await recorder(aiohttp_server)
    text = python_snippet(str(server.make_url("")).rstrip("/"), "key", call)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", text, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert ast.literal_eval(out.decode()) == {"ok": True}
    assert_is(call, seen)


@pytest.mark.parametrize(
    "call", [SnippetCall("GET", "/v1/it's?a=1&b=2"), SnippetCall("POST", "/graphql", {"query": "{ a'\"b\\ ü }"})]
)
def test_the_curl_snippet_is_the_call(call: SnippetCall) -> None:
    words = shlex.split(curl_snippet("http://gw", "key", call).replace("\\\n", " "))
    assert words[0] == "curl"
    assert words[-1] == f"http://gw/proxy{call.path}"
    fields = [words[index + 1] for index, word in enumerate(words) if word == "-H"]
    assert fields[:3] == [
        "Authorization: Bearer <SECRET_KEY>",
        "Provider-Config-Key: key",
        "Connection-Id: <CONNECTION_ID>",
    ]
    if call.body is not None:
        assert words[1:3] == ["-X", "POST"]
        assert json.loads(words[words.index("-d") + 1]) == call.body


def test_the_node_snippet_has_the_same_values() -> None:
    call = SnippetCall("POST", "/graphql", {"query": "{ a }"})
    text = node_snippet("http://gw", "key", call)
    assert 'await fetch("http://gw/proxy/graphql", {' in text
    assert '"method": "POST"' in text
    assert '"body": JSON.stringify({"query": "{ a }"})' in text
    assert text.count("{") == text.count("}")


def test_the_behavior_of_a_provider_is_described_in_sentences(providers: Any) -> None:
    result = dict(behavior(providers["jira"]))
    assert "365 days" in result["Tokens"]
    assert "90 days" in result["Tokens"]
    assert "1 hour" in result["Tokens"]
    assert dict(behavior(providers["calendly"]))["Deleting a connection"].startswith("also revokes its tokens")
    assert "A new credential" in dict(behavior(providers["openai"]))
    bare = Provider.model_validate({**MINIMAL, "refresh": {"rotating": False}})
    assert [title for title, _ in behavior(bare)] == ["Requests go to"]


MINIMAL = {
    "name": "x", "display_name": "X", "categories": ["other"], "auth_mode": "NONE", "proxy": {"base_url": "https://x.example"},
}  # fmt: skip


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def names_of_tags(text: str) -> list[str]:
    parser = _Tags()
    parser.feed(text)
    return [tag for tag, _ in parser.found]


def loaded_urls(text: str) -> set[str | None]:
    """Return the URLs that a browser loads automatically."""
    parser = _Tags()
    parser.feed(text)
    return {
        fields.get("src") or fields.get("href")
        for tag, fields in parser.found
        if tag in {"img", "script", "link", "iframe"} and (tag != "script" or "src" in fields)
    }


async def recorder(aiohttp_server: AiohttpServer) -> tuple[dict[str, Any], TestServer]:
    seen: dict[str, Any] = {}

    async def record(request: web.Request) -> web.Response:
        seen.update(
            method=request.method, path=request.raw_path, headers=request.headers.copy(), body=await request.read()
        )
        return web.json_response({"ok": True})

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", record)
    return seen, await aiohttp_server(app)


def assert_is(call: SnippetCall, seen: dict[str, Any]) -> None:
    assert seen["method"] == call.method
    assert seen["path"] == f"/proxy{call.path}"
    assert seen["headers"]["Provider-Config-Key"] == "key"
    assert seen["headers"]["Connection-Id"] == "<CONNECTION_ID>"
    assert (json.loads(seen["body"]) if seen["body"] else None) == call.body


def test_starter_scopes_allow_more_than_a_refresh(providers: Any) -> None:
    (scopes,) = [
        line for line in declaration(providers["jira"], AUTH_MODES["OAUTH2"]).splitlines() if "scopes:" in line
    ]
    assert scopes.strip() == 'scopes: ["read:jira-user", "read:jira-work", offline_access]'


def test_starter_scopes_allow_reading(providers: Any) -> None:
    def first_sentence(name: str) -> str:
        lines = declaration(providers[name], AUTH_MODES["OAUTH2"]).splitlines()
        return next(line.strip() for line in lines if "scopes:" in line)

    assert first_sentence("google-calendar") == 'scopes: ["https://www.googleapis.com/auth/calendar.readonly"]'
    assert first_sentence("slack") == 'scopes: ["channels:read", "users:read", "chat:write"]'
    assert first_sentence("linkedin") == "scopes: [openid, profile, email]"


def test_placeholders_of_the_example_call_are_listed(providers: Any) -> None:
    assert placeholders_in(example_call(providers["quickbooks"])) == ["realmId"]
    assert placeholders_in(example_call(providers["openai"])) == []


def test_an_app_of_another_kind_is_not_shared(providers: Any) -> None:
    notes = [note for step in steps(providers["github-app"], URL, None) for note in step.notes]
    assert any("https://github.com/apps/my-app" in note for note in notes)
    assert any("${file:" in note for note in notes)


@pytest.mark.parametrize(
    ("name", "is_unchecked"),
    [("github-app", True), ("crisp-plugin-install", True), ("github-app-user", False), ("github", False)],
)
def test_the_guide_warns_if_the_installation_is_not_checked(providers: Any, name: str, is_unchecked: bool) -> None:
    notes = [note for step in steps(providers[name], URL, None) for note in step.notes]
    assert any("another customer's installation" in note for note in notes) is is_unchecked


def test_an_entry_without_verification_shows_a_starter_operation_that_reads() -> None:
    """The entry's operations contain a call that can be sent. Before, the page showed a placeholder."""
    catalog = load_catalog([SHIPPED])
    calls = {}
    for name in catalog.providers:
        provider, known = catalog.providers[name], catalog.operations(name)
        if known is not None and not known.is_graphql:
            calls[name] = example_call(provider, known)
            if provider.proxy.verification is None and any(
                operation.method == "GET" and not operation.origin and not operation.deprecated
                for operation in known.operations
            ):
                assert "<endpoint>" not in calls[name].path, name
    assert calls["apollo"].path != "/<endpoint>"
    assert all("{" not in call.path for call in calls.values())


async def test_the_guide_names_the_operations_most_used(running: RunningGateway) -> None:
    _, text, _ = await page(running, "jira")
    assert "380 requests of its API in the catalog" in text
    assert "search_issues" in text
    _, text, _ = await page(running, "workday")
    assert "in the catalog: GET" not in text


TEN = (
    "google-calendar",
    "microsoft",
    "slack",
    "salesforce",
    "hubspot",
    "shopify",
    "github-app",
    "jira",
    "quickbooks",
    "linkedin",
)


@pytest.mark.parametrize("name", TEN)
async def test_a_guide_has_the_steps_in_the_providers_console(running: RunningGateway, name: str) -> None:
    provider = running.runtime.generation.catalog.providers[name]
    assert provider.setup is not None
    status, text, headers = await page(running, name)
    assert status == 200
    shown = html.unescape(text)
    assert provider.setup.console in shown
    for line in (*provider.setup.steps, *provider.setup.blocks_production):
        assert line[1:] in shown
    assert provider.setup.date in shown
    assert f"{running.url}/oauth/callback" in shown
    assert "script-src 'nonce-" in headers["content-security-policy"]
    assert "navigator.clipboard" in text
