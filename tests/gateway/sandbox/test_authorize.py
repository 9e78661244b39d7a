"""The sandbox's pages: which redirects are allowed, and what a person sees."""

import pytest

from gateway.sandbox.state import Sandbox
from gateway.sandbox.visitor import VisitedPage, forms
from tests.gateway.sandbox.conftest import CALLBACK, Application


async def test_a_person_logs_in_allows_and_returns_with_code_state_and_issuer(
    sandbox: Sandbox, application: Application
) -> None:
    response = await application.walk()
    assert response["state"] == "st&te"
    assert response["iss"] == sandbox.issuer
    assert response["code"]


async def test_a_user_who_refuses_returns_with_access_denied(application: Application) -> None:
    response = await application.walk(decision="deny")
    assert response["error"] == "access_denied"
    assert response["state"] == "st&te"
    assert "code" not in response


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"scope": "read:sandbox-work launch:missiles"}, "invalid_scope"),
    ],
)
async def test_a_faulty_request_is_reported_to_the_application(
    application: Application, changes: dict[str, str | None], error: str
) -> None:
    response = await application.walk(**changes)
    assert response["error"] == error
    assert response["state"] == "st&te"


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "someone-else"},
        {"client_id": None},
        {"redirect_uri": "https://evil.test/"},
        {"redirect_uri": CALLBACK + "/"},
        {"redirect_uri": CALLBACK + "?x=1"},
        {"redirect_uri": None},
    ],
)
async def test_an_unknown_application_or_redirect_uri_is_reported_to_the_person_only(
    application: Application, changes: dict[str, str | None]
) -> None:
    async with application.browser.get(application.authorize_url(**changes), allow_redirects=False) as response:
        assert response.status == 400
        assert "Location" not in response.headers
        assert 'role="alert"' in await response.text()


async def test_a_parameter_sent_twice_is_refused(application: Application) -> None:
    url = application.authorize_url() + "&scope=read:sandbox-user"
    async with application.browser.get(url, allow_redirects=False) as response:
        assert "error=invalid_request" in response.headers["Location"]


async def test_a_wrong_password_asks_again_and_sets_no_cookie(application: Application) -> None:
    page = await _open(application)
    sent = forms(page)[0].fields | {"password": "guess"}
    async with application.browser.post(forms(page)[0].action, data=sent) as response:
        assert response.status == 400
        assert "Wrong e-mail address or password" in await response.text()
        assert "Set-Cookie" not in response.headers


async def test_the_consent_page_names_the_application_and_each_scope_in_words_and_escapes_them(
    application: Application,
) -> None:
    page = await _log_in_page(application)
    assert "Demo &lt;app&gt;" in page.text
    assert "Demo <app>" not in page.text
    for words in ("Read projects and issues", "Keep this access while you are away", "Acme and Globex", "Dana Demo"):
        assert words in page.text


async def test_pages_load_nothing_from_elsewhere_and_cannot_be_framed(application: Application) -> None:
    async with application.browser.get(application.authorize_url()) as response:
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self' http://127.0.0.1:9" in policy
        assert response.headers["Cache-Control"] == "no-store"
        assert "<script" not in await response.text()


@pytest.mark.parametrize("csrf", ["", "0" * 64, "ä"])
async def test_consent_needs_the_token_of_this_very_login(application: Application, csrf: str) -> None:
    form = forms(await _log_in_page(application))[0]
    sent = form.fields | {"csrf": csrf, "decision": "allow"}
    async with application.browser.post(form.action, data=sent, allow_redirects=False) as response:
        assert response.status == 400
        assert "Location" not in response.headers


async def test_another_account_can_be_used_instead(application: Application) -> None:
    switch = forms(await _log_in_page(application))[1]
    async with application.browser.post(switch.action, data=switch.fields) as response:
        assert "Log in" in await response.text()


async def _open(application: Application) -> VisitedPage:
    async with application.browser.get(application.authorize_url()) as response:
        return VisitedPage(str(response.url), response.status, await response.text())


async def _log_in_page(application: Application) -> VisitedPage:
    login = forms(await _open(application))[0]
    async with application.browser.post(login.action, data=login.fields | {"password": "demo"}) as response:
        return VisitedPage(str(response.url), response.status, await response.text())
