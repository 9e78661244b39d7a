"""The connect page without a browser: where the token is stored, who may embed and submit the page, and escaping."""

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.pages import BROWSER, consent_url, submit
from tests.fakes.tracker import Tracker


async def open_connect_page(running: RunningGateway, **session: Any) -> tuple[str, str]:
    """Return the browser's URL after opening the link, and the session's token."""
    token = await running.session_token(**session)
    async with running.http.get(f"{running.url}/connect?session_token={token}", headers=BROWSER) as response:
        assert response.status == 200
        assert response.history[0].status == 303
        assert token not in str(response.url)
        assert token not in await response.text()
        return str(response.url), token


async def test_connect_page_does_not_show_the_entrys_evidence(tmp_path: Path) -> None:
    write_entry(tmp_path, "tracker", {**tracker_entry("https://tracker.example.com"), "provenance": "unconfirmed"})
    running = RunningGateway(tmp_path, document([]))
    await running.start()
    try:
        token = await running.session_token()
        async with running.http.get(f"{running.url}/connect?session_token={token}") as response:
            text = await response.text()
    finally:
        await running.stop()
    assert response.status == 200
    assert "catalog" not in text


async def test_token_is_moved_from_the_url_into_a_cookie_that_scripts_do_not_see(running: RunningGateway) -> None:
    token = await running.session_token()
    link = f"{running.url}/connect?session_token={token}"
    async with running.http.get(link, headers=BROWSER, allow_redirects=False) as response:
        assert response.status == 303
        cookie = response.headers["Set-Cookie"]
        assert token not in response.headers["Location"]
        assert response.headers["Referrer-Policy"] == "no-referrer"
    assert re.match(r"gw-connect-[0-9a-f]{16}=nango_connect_session_", cookie)
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie


async def test_every_page_has_the_security_headers(running: RunningGateway) -> None:
    url, _ = await open_connect_page(running)
    for path in (url, f"{running.url}/connect?session_token=x", f"{running.url}/oauth/callback?state=x"):
        async with running.http.get(path, headers=BROWSER) as response:
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "form-action 'self'" in policy
            assert "base-uri 'none'" in policy
            assert "unsafe" not in policy
            nonce = policy.partition("script-src 'nonce-")[2].partition("'")[0]
            assert len(nonce) >= 16
            assert set(re.findall(r'nonce="([^"]+)"', await response.text())) == {nonce}
            assert response.headers["Cache-Control"] == "no-store"
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert "Access-Control-Allow-Origin" not in response.headers


async def test_two_links_in_one_browser_do_not_interfere(running: RunningGateway) -> None:
    ada, _ = await open_connect_page(running, end_user={"id": "a", "display_name": "Ada"})
    eve, _ = await open_connect_page(running, end_user={"id": "e", "display_name": "Eve"})
    for url, name in ((ada, "Ada"), (eve, "Eve")):
        async with running.http.get(url) as response:
            assert f"For {name}" in await response.text()


async def test_url_without_its_cookie_shows_nothing(running: RunningGateway) -> None:
    url, _ = await open_connect_page(running)
    async with aiohttp.ClientSession() as stranger, stranger.get(url) as response:
        assert response.status == 401
        assert "refuses cookies" in await response.text()


async def test_the_cookie_of_one_session_does_not_open_the_page_of_another(running: RunningGateway) -> None:
    url, _ = await open_connect_page(running)
    _, other = await open_connect_page(running)
    name = url.rpartition("/")[2]
    cookie = {"Cookie": f"gw-connect-{name}={other}"}
    async with aiohttp.ClientSession() as stranger, stranger.get(url, headers=cookie) as response:
        assert response.status == 401


async def test_the_form_redirects_to_the_provider_without_unknown_fields(
    running: RunningGateway, tracker: Tracker
) -> None:
    url, _ = await open_connect_page(running)
    consent = await consent_url(running.http, f"{url}/i/tracker", {"params[cloudId]": "cloud-2"})
    assert consent.startswith(f"{tracker.url}/authorize?")
    async with running.http.get(consent) as response:
        text = await response.text()
        assert response.status == 200
    assert "acme.tracker.example" in text  # fields that the form does not ask for are ignored


@pytest.mark.parametrize("charset", ["utf-8", "no-such", "utf-16"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_form_that_cannot_be_read_is_refused_with_a_page(shared_gateway: RunningGateway, charset: str) -> None:
    url, _ = await open_connect_page(shared_gateway)
    headers = {**BROWSER, "Content-Type": f"application/x-www-form-urlencoded; charset={charset}"}
    for path in (f"{url}/i/tracker", f"{shared_gateway.url}/oauth/site"):
        async with shared_gateway.http.post(path, data=b"token=\xff\xfe1", headers=headers) as response:
            assert (response.status, response.headers["Gateway-Error"]) == (400, "invalid_body")
            assert response.content_type == "text/html"


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://127.0.0.1:1"},
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_form_from_another_site_is_refused(shared_gateway: RunningGateway, headers: dict[str, str]) -> None:
    url, _ = await open_connect_page(shared_gateway)
    async with shared_gateway.http.post(f"{url}/i/tracker", data={}, headers=headers) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (403, "forbidden")
        assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize(
    "headers", [{"Origin": "null", "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "same-origin"}]
)
async def test_the_gateways_own_form_is_accepted_without_a_referrer(
    running: RunningGateway, headers: dict[str, str]
) -> None:
    url, _ = await open_connect_page(running)
    response = await submit(running.http, f"{url}/i/tracker", headers=headers)
    assert response.status == 200
    assert "/leave/" in str(response.url)


async def embedded_response(running: RunningGateway, token: str, origin: str | None) -> aiohttp.ClientResponse:
    headers = {"Authorization": f"Bearer {token}", **({"Gateway-Embedder": origin} if origin else {})}
    response = await running.http.get(f"{running.url}/connect/s/embedded", headers=headers)
    await response.read()
    return response


async def test_only_registered_origins_may_embed_the_page(running: RunningGateway) -> None:
    whole = running.document
    whole["environments"]["dev"]["connect_origins"] = ["https://app.example.com", "http://localhost:5173"]
    whole["environments"]["other"] = {"connect_origins": ["https://other.example.com"]}
    whole["server"]["public_url"] = "https://gateway.example.com"
    await running.stop()
    await running.start()
    running.url = f"http://127.0.0.1:{whole['server']['port']}"
    async with running.http.get(f"{running.url}/connect?apiURL=x&theme=dark&lang=de") as response:
        policy = response.headers["Content-Security-Policy"]
        assert (response.status, 'lang="de"' in await response.text()) == (200, True)
    ancestors = policy.partition("frame-ancestors ")[2].partition(";")[0].split()
    assert ancestors == ["http://localhost:5173", "https://app.example.com", "https://other.example.com"]
    token = await running.session_token()
    allowed = {
        origin: (await embedded_response(running, token, origin)).status
        for origin in [*ancestors, "https://evil.example", None]
    }
    assert allowed == {
        "http://localhost:5173": 200,
        "https://app.example.com": 200,
        "https://other.example.com": 403,
        "https://evil.example": 403,
        None: 403,
    }
    async with running.http.get(
        f"{running.url}/connect?session_token={token}", headers=BROWSER, allow_redirects=False
    ) as it:
        assert it.headers["Set-Cookie"].startswith("__Host-gw-connect-")
        assert "Secure" in it.headers["Set-Cookie"]


async def test_a_loopback_gateway_lets_local_pages_embed_the_page(running: RunningGateway) -> None:
    token = await running.session_token()
    assert (await embedded_response(running, token, "http://localhost:5173")).status == 200
    for origin in ("http://localhost.evil.example", "http://127.0.0.1.evil.example:80", "https://app.example.com"):
        assert (await embedded_response(running, token, origin)).status == 403


async def test_the_providers_words_are_shown_as_text_everywhere(running: RunningGateway, tracker: Tracker) -> None:
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}"
    async with running.http.get(begin, allow_redirects=False) as response:
        state = response.headers["Location"].partition("state=")[2].partition("&")[0]
    words = "</script><img src=x onerror=alert(1)>\"'&"
    query = {"state": state, "error": "access_denied", "error_description": words, "error_uri": "javascript:alert(1)"}
    async with running.http.get(f"{running.url}/oauth/callback", params=query) as response:
        html = await response.text()
    assert "<img src=x" not in html
    assert "</script><img" not in html
    assert 'href="javascript:' not in html
    result = re.search(r'data-payload="([^"]*)"', html)
    assert result is not None
    assert "access_denied" in result[1]
    assert 'data-tells="error"' in html


async def test_the_last_page_of_a_window_posts_the_result(running: RunningGateway, tracker: Tracker) -> None:
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}"
    async with running.http.get(begin) as response:
        assert (response.status, 'data-tells="success"' in await response.text()) == (200, True)
    wrong = f"{running.url}/oauth/connect/nothing?connect_session_token={await running.session_token()}"
    async with running.http.get(wrong, headers=BROWSER) as response:
        assert (response.status, "unknown_config_key" in await response.text()) == (400, True)


async def test_the_end_users_own_client_is_used_and_stored(running: RunningGateway, tracker: Tracker) -> None:
    own = {"oauth_client_id_override": "own-client", "oauth_client_secret_override": "own-secret-0123"}
    query = "".join(f"&credentials[{name}]={text}" for name, text in own.items())
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}{query}"
    async with running.http.get(begin) as response:
        assert response.status == 200
    assert tracker.authorize_query["client_id"] == "own-client"
    assert tracker.token_requests[0]["client_secret"] == "own-secret-0123"
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    connection = await running.json("GET", f"/connections/{listed['connection_id']}?provider_config_key=tracker")
    assert connection["credentials"]["config_override"] == {
        "client_id": "own-client",
        "client_secret": "own-secret-0123",
    }
    assert "own-secret" not in str(connection["connection_config"])


@pytest.mark.parametrize("name", ["../connect.js", "%2e%2e%2fbase.html", "words/en.yaml", "logo", "nothing"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_file_outside_the_fixed_table_is_not_served(shared_gateway: RunningGateway, name: str) -> None:
    from yarl import URL

    async with shared_gateway.http.get(URL(f"{shared_gateway.url}/connect/assets/{name}", encoded=True)) as response:
        assert response.status in {400, 404}


async def test_the_page_shows_the_operators_name_and_logo(running: RunningGateway, tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    running.document["branding"] = {"name": "A <b>brand</b>", "logo": "logo.svg", "color": "#ffe08a"}
    await running.restart()
    url, _ = await open_connect_page(running)
    async with running.http.get(url) as response:
        html = await response.text()
    assert "A &lt;b&gt;brand&lt;/b&gt;" in html
    assert "--accent: #ffe08a; --on-accent: #000000" in html
    found = re.search(r'src="([^"]+/connect/assets/logo[^"]*)"', html)
    assert found is not None
    async with running.http.get(found[1]) as response:
        assert (response.status, response.content_type) == (200, "image/svg+xml")
        assert "sandbox" in response.headers["Content-Security-Policy"]


class Chooser:
    """A grant of a user with two sites, for an integration that lets the user choose."""

    def __init__(self, running: RunningGateway) -> None:
        self.running = running

    async def page(self, query: str = "") -> tuple[int, str]:
        running = self.running
        begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}{query}"
        async with running.http.get(begin) as response:
            return response.status, await response.text()

    async def choose(self, html: str, site: str, http: aiohttp.ClientSession | None = None) -> tuple[int, str]:
        token = re.search(r'name="token" value="([^"]+)"', html)
        assert token is not None
        form = {"token": token[1], "site": site}
        async with (http or self.running.http).post(f"{self.running.url}/oauth/site", data=form) as response:
            return response.status, await response.text()


@pytest.fixture
async def chooser(running: RunningGateway, tracker: Tracker) -> Chooser:
    running.document["environments"]["dev"]["integrations"]["tracker"]["site_selection"] = "ask"
    await running.restart()
    return Chooser(running)


async def test_the_end_user_chooses_among_sites_before_anything_is_stored(chooser: Chooser, tracker: Tracker) -> None:
    running = chooser.running
    status, html = await chooser.page()
    assert (status, html.count('type="radio"')) == (200, 2)
    assert (await running.json("GET", "/connections"))["connections"] == []
    assert (await chooser.choose(html, "cloud-2"))[0] == 200
    (listed,) = (await running.json("GET", "/connections"))["connections"]
    connection = await running.json("GET", f"/connections/{listed['connection_id']}?provider_config_key=tracker")
    assert (connection["connection_config"]["cloudId"], connection["connection_config"]["subdomain"]) == (
        "cloud-2",
        "globex",
    )
    assert listed["account"]["label"] == "globex.tracker.example"
    status, html = await chooser.choose(html, "cloud-1")
    assert (status, "made already" in html) == (400, True)
    assert tracker.calls["authorization_code"] == 1


async def test_a_site_that_was_not_offered_cannot_be_chosen(chooser: Chooser) -> None:
    _, html = await chooser.page()
    assert (await chooser.choose(html, "cloud-9"))[0] == 400
    assert (await chooser.choose(html, "cloud-1"))[0] == 200


async def test_another_browser_cannot_choose_the_site(chooser: Chooser) -> None:
    _, html = await chooser.page()
    async with aiohttp.ClientSession() as stranger:
        status, response = await chooser.choose(html, "cloud-1", stranger)
    assert (status, "another browser" in response) == (400, True)
    assert (await chooser.choose(html, "cloud-1"))[0] == 200


async def test_the_token_of_a_choice_is_not_accepted_as_state(chooser: Chooser, tracker: Tracker) -> None:
    _, html = await chooser.page()
    token = html.partition('name="token" value="')[2].partition('"')[0]
    async with chooser.running.http.get(f"{chooser.running.url}/oauth/callback?state={token}&code=x") as response:
        assert response.status == 400
    assert (await chooser.choose(html, "cloud-1"))[0] == 200


async def test_an_end_user_who_named_a_site_is_not_asked(chooser: Chooser) -> None:
    status, html = await chooser.page("&params[subdomain]=acme")
    assert (status, "radio" in html) == (200, False)


async def test_an_import_that_names_no_site_is_refused_with_the_list_of_sites(
    chooser: Chooser, tracker: Tracker
) -> None:
    grant = tracker.grant()
    body = {
        "provider_config_key": "tracker",
        "credentials": {"type": "OAUTH2", "access_token": grant["access_token"]},
    }
    response = await chooser.running.json("POST", "/connections", json=body, expect=400)
    assert [site["subdomain"] for site in response["error"]["payload"]["sites"]] == ["acme", "globex"]
    body["connection_config"] = {"subdomain": "globex"}
    await chooser.running.json("POST", "/connections", json=body, expect=201)


async def test_a_large_form_is_not_read(running: RunningGateway) -> None:
    async with running.http.post(f"{running.url}/oauth/site", data={"token": "x" * 10_000}) as response:
        assert response.status == 400
    url, _ = await open_connect_page(running)
    async with running.http.post(f"{url}/i/tracker", json={}) as response:
        assert response.status == 400


async def test_grant_is_sealed_while_the_user_chooses(chooser: Chooser, tracker: Tracker, tmp_path: Path) -> None:
    await chooser.page()
    secrets = [token for grant in tracker.grants for token in (grant.refresh_token, *grant.access_tokens)]
    assert secrets
    for path in tmp_path.glob("gateway.db*"):
        assert not [secret for secret in secrets if secret.encode() in path.read_bytes()], path


def test_templates_link_only_to_the_gateway_and_the_entry() -> None:
    """Templates contain only URLs of the gateway and of the entry."""
    folder = Path(__file__).parents[3] / "templates" / "connect"
    for path in folder.glob("*.html"):
        assert not re.search(r'(?:src|href)="https?://', path.read_text()), path
    assert urlsplit("/connect").netloc == ""
    assert web.Response is not None


async def test_an_integration_without_its_entry_does_not_break_the_page(
    running: RunningGateway, tracker: Tracker
) -> None:
    write_entry(running.folder, "leaving", tracker_entry(tracker.url, display_name="Leaving"))
    await running.restart()
    client = {"type": "OAUTH2", "client_id": "c", "client_secret": "s-0123456789"}
    integration = {"unique_key": "made", "provider": "leaving", "credentials": client}
    await running.json("POST", "/integrations", json=integration, expect=200)
    url, _ = await open_connect_page(running)
    async with running.http.get(url) as response:
        assert "Leaving" in await response.text()
    (running.folder / "catalog" / "leaving.yaml").unlink()
    await running.restart()
    url, _ = await open_connect_page(running)
    async with running.http.get(url) as response:
        assert (response.status, "Connect Tracker" in await response.text()) == (200, True)
    async with running.http.get(f"{url}/i/made", headers=BROWSER) as response:
        assert (response.status, response.content_type) == (404, "text/html")


async def state_of(running: RunningGateway, token: str) -> str:
    """Begin an authorization in this browser and return its `state`."""
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={token}"
    async with running.http.get(begin, allow_redirects=False) as response:
        return response.headers["Location"].partition("state=")[2].partition("&")[0]


async def open_callback(
    running: RunningGateway, query: Any, http: aiohttp.ClientSession | None = None
) -> tuple[int, str, dict[str, str]]:
    """Return the callback's status and page, and the message that the page posts to its opener."""
    async with (http or running.http).get(f"{running.url}/oauth/callback", params=query) as response:
        html = await response.text()
    found = {name: re.search(rf'data-{name}="([^"]*)"', html) for name in ("payload", "openers")}
    return response.status, html, {name: unescape(item[1]) for name, item in found.items() if item}


async def test_text_of_a_forged_callback_is_not_shown(running: RunningGateway) -> None:
    words = {"error": "SPOOFED-ERROR", "error_description": "call +1 555 SPOOFED-WORDS", "status_code": "SPOOFED"}
    state = await state_of(running, await running.session_token())
    async with aiohttp.ClientSession() as stranger:
        for query, http in (({"state": "unknown"}, None), ({}, None), ({"state": state}, stranger)):
            status, html, response = await open_callback(running, {**query, **words}, http)
            assert status == 400
            assert "SPOOFED" not in html
            assert "SPOOFED" not in response["payload"]


async def test_a_duplicate_callback_parameter_is_refused_and_the_flow_stays_usable(
    running: RunningGateway, tracker: Tracker
) -> None:
    state = await state_of(running, await running.session_token())
    for name, value in (("state", "other"), ("state", state), ("code", "other"), ("iss", "other")):
        query = [("state", state), ("code", "c"), ("iss", "i"), (name, value)]
        status, html, _ = await open_callback(running, query)
        assert (status, f"sent &#39;{name}&#39; more than once" in html) == (400, True)
    status, html, _ = await open_callback(running, {"state": state, "error": "access_denied"})
    assert (status, "access_denied" in html) == (400, True), "the flow was still usable"


async def test_a_callback_without_a_code_uses_up_its_state(running: RunningGateway, tracker: Tracker) -> None:
    state = await state_of(running, await running.session_token())
    status, html, _ = await open_callback(running, {"state": state})
    assert (status, "neither a code nor an error" in html) == (400, True)
    status, html, _ = await open_callback(running, {"state": state, "code": "c"})
    assert (status, "was used already" in html) == (400, True)


async def test_a_window_posts_its_result_only_to_registered_origins_and_the_gateways(
    running: RunningGateway, tracker: Tracker
) -> None:
    denied = {"error": "access_denied"}
    state = await state_of(running, await running.session_token())
    assert (await open_callback(running, {"state": state, **denied}))[2]["openers"] == "*", "no origin is registered"
    environments = running.document["environments"]
    environments["dev"]["connect_origins"] = ["https://app.example.com"]
    environments["other"] = {"connect_origins": ["https://other.example.com"]}
    await running.restart()
    state = await state_of(running, await running.session_token())
    result = (await open_callback(running, {"state": state, **denied}))[2]
    assert result["openers"] == f"https://app.example.com {running.url}"
    result = (await open_callback(running, {"state": "unknown"}))[2]
    assert result["openers"] == f"https://app.example.com https://other.example.com {running.url}"
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}"
    async with running.http.get(begin) as response:
        assert f'data-openers="https://app.example.com {running.url}"' in await response.text()
