"""Bob uses Alice's link, over HTTP.

With a code challenge, Bob's account never becomes Alice's connection. Without a code challenge, this happens only after
a page named Alice and Bob clicked.
"""

import asyncio
import base64
import hmac
import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import aiohttp
import pytest
from yarl import URL

from gateway import clock
from gateway.authorization import return_url as signing
from gateway.authorization.return_url import ReturnResult, signed_return_url
from gateway.client import InvalidReturn, verify_return
from gateway.secret import Secret
from tests.fakes.gateways import SECRET_KEY, write_entry
from tests.fakes.pages import hidden_inputs
from tests.journeys.wrong_person.world import OTHER_KEY, Link, Person, World

PROGRAM = {"Accept": "application/json"}


async def program_begins(world: World, link: Link, person: Person | None = None) -> tuple[int, str, dict[str, str]]:
    """Return what a program without cookies gets at /oauth/connect: status, location, and cookies."""
    url = f"{world.gateway.url}/oauth/connect/accounts?connect_session_token={link.token}"
    async with aiohttp.ClientSession() as http, http.get(url, headers=PROGRAM, allow_redirects=False) as response:
        cookies = {name: morsel.value for name, morsel in response.cookies.items()}
        return response.status, response.headers.get("Location", ""), cookies


async def callback_of(person: Person, consent: str) -> str:
    """Return the redirect of the provider for this browser. Do not follow the redirect."""
    async with person.http.get(consent, allow_redirects=False) as response:
        return response.headers["Location"]


async def authorization_url(person: Person, page_url: str) -> str:
    """Click in this browser. Return the URL of the provider without loading it."""
    await person.go(page_url)
    html = person.seen[-1]
    person.clicks += 1
    async with person.http.post(f"{page_url.partition('?')[0]}/i/accounts", data=hidden_inputs(html)) as response:
        redirect_page = await response.text()
    assert "0;url=" in redirect_page, redirect_page
    return redirect_page.partition("0;url=")[2].partition('"')[0].replace("&amp;", "&")


@pytest.mark.parametrize("at_application", ["bob", None])
@pytest.mark.parametrize("at_provider", [True, False])
async def test_a_forwarded_link_connects_bob_only_without_a_code_challenge_and_after_a_page_named_alice(
    world: World, at_application: str | None, at_provider: bool
) -> None:
    link = await world.link()
    bob = world.person(at_application)
    if at_provider:
        await bob.sign_in(world, "bob")
    where = await bob.click(await world.pages(bob, link))
    assert bob.saw_alices_name_and_clicked
    if not at_provider:
        assert "Sign in first" in bob.seen[-1]
    assert await world.back(bob, where) is None or not world.bound
    assert await world.promise_holds(bob)
    assert len(await world.pending(link)) == (1 if world.bound and at_provider else 0)
    assert await world.accounts() == ({} if world.bound or not at_provider else {"alice": "bob"})


async def test_alice_connects_her_own_account(world: World, alice: Person) -> None:
    """The control: if the right person takes the same steps, the result is her connection."""
    link = await world.link()
    where = await alice.click(await world.pages(alice, link))
    if not world.bound:
        assert await world.accounts() == {"alice": "alice"}
        return
    assert await world.accounts() == {}
    result = await world.back(alice, where)
    assert result is not None
    assert result.outcome == "pending"
    assert await world.accounts() == {"alice": "alice"}
    assert await world.back(alice, where) is not None  # sending the same result again changes nothing
    assert await world.accounts() == {"alice": "alice"}


async def test_a_second_browser_gets_403_for_a_link_that_alice_has_begun(
    bound_world: World, alice: Person, bob: Person
) -> None:
    link = await bound_world.link()
    pages = await bound_world.pages(alice, link)
    await authorization_url(alice, pages)
    await bound_world.pages(bob, link)
    assert (bob.status, bob.error) == (403, "connect_session_in_use")
    for path in ("", "/i/accounts", "/i/accounts/result", "/return?i=accounts"):
        await bob.go(pages + path)
        assert (bob.status, bob.error) == (403, "connect_session_in_use"), path
    assert bob.clicks == 0
    assert await bound_world.accounts() == {}


async def test_a_connection_that_bob_made_with_alices_link_is_not_completed_for_alice(
    bound_world: World, alice: Person, bob: Person
) -> None:
    link = await bound_world.link()
    await bob.click(await bound_world.pages(bob, link))
    assert len(await bound_world.pending(link)) == 1
    where = await bound_world.pages(alice, link)
    assert (alice.status, alice.error) == (403, "connect_session_in_use")
    assert await bound_world.back(alice, where) is None
    assert await bound_world.accounts() == {}


async def test_a_key_that_bob_typed_in_is_not_completed_when_alice_cancels(bound_world: World, alice: Person) -> None:
    """Bob's program creates a pending connection in Alice's session. Alice's own browser must not complete it."""
    link = await bound_world.link(allowed_integrations=["keyed"])
    typed = f"{bound_world.gateway.url}/api-auth/api-key/keyed?connect_session_token={link.token}"
    async with bound_world.gateway.http.post(typed, json={"apiKey": "key-of-bob"}) as response:
        assert response.status == 200
    assert len(await bound_world.pending(link)) == 1
    pages = await bound_world.pages(alice, link)
    await alice.go(f"{pages}/i/keyed?again=1")
    html = alice.seen[-1]
    # Alice clicks, so the session belongs to her browser, and then cancels
    await alice.send(html, {"credentials[apiKey]": ""})
    where = await alice.go(f"{pages}/return?i=keyed")
    result = await bound_world.back(alice, where)
    assert result is None or (result.outcome, result.connection_id) == ("failed", None)
    assert await bound_world.accounts() == {}
    where = await alice.go(f"{pages}/i/keyed/result")
    assert "result=" not in where + alice.seen[-1]


async def test_bobs_program_gets_403_while_alice_is_at_the_provider(
    bound_world: World, alice: Person, bob: Person
) -> None:
    link = await bound_world.link()
    pages = await bound_world.pages(alice, link)
    await authorization_url(alice, pages)
    status, _, _ = await program_begins(bound_world, link)
    assert status == 403
    typed = f"{bound_world.gateway.url}/api-auth/api-key/keyed?connect_session_token={link.token}"
    async with bound_world.gateway.http.post(typed, json={"apiKey": "key-of-bob"}) as response:
        assert response.status in {400, 403}
    result = await bound_world.back(alice, await alice.go(f"{pages}/return?i=accounts"))
    assert result is not None
    assert (result.outcome, result.connection_id) == ("cancelled", None)
    assert await bound_world.pending(link) == []
    assert await bound_world.accounts() == {}


async def test_a_connection_of_bobs_program_before_alice_confirms_is_not_completed(
    bound_world: World, alice: Person, bob: Person
) -> None:
    link = await bound_world.link()
    _, consent, cookies = await program_begins(bound_world, link)
    callback = await callback_of(bob, consent)
    async with aiohttp.ClientSession(cookies=cookies) as http, http.get(callback, headers=PROGRAM) as response:
        assert response.status == 200
    assert len(await bound_world.pending(link)) == 1
    pages = await bound_world.pages(alice, link)
    for path in ("", "/i/accounts?again=1", "/i/accounts/result", "/return?i=accounts"):
        where = await alice.go(f"{pages.partition('?')[0]}{path}")
        result = await bound_world.back(alice, where)
        assert result is None or result.connection_id is None
    assert await bound_world.accounts() == {}


async def test_a_copied_session_cookie_without_the_page_is_refused(world: World, alice: Person, bob: Person) -> None:
    link = await world.link()
    pages = await world.pages(alice, link)
    cookies = {cookie.key: cookie.value for cookie in alice.http.cookie_jar if cookie.key.startswith("gw-connect-")}
    assert cookies
    bob.http.cookie_jar.update_cookies(cookies, response_url=URL(world.gateway.url))
    await bob.go(f"{pages}/i/accounts", {})
    assert (bob.status, bob.error) == (400, "not_confirmed")
    assert world.provider.authorizations == 0
    assert await world.accounts() == {}


async def test_a_browser_with_all_of_alices_cookies_completes_nothing_for_bob(
    bound_world: World, alice: Person, bob: Person
) -> None:
    """Even with all cookies of Alice, a browser returns to the application as Bob."""
    link = await bound_world.link()
    pages = await bound_world.pages(alice, link)
    cookies = {cookie.key: cookie.value for cookie in alice.http.cookie_jar if cookie.key.startswith("gw-")}
    bob.http.cookie_jar.update_cookies(cookies, response_url=URL(bound_world.gateway.url))
    where = await bob.click(pages)
    assert "result=" in where
    assert await bound_world.back(bob, where) is None
    assert await bound_world.accounts() == {}


@pytest.mark.parametrize("confirmation", ["none", "made up", "of his own link"])
async def test_a_form_that_was_not_loaded_from_the_page_is_refused(
    world: World, bob: Person, confirmation: str
) -> None:
    link, own = await world.link(), await world.link("bob")
    await world.pages(bob, own)
    form = {"none": {}, "made up": {"confirmation": "0" * 64}, "of his own link": hidden_inputs(bob.seen[-1])}[
        confirmation
    ]
    # this request sets the cookie of the token, but the page is not loaded
    async with bob.http.get(link.url, allow_redirects=False) as response:
        pages = response.headers["Location"]
    await bob.go(f"{pages}/i/accounts", form)
    assert (bob.status, bob.error) == (400, "not_confirmed")
    assert world.provider.authorizations == 0
    assert await world.accounts() == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "cross-site"},
        {"Accept": "image/avif,*/*;q=0.8", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Accept": "*/*", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"},
        {"Accept": "*/*", "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/60.0"},
    ],
    ids=["navigation", "img", "fetch", "old browser"],
)
@pytest.mark.parametrize("query", ["", "&ws_client_id=mallory"], ids=["", "popup"])
async def test_the_oauth_connect_url_redirects_every_browser_to_the_page(
    world: World, bob: Person, headers: dict[str, str], query: str
) -> None:
    link = await world.link()
    url = f"{world.gateway.url}/oauth/connect/accounts?connect_session_token={link.token}{query}"
    where = await bob.go(url, headers=headers)
    assert where.startswith(f"{world.gateway.url}/connect/s/")
    assert "For Alice Liddell" in bob.seen[-1]
    assert world.provider.authorizations == 0
    assert await world.accounts() == {}
    assert not bob.saw_alices_name_and_clicked


async def test_a_forwarded_authorization_url_ends_with_invalid_state(world: World, bob: Person) -> None:
    """Mallory starts the authorization with a program, and sends Bob directly to the provider."""
    link = await world.link()
    status, consent, _ = await program_begins(world, link)
    assert (status, consent.startswith(world.provider.url)) == (302, True)
    where = await bob.go(consent)
    assert where.startswith(f"{world.gateway.url}/oauth/callback")
    assert (bob.status, bob.error) == (400, "invalid_state")
    assert await world.accounts() == {}
    assert await world.pending(link) == []


async def test_a_forwarded_redirect_page_does_not_start_an_authorization(
    world: World, alice: Person, bob: Person
) -> None:
    link = await world.link()
    pages = await world.pages(alice, link)
    await alice.go(pages)
    async with alice.http.post(f"{pages}/i/accounts", data=hidden_inputs(alice.seen[-1])) as response:
        leave_url = str(response.url)
    assert "/leave/" in leave_url
    await bob.go(link.url)
    await bob.go(leave_url)
    assert not any(world.provider.url in page for page in bob.seen)
    assert world.provider.authorizations == 0
    assert await world.promise_holds(bob)


async def test_bobs_callback_url_is_refused_in_alices_browser(world: World, alice: Person, bob: Person) -> None:
    own, link = await world.link("bob"), await world.link()
    consent = await authorization_url(bob, await world.pages(bob, own))
    await authorization_url(alice, await world.pages(alice, link))
    await alice.go(await callback_of(bob, consent))
    assert (alice.status, alice.error) == (400, "invalid_state")
    assert await world.accounts() == {}


async def test_bobs_code_in_alices_callback_is_refused(world: World, alice: Person, bob: Person) -> None:
    own, link = await world.link("bob"), await world.link()
    callback = await callback_of(bob, await authorization_url(bob, await world.pages(bob, own)))
    code = parse_qs(urlsplit(callback).query)["code"][0]
    consent = await authorization_url(alice, await world.pages(alice, link))
    state = parse_qs(urlsplit(consent).query)["state"][0]
    await alice.go(f"{world.gateway.url}/oauth/callback?{urlencode({'code': code, 'state': state})}")
    assert alice.status == 400
    assert await world.accounts() == {}
    assert await world.pending(link) == []


async def test_one_of_two_simultaneous_confirmations_is_refused(bound_world: World, alice: Person, bob: Person) -> None:
    link = await bound_world.link()
    forms = []
    for person in (alice, bob):
        await bound_world.pages(person, link)
        forms.append(person.seen[-1])
    ended = await asyncio.gather(alice.send(forms[0]), bob.send(forms[1]))
    refused = [person for person in (alice, bob) if person.error == "connect_session_in_use"]
    assert len(refused) == 1
    assert await bound_world.back(bob, ended[1]) is None
    assert "bob" not in (await bound_world.accounts()).values()
    if refused == [bob]:
        assert await bound_world.back(alice, ended[0]) is not None
        assert await bound_world.accounts() == {"alice": "alice"}


async def test_simultaneous_callbacks_create_no_more_connections_than_the_session_allows(
    world: World, bob: Person
) -> None:
    link = await world.link(max_connections=1)
    pages = await world.pages(bob, link)
    callbacks = [await callback_of(bob, await authorization_url(bob, pages)) for _ in range(4)]
    await asyncio.gather(*(bob.http.get(callback, allow_redirects=False) for callback in callbacks))
    listed = (await world.gateway.json("GET", "/connections"))["connections"]
    assert len(listed) + len(await world.pending(link)) == 1
    assert await world.promise_holds(bob)


async def test_a_stolen_verifier_without_the_secret_key_completes_nothing(bound_world: World, bob: Person) -> None:
    link = await bound_world.link()
    await bob.click(await bound_world.pages(bob, link))
    assert len(await bound_world.pending(link)) == 1
    assert await bound_world.complete_status(link, link.verifier, key=None) == 401
    assert await bound_world.complete_status(link, link.verifier, key=link.token) == 401
    body = {"display_name": "reads only", "scopes": ["environment:proxy"]}
    minted = (await bound_world.gateway.json("POST", "/environment/api-keys", json=body))["data"]["secret"]
    assert await bound_world.complete_status(link, link.verifier, key=minted) == 403
    assert await bound_world.accounts() == {}


async def test_a_key_of_another_environment_cannot_complete_with_the_verifier(bound_world: World, bob: Person) -> None:
    link = await bound_world.link()
    await bob.click(await bound_world.pages(bob, link))
    assert await bound_world.complete_status(link, link.verifier, key=OTHER_KEY) == 404
    assert await bound_world.accounts() == {}
    assert len(await bound_world.pending(link)) == 1


async def test_a_session_cannot_be_completed_with_the_verifier_of_another(bound_world: World, bob: Person) -> None:
    link, own = await bound_world.link(), await bound_world.link("bob")
    where = await bob.click(await bound_world.pages(bob, link))
    assert await bound_world.back(bob, where) is None
    assert await bound_world.complete_status(link, own.verifier) == 403
    assert await bound_world.complete_status(own, own.verifier) == 409
    assert await bound_world.accounts() == {}


async def connect_alice(world: World, alice: Person) -> str:
    """Return the id of Alice's own connection."""
    where = await alice.click(await world.pages(alice, await world.link()))
    await world.back(alice, where)
    ((listed),) = (await world.gateway.json("GET", "/connections"))["connections"]
    return str(listed["connection_id"])


async def test_bob_cannot_replace_alices_account_with_her_reconnect_link(
    world: World, alice: Person, bob: Person
) -> None:
    connection_id = await connect_alice(world, alice)
    options = {"connection_id": connection_id, "integration_id": "accounts"}
    link = await world.link(path="/connect/sessions/reconnect", **options)
    where = await bob.click(await world.pages(bob, link))
    assert any("For Alice Liddell" in page for page in bob.seen)
    assert await world.back(bob, where) is None
    assert await world.accounts() == {"alice": "alice"}
    headers = {
        "Provider-Config-Key": "accounts",
        "Connection-Id": connection_id,
        "Authorization": f"Bearer {SECRET_KEY}",
    }
    async with world.gateway.http.get(f"{world.gateway.url}/proxy/me", headers=headers) as response:
        assert (await response.json())["id"] == "alice"


async def refusal_of_call(world: World, connection_id: str) -> dict[str, Any]:
    headers = {
        "Provider-Config-Key": "accounts",
        "Connection-Id": connection_id,
        "Authorization": f"Bearer {SECRET_KEY}",
    }
    async with world.gateway.http.get(f"{world.gateway.url}/proxy/me", headers=headers) as response:
        error: dict[str, Any] = (await response.json())["error"]
        return error


async def test_a_key_of_bob_that_is_still_checked_when_alice_confirms_is_refused(
    bound_world: World, alice: Person
) -> None:
    """The provider names no account. The check of Bob's key begins before Alice clicks, and ends after her result."""
    entry = {
        "display_name": "Nameless",
        "categories": ["crm"],
        "docs": "https://docs.example.com",
        "auth_mode": "API_KEY",
        "proxy": {
            "base_url": bound_world.provider.url,
            "headers": {"x-api-key": "${apiKey}"},
            "verification": {"method": "GET", "endpoints": ["/me"]},
        },
    }
    write_entry(bound_world.gateway.folder, "nameless", entry)
    bound_world.gateway.document["environments"]["dev"]["integrations"]["nameless"] = {"provider": "nameless"}
    await bound_world.gateway.restart()
    names = {"provider_config_key": "nameless", "connection_id": "alice-1"}
    credentials = {"type": "API_KEY", "apiKey": "key-of-alice"}
    await bound_world.gateway.json("POST", "/connections", json={**names, "credentials": credentials}, expect=201)
    options = {"connection_id": "alice-1", "integration_id": "nameless"}
    link = await bound_world.link(path="/connect/sessions/reconnect", **options)
    bound_world.provider.held["bob"] = asyncio.Event()
    typed = f"{bound_world.gateway.url}/api-auth/api-key/nameless?connect_session_token={link.token}"

    async def bob_types() -> tuple[int, str | None]:
        async with bound_world.gateway.http.post(typed, json={"apiKey": "key-of-bob"}) as response:
            return response.status, response.headers.get("Gateway-Error")

    bob = asyncio.create_task(bob_types())
    await bound_world.provider.waiting.wait()
    where = await alice.click(await bound_world.pages(alice, link), {"credentials[apiKey]": "key-of-alice"})
    bound_world.provider.held["bob"].set()
    assert await bob == (403, "connect_session_in_use")
    result = await bound_world.back(alice, where)
    assert result is not None
    assert (result.outcome, result.connection_id) == ("pending", "alice-1")
    headers = {
        "Provider-Config-Key": "nameless",
        "Connection-Id": "alice-1",
        "Authorization": f"Bearer {SECRET_KEY}",
    }
    async with bound_world.gateway.http.get(f"{bound_world.gateway.url}/proxy/me", headers=headers) as response:
        assert (await response.json())["id"] == "alice"


async def test_the_link_in_a_404_error_connects_nothing_when_bob_opens_it(world: World, bob: Person) -> None:
    if world.bound:
        world.gateway.document["environments"]["dev"]["connect_binding"] = "required"
        await world.gateway.restart()
    error = await refusal_of_call(world, "alice-1")
    assert error["code"] == "unknown_connection"
    if world.bound:
        assert "connect_url" not in error["payload"]
        assert "session_token" not in json.dumps(error)
        return
    await bob.go(error["payload"]["connect_url"])
    assert "alice-1" in bob.seen[-1]
    assert world.provider.authorizations == 0
    assert (await world.gateway.json("GET", "/connections"))["connections"] == []


async def test_the_link_in_a_424_error_reconnects_nothing_when_bob_opens_it(world: World, bob: Person) -> None:
    credentials = {"type": "OAUTH2", "access_token": "dead", "expires_at": "2020-01-01T00:00:00Z"}
    body = {"provider_config_key": "accounts", "connection_id": "alice-1", "credentials": credentials}
    ends = {"end_user": {"id": "alice", "display_name": "Alice Liddell"}}
    made = await world.gateway.json("POST", "/connections", json={**body, **ends})
    if world.bound:
        world.gateway.document["environments"]["dev"]["connect_binding"] = "required"
        await world.gateway.restart()
    error = await refusal_of_call(world, "alice-1")
    assert error["code"] == "reconnect_needed", made
    if world.bound:
        assert "connect_url" not in error["payload"]
        return
    await bob.go(error["payload"]["connect_url"])
    assert "Alice Liddell" in bob.seen[-1]
    assert world.provider.authorizations == 0
    assert (await refusal_of_call(world, "alice-1"))["code"] == "reconnect_needed"


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "https://evil.example"}, {"Origin": "null", "Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}],
)
async def test_the_embedded_form_is_refused_when_another_site_sends_it(
    world: World, bob: Person, headers: dict[str, str]
) -> None:
    link = await world.link()
    url = f"{world.gateway.url}/connect/s/embedded/i/accounts"
    await bob.go(url, {"connect_session_token": link.token, "ws_client_id": "w"}, headers=headers)
    assert bob.status in {400, 403}
    assert world.provider.authorizations == 0
    assert await world.accounts() == {}


async def test_the_window_of_an_embedded_form_connects_bob_only_without_a_code_challenge(
    world: World, bob: Person
) -> None:
    """A page of Bob's contains the frame of the published SDK. The frame's form opens a window, in which Bob
    authorizes.
    """
    link = await world.link()
    own = {"Origin": world.gateway.url, "Sec-Fetch-Site": "same-origin"}
    frame = {"Authorization": f"Bearer {link.token}", "Gateway-Embedder": world.app, **own}
    await bob.go(f"{world.gateway.url}/connect/s/embedded/i/accounts", headers=frame)
    assert "For Alice Liddell" in bob.seen[-1]
    form = {"connect_session_token": link.token, "ws_client_id": "w"}
    await bob.go(f"{world.gateway.url}/connect/s/embedded/i/accounts", form, headers=own)
    bob.clicks += 1
    where = await bob.go(bob.seen[-1].partition("0;url=")[2].partition('"')[0])
    assert await world.back(bob, where) is None or not world.bound
    assert await world.promise_holds(bob)
    assert len(await world.pending(link)) == (1 if world.bound else 0)


@pytest.mark.parametrize("how", ["page", "program"])
async def test_a_key_typed_in_with_alices_token_stays_pending_with_a_code_challenge(
    world: World, bob: Person, how: str
) -> None:
    link = await world.link(allowed_integrations=["keyed"])
    if how == "page":
        where = await bob.click(await world.pages(bob, link), {"credentials[apiKey]": "key-of-bob"})
        assert bob.saw_alices_name_and_clicked
        assert await world.back(bob, where) is None or not world.bound
        assert await world.promise_holds(bob)
    else:  # with Alice's token and Bob's key, a program needs no page
        url = f"{world.gateway.url}/api-auth/api-key/keyed?connect_session_token={link.token}"
        async with bob.http.post(url, json={"apiKey": "key-of-bob"}) as response:
            made = await response.json()
        if world.bound:
            assert made["isPending"] is True
        else:
            assert await world.accounts() == {"alice": "bob"}
    if world.bound:
        assert await world.accounts() == {}
        assert len(await world.pending(link)) == 1


async def test_an_expired_link_is_refused(world: World, bob: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    link = await world.link(expires_in=60)
    pages = await world.pages(bob, link)
    html = bob.seen[-1]
    later = clock.now() + timedelta(seconds=61)
    monkeypatch.setattr("gateway.clock.now", lambda: later)
    for url in (link.url, pages):
        await bob.go(url)
        assert bob.status == 401
    await bob.send(html)
    assert bob.status == 401
    assert world.provider.authorizations == 0
    assert await world.accounts() == {}


async def test_a_single_use_link_that_alice_has_begun_is_refused_for_bob(
    world: World, alice: Person, bob: Person
) -> None:
    link = await world.link(single_use=True)
    pages = await world.pages(alice, link)
    await world.pages(bob, link)
    form = bob.seen[-1]
    where = await alice.click(pages)
    await bob.send(form)
    assert (bob.status, bob.error) == (403, "connect_session_in_use")
    status, _, _ = await program_begins(world, link)
    assert status == 403
    await world.back(alice, where)
    assert await world.accounts() == {"alice": "alice"}


async def test_alices_return_url_completes_nothing_in_bobs_browser(
    bound_world: World, alice: Person, bob: Person
) -> None:
    link = await bound_world.link()
    where = await alice.click(await bound_world.pages(alice, link))
    await bound_world.link("bob")
    assert await bound_world.back(bob, where) is None
    assert await bound_world.accounts() == {}
    assert await bound_world.back(alice, where) is not None


async def test_bobs_return_url_completes_nothing_in_alices_browser(
    bound_world: World, alice: Person, bob: Person
) -> None:
    link, own = await bound_world.link(), await bound_world.link("bob")
    where = await bob.click(await bound_world.pages(bob, own))
    assert await bound_world.back(alice, where) is None
    swapped = where.replace(f"state={quote(own.state)}", f"state={quote(link.state)}")
    assert swapped != where
    assert await bound_world.back(alice, swapped) is None
    assert await bound_world.accounts() == {}


def made_token(claims: dict[str, Any], header: dict[str, str], key: str = "") -> str:
    """Return a JSON Web Token, signed with HS256 if `key` is given."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)]
    signature = hmac.digest(key.encode(), ".".join(parts).encode(), "sha256") if key else b""
    return ".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=").decode()])


@pytest.mark.parametrize(
    "forgery", ["alg none", "another key", "another environment", "webhook key itself", "expired", "another audience"]
)
async def test_a_forged_result_is_refused(
    bound_world: World, bob: Person, forgery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await bound_world.link()
    where = await bob.click(await bound_world.pages(bob, link))
    genuine = verify_return(where, await bound_world.signing_key(), audience=bound_world.app)
    now = int(clock.now().timestamp())
    claims = {
        "iss": bound_world.gateway.url,
        "aud": bound_world.app,
        "iat": now,
        "exp": now + 300,
        "jti": "j",
        "session_id": link.session_id,
        "outcome": "pending",
        "connection_id": genuine.connection_id,
        "state": link.state,
    }
    key, header = await bound_world.signing_key(), {"alg": "HS256", "typ": signing.JWT_TYPE}
    session = await bound_world.gateway.runtime.sessions.find(link.token)
    if forgery == "alg none":
        result = made_token(claims, {**header, "alg": "none"})
    elif forgery == "another key":
        result = made_token(claims, header, "x" * 64)
    elif forgery == "webhook key itself":
        result = made_token(claims, header, key)
    elif forgery == "another audience":
        derived = signing.result_key(Secret(key)).reveal()
        result = made_token({**claims, "aud": "https://evil.example"}, header, derived)
    elif forgery == "another environment":
        other = await bound_world.signing_key("prod")
        result = made_token(claims, header, signing.result_key(Secret(other)).reveal())
        assert other != key
    else:
        with monkeypatch.context() as patch:
            earlier = clock.now() - timedelta(minutes=7)
            patch.setattr("gateway.clock.now", lambda: earlier)
            reported = ReturnResult(outcome="pending", connection_id=genuine.connection_id)
            url = signed_return_url(session, reported, public_url=bound_world.gateway.url, signing_key=Secret(key))
        result = parse_qs(urlsplit(url).query)["result"][0]
    with pytest.raises(InvalidReturn):
        verify_return(result, key, audience=bound_world.app, state=link.state)
    alice = bound_world.person("alice")
    assert (
        await bound_world.back(alice, f"{bound_world.app}/back?{urlencode({'state': link.state, 'result': result})}")
        is None
    )
    assert await bound_world.accounts() == {}
