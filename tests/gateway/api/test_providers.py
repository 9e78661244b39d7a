"""The catalog over HTTP: the list, one provider, and the neutral logos (docs/http-api.md#endpoints)."""

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp.plugin import AiohttpClient

from gateway.api.provider_operations import list_operations
from gateway.api.providers import (
    MIN_CONTRAST,
    brand_svg,
    color,
    contrast_with_white,
    get_provider,
    initials,
    initials_svg,
    list_providers,
    logo,
)
from gateway.catalog.brand_icons import MAX_LOGO_BYTES, BrandIcon
from gateway.catalog.listing import Listing, Query, cursor_after, get_listing, name_in
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.errors import GatewayError
from gateway.runtime import RUNTIME
from tests.gateway.catalog.folders import MAIL, SHIPPED, folder

NAMES = ["github", "google-mail", "hubspot", "jira", "openai", "sandbox", "slack", "twilio"]
PUBLIC = "https://gw.example.com"
OWN = Path("/nowhere")
Client = TestClient[web.Request, web.Application]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """A catalog of a few shipped entries."""
    at = tmp_path_factory.mktemp("catalog")
    for name in NAMES:
        shutil.copy(SHIPPED / f"{name}.yaml", at)
    return load_catalog([at])


@web.middleware
async def errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except GatewayError as wrong:
        return web.json_response({"error": wrong.as_json()}, status=wrong.status)


@pytest.fixture
async def client(catalog: Catalog, tmp_path: Path, aiohttp_client: AiohttpClient) -> Client:
    app = web.Application(middlewares=[errors_as_json])
    generation = SimpleNamespace(catalog=catalog, public_url=PUBLIC, config=SimpleNamespace(catalog=(OWN, tmp_path)))
    runtime: Any = SimpleNamespace(current=SimpleNamespace(generation=generation))
    app[RUNTIME] = runtime
    app.router.add_get("/providers", list_providers)
    app.router.add_get("/providers/{provider}", get_provider)
    app.router.add_get("/providers/{provider}/operations", list_operations)
    app.router.add_get("/images/template-logos/{name}.svg", logo)
    return await aiohttp_client(app)


async def names(client: Client, query: str) -> list[str]:
    response = await client.get(f"/providers{query}")
    assert response.status == 200, await response.text()
    return [provider["name"] for provider in (await response.json())["data"]]


async def test_list_without_a_limit_has_all_providers_and_no_cursor(client: Client, catalog: Catalog) -> None:
    response = await client.get("/providers")
    body = await response.json()
    assert response.content_type == "application/json"
    assert list(body) == ["data"]
    assert body["data"] == [catalog.provider_json(name, PUBLIC) for name in catalog.providers]


async def test_single_provider_has_the_same_envelope_as_the_list(client: Client, catalog: Catalog) -> None:
    response = await client.get("/providers/jira")
    assert response.status == 200
    assert await response.json() == {"data": catalog.provider_json("jira", PUBLIC)}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?search=gmail", ["google-mail"]),
        ("?search=GOOGLE-M", ["google-mail"]),
        ("?search=project-tracking", ["github", "jira", "sandbox"]),
        ("?search=open+developer", ["openai"]),
        ("?search=.*", []),
        ("?search=", ["github", "google-mail", "hubspot", "jira", "openai", "sandbox", "slack", "twilio"]),
        ("?category=CRM", ["hubspot"]),
        ("?auth_mode=BASIC", ["twilio"]),
        ("?auth_mode=api_key&search=o", ["openai"]),
        ("?limit=2", ["github", "google-mail"]),
        ("?limit=1000000", ["github", "google-mail", "hubspot", "jira", "openai", "sandbox", "slack", "twilio"]),
    ],
)
async def test_the_list_can_be_filtered(client: Client, query: str, expected: list[str]) -> None:
    assert await names(client, query) == expected


async def test_pages_follow_each_other_to_the_end(client: Client, catalog: Catalog) -> None:
    seen: list[str] = []
    cursor = ""
    for _ in range(len(catalog.providers)):
        body = await (await client.get("/providers", params={"limit": "3", "cursor": cursor})).json()
        seen += [provider["name"] for provider in body["data"]]
        if "next_cursor" not in body:
            break
        cursor = body["next_cursor"]
    assert seen == list(catalog.providers)


async def test_a_last_page_that_is_full_has_no_cursor(client: Client) -> None:
    body = await (await client.get("/providers?limit=8")).json()
    assert list(body) == ["data"]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("?serch=x", "serch"),
        ("?limit=0", "limit"),
        ("?limit=-1", "limit"),
        ("?limit=", "limit"),
        ("?limit=ten", "limit"),
        ("?limit=%D9%A3", "limit"),
        ("?limit=1&limit=2", "limit"),
        ("?cursor=nonsense", "cursor"),
        ("?cursor=%C3%BC", "cursor"),
        ("?search=" + "x" * 600, "search"),
    ],
)
async def test_error_names_the_bad_parameter(client: Client, query: str, path: str) -> None:
    response = await client.get(f"/providers{query}")
    error = (await response.json())["error"]
    assert (response.status, error["code"]) == (400, "invalid_query_params")
    assert [issue["path"] for issue in error["errors"]] == [[path]]


async def test_error_names_all_bad_parameters(client: Client) -> None:
    error = (await (await client.get("/providers?a=1&limit=0&b=2")).json())["error"]
    assert [issue["path"] for issue in error["errors"]] == [["a"], ["limit"], ["b"]]


async def test_an_unknown_provider_is_404_and_a_malformed_one_400(client: Client) -> None:
    response = await client.get("/providers/nobody")
    assert (response.status, (await response.json())["error"]["code"]) == (404, "not_found")
    response = await client.get("/providers/jria")
    assert "no provider 'jria'; did you mean 'jira'?" in (await response.json())["error"]["message"]
    response = await client.get("/providers/no%20body")
    assert (response.status, (await response.json())["error"]["code"]) == (400, "invalid_uri_params")
    response = await client.get("/providers/jira?verbose=1")
    assert (response.status, (await response.json())["error"]["code"]) == (400, "invalid_query_params")


@pytest.mark.parametrize("path", ["/providers", "/providers/jira", "/providers?limit=2"])
async def test_matching_entity_tag_returns_304(client: Client, path: str) -> None:
    first = await client.get(path)
    tag = first.headers["ETag"]
    for sent_tag in [tag, f"W/{tag}", f'"other", {tag}', "*"]:
        again = await client.get(path, headers={"If-None-Match": sent_tag})
        assert (again.status, await again.read(), again.headers["ETag"]) == (304, b"", tag)
    for other in ['"other"', "nonsense", ""]:
        assert (await client.get(path, headers={"If-None-Match": other})).status == 200


async def test_head_has_the_headers_of_get(client: Client) -> None:
    response = await client.head("/providers/jira")
    assert response.status == 200
    assert response.headers["ETag"]


def test_different_pages_have_different_entity_tags(catalog: Catalog) -> None:
    listing = Listing(catalog, PUBLIC)
    assert listing.page(Query(limit=1)).etag != listing.page(Query(limit=2)).etag


def test_a_listing_is_made_once_for_a_catalog(catalog: Catalog, tmp_path: Path) -> None:
    assert get_listing(catalog, PUBLIC) is get_listing(catalog, PUBLIC)
    other = load_catalog([folder(tmp_path, mail=MAIL)])
    assert json.loads(get_listing(other, PUBLIC).page(Query()).content)["data"][0]["name"] == "mail"


def test_cursor_stays_valid_when_its_provider_is_removed(catalog: Catalog) -> None:
    page = Listing(catalog, PUBLIC).page(Query(after=name_in(cursor_after("hubspoz")), limit=1))
    assert json.loads(page.content)["data"][0]["name"] == "jira"


async def test_logo_is_an_image_without_scripts(client: Client) -> None:
    response = await client.get("/images/template-logos/google-mail.svg")
    assert response.status == 200
    assert response.content_type == "image/svg+xml"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "max-age" in response.headers["Cache-Control"]
    drawing = ET.fromstring(await response.text())
    assert [text for text in drawing.itertext() if text.strip()] == ["Gmail"]


async def image(client: Client, name: str) -> tuple[str, bytes]:
    response = await client.get(f"/images/template-logos/{name}.svg")
    assert response.status == 200
    assert response.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    return response.content_type, await response.read()


async def test_a_brand_has_its_icon_and_others_their_initials(client: Client) -> None:
    for name in ("github", "google-mail"):
        kind, text = await image(client, name)
        drawn = ET.fromstring(text)
        assert (kind, [item.tag.rpartition("}")[2] for item in drawn]) == ("image/svg+xml", ["title", "rect", "path"])
    assert b">SL<" in (await image(client, "slack"))[1] or b">S<" in (await image(client, "slack"))[1]


async def test_an_operator_supplies_another_logo(client: Client, tmp_path: Path) -> None:
    (tmp_path / "logos").mkdir()
    (tmp_path / "logos" / "github.png").write_bytes(b"\x89PNG own")
    (tmp_path / "logos" / "slack.svg").write_bytes(b"<svg/>" + b" " * MAX_LOGO_BYTES)
    assert await image(client, "github") == ("image/png", b"\x89PNG own")
    assert b"<title>Slack</title>" in (await image(client, "slack"))[1], "a file that is too large is not shown"


def test_icon_is_dark_on_a_light_brand_color() -> None:
    assert 'fill="#1a1a1a" d=' in brand_svg(BrandIcon("#ffe01b", "M0 0z"), "Mailchimp")
    assert 'fill="#ffffff" d=' in brand_svg(BrandIcon("#181717", "M0 0z"), "GitHub")


async def test_an_unknown_logo_is_404(client: Client) -> None:
    assert (await client.get("/images/template-logos/nobody.svg")).status == 404
    assert (await client.get("/images/template-logos/..%2fjira.svg")).status == 404


@pytest.mark.parametrize(
    ("expected", "letters"),
    [
        ("Jira", "J"),
        ("GitHub", "GH"),
        ("Google Drive", "GD"),
        ("monday.com", "M"),
        ("IBM", "I"),
        ("& <b>", "B"),
        ("…", "?"),
    ],
)
def test_initials_are_the_first_letters_of_the_name(expected: str, letters: str) -> None:
    assert initials(expected) == letters


def test_a_display_name_cannot_add_markup() -> None:
    drawing = ET.fromstring(initials_svg("x", '<script>alert("1")</script> & co'))
    assert {element.tag.rpartition("}")[2] for element in drawing.iter()} == {"svg", "title", "rect", "text"}


def test_colors_are_stable_and_dark_enough_for_white_letters() -> None:
    assert color("jira") == color("jira")
    for number in range(300):
        code = color(f"provider-{number}")
        red, green, blue = (int(code[at : at + 2], 16) / 255 for at in (1, 3, 5))
        assert contrast_with_white((red, green, blue)) >= MIN_CONTRAST - 0.05


async def test_filter_with_an_unknown_value_is_refused_with_the_known_values(client: Client) -> None:
    response = await client.get("/providers?auth_mode=bogus&category=emial")
    body = (await response.json())["error"]
    assert (response.status, body["code"]) == (400, "invalid_query_params")
    modes, categories = body["errors"]
    assert (modes["path"], categories["path"]) == (["auth_mode"], ["category"])
    assert "API_KEY" in modes["message"]
    assert "email" in categories["message"]
    for query in ("auth_mode=api_key", "category=Email", "auth_mode=", "category="):
        assert (await client.get(f"/providers?{query}")).status == 200
