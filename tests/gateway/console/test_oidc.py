"""Sign-in by an identity provider and by a proxy's header fields: who gets in, with which role, and which attempts fail."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from html import unescape
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from structlog.testing import capture_logs

from gateway import clock
from gateway.access.client_window import MAX_LINES
from gateway.config.model import AllowedNetwork, ConsoleConfig, ConsoleOidcConfig, IdentityHeadersConfig
from gateway.console.oidc import signature_keys
from gateway.records.audit import AuditFilter
from gateway.secret import Secret
from tests.fakes.console import csrf_token
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, identity_provider
from tests.fakes.tracker import Tracker

REVOKE = "/dev/key/revoke"


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway that may connect to every port of this machine."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    found = RunningGateway(tmp_path, document(["127.0.0.1/32"]))
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
async def idp(running: RunningGateway) -> AsyncIterator[IdentityProvider]:
    async with identity_provider() as found:
        oidc = ConsoleOidcConfig(found.url, CLIENT_ID, Secret(CLIENT_SECRET), ("openid", "groups"))
        running.configure(console=ConsoleConfig(True, 12, ("platform",), ("support",), oidc))
        yield found


@pytest.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        yield http


async def sign_in(browser: aiohttp.ClientSession, running: RunningGateway) -> tuple[int, str]:
    """Follow the sign-in and return the last page's status and text."""
    async with browser.get(f"{running.url}/console/sign-in/oidc") as response:
        return response.status, await response.text()


async def callback(browser: aiohttp.ClientSession, running: RunningGateway) -> str:
    """Return the callback URL without opening it."""
    async with browser.get(f"{running.url}/console/sign-in/oidc", allow_redirects=False) as response:
        callback_url = response.headers["Location"]
    async with browser.get(callback_url, allow_redirects=False) as response:
        return response.headers["Location"]


@pytest.mark.parametrize(("groups", "acts"), [(["platform", "x"], True), (["support"], False)])
async def test_groups_decide_who_may_act(
    running: RunningGateway, idp: IdentityProvider, browser: aiohttp.ClientSession, groups: list[str], acts: bool
) -> None:
    idp.groups = groups
    async with browser.get(f"{running.url}/console/dev") as response:
        assert (response.status, "Sign in with your identity provider" in await response.text()) == (401, True)
    status, page = await sign_in(browser, running)
    assert (status, "ada" in page, "(viewer)" in page) == (200, True, not acts)
    (query,) = idp.authorize_queries
    assert (query["code_challenge_method"], query["scope"], query["response_type"]) == ("S256", "openid groups", "code")
    await running.runtime.audit_keeper.run_once()
    (record,) = await running.runtime.store.audit.find(AuditFilter(action="operator.signed_in"))
    body = record.as_json()
    assert body["detail"] == {"role": "operator" if acts else "viewer", "by": "oidc"}
    assert body["actor"]["name"] == "ada"


async def test_over_https_both_cookies_are_bound_to_this_host(running: RunningGateway, idp: IdentityProvider) -> None:
    from dataclasses import replace

    config = running.runtime.generation.config
    running.configure(server=replace(config.server, public_url="https://gw.example.com"))
    async with running.http.get(f"{running.url}/console/sign-in/oidc", allow_redirects=False) as response:
        cookie = response.headers["Set-Cookie"]
    assert cookie.startswith("__Host-gw-console-begun=")
    assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/"))


def _encode_unsigned(_idp: IdentityProvider, claims: dict[str, Any]) -> str:
    parts = [json.dumps(item).encode() for item in ({"alg": "none"}, claims)]
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""])


def _sign_with_public_key(idp: IdentityProvider, claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "HS256", "kid": "k1"}, claims, OctKey.import_key(idp.key.as_pem(private=False)))


def _sign_with_other_key(_idp: IdentityProvider, claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, RSAKey.generate_key(2048))


def _sign_with_client_secret(_idp: IdentityProvider, claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET))


def _sign_with_key_in_header(_idp: IdentityProvider, claims: dict[str, Any]) -> str:
    key = RSAKey.generate_key(2048)
    return jwt.encode({"alg": "RS256", "jwk": key.as_dict(private=False)}, claims, key)


def _change_signed_claims(idp: IdentityProvider, claims: dict[str, Any]) -> str:
    head, _, signature = jwt.encode({"alg": "RS256", "kid": "k1"}, claims, idp.key).split(".")
    body = base64.urlsafe_b64encode(json.dumps({**claims, "groups": ["platform", "more"]}).encode()).rstrip(b"=")
    return f"{head}.{body.decode()}.{signature}"


FORGED_TOKENS: dict[str, Callable[[IdentityProvider, dict[str, Any]], str]] = {
    "alg none": _encode_unsigned,
    "HS256 by the public key": _sign_with_public_key,
    "HS256 by the client secret": _sign_with_client_secret,
    "another key": _sign_with_other_key,
    "a key in its own head": _sign_with_key_in_header,
    "changed after signing": _change_signed_claims,
    "no token at all": lambda _idp, _claims: "x",
    "empty": lambda _idp, _claims: "",
}


@pytest.mark.parametrize("forged", FORGED_TOKENS)
async def test_a_forged_id_token_is_refused(
    running: RunningGateway, idp: IdentityProvider, browser: aiohttp.ClientSession, forged: str
) -> None:
    idp.sign = FORGED_TOKENS[forged]
    status, _ = await sign_in(browser, running)
    assert status == 403
    async with browser.get(f"{running.url}/console/dev") as response:
        assert response.status == 401


@pytest.mark.parametrize("forged", [True, False], ids=["forged tokens", "made-up codes"])
async def test_sign_ins_that_fail_fill_no_log(
    running: RunningGateway, idp: IdentityProvider, browser: aiohttp.ClientSession, forged: bool
) -> None:
    idp.sign = _sign_with_other_key
    with capture_logs() as logs:
        for _ in range(MAX_LINES + 3):
            callback_url = await callback(browser, running)
            async with browser.get(
                callback_url if forged else callback_url.replace("code=code", "code=other")
            ) as response:
                assert response.status == 403
    events = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert events == [*["console_sign_in_refused"] * MAX_LINES, "refusals_not_logged"]


WRONG_CLAIMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "aud of another": lambda claims: claims.update(aud="other"),
    "aud missing": lambda claims: claims.pop("aud"),
    "several aud and azp of another": lambda claims: claims.update(aud=[CLIENT_ID, "other"], azp="other"),
    "several aud without azp": lambda claims: claims.update(aud=[CLIENT_ID, "other"]),
    "iss of another": lambda claims: claims.update(iss="https://evil.example"),
    "iss missing": lambda claims: claims.pop("iss"),
    "nonce of another": lambda claims: claims.update(nonce="x" * 43),
    "nonce missing": lambda claims: claims.pop("nonce"),
    "expired": lambda claims: claims.update(exp=claims["iat"] - 3600),
    "exp missing": lambda claims: claims.pop("exp"),
    "of the future": lambda claims: claims.update(iat=claims["iat"] + 3600),
    "not yet": lambda claims: claims.update(nbf=claims["iat"] + 3600),
    "sub missing": lambda claims: claims.pop("sub"),
    "no groups": lambda claims: claims.pop("groups"),
    "groups of others": lambda claims: claims.update(groups=["Platform", "platform "]),
    "groups that are none": lambda claims: claims.update(groups={"platform": True}),
}


@pytest.mark.parametrize("wrong", WRONG_CLAIMS)
async def test_wrong_claims_are_refused(
    running: RunningGateway, idp: IdentityProvider, browser: aiohttp.ClientSession, wrong: str
) -> None:
    idp.change = WRONG_CLAIMS[wrong]
    status, page = await sign_in(browser, running)
    assert status == 403
    assert "Not allowed" in page
    async with browser.get(f"{running.url}/console/dev") as response:
        assert response.status == 401


async def test_the_callback_works_once_and_in_the_browser_that_started(
    running: RunningGateway, idp: IdentityProvider, browser: aiohttp.ClientSession
) -> None:
    callback_url = await callback(browser, running)
    async with running.http.get(
        callback_url, allow_redirects=False
    ) as response:  # in another user's browser: login CSRF
        assert (response.status, "gw-console=" in response.headers["Set-Cookie"]) == (403, False)
    async with browser.get(callback_url.replace("state=", "state=x"), allow_redirects=False) as response:
        assert response.status == 403
    async with browser.get(callback_url, allow_redirects=False) as response:  # the first wrong attempt used it up
        assert response.status == 403
    callback_url = await callback(browser, running)
    async with browser.get(callback_url, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, f"{running.url}/console")
    async with browser.get(callback_url, allow_redirects=False) as response:
        assert response.status == 403


@pytest.mark.parametrize("query", ["", "code=x", "state=x&code=x", "error=access_denied", "code=x&state="])
async def test_callback_without_a_started_sign_in_is_refused(
    running: RunningGateway, idp: IdentityProvider, browser: aiohttp.ClientSession, query: str
) -> None:
    async with browser.get(f"{running.url}/console/callback?{query}", allow_redirects=False) as response:
        assert (response.status, idp.authorize_queries) == (403, [])


async def test_a_malformed_sign_in_cookie_is_refused(running: RunningGateway, idp: IdentityProvider) -> None:
    for moment in ("²", "x", ""):
        cookie = {"Cookie": f"gw-console-begun={'a' * 43}.{moment}"}
        async with running.http.get(f"{running.url}/console/callback?state=x&code=y", headers=cookie) as response:
            assert (response.status, "not started in this browser" in await response.text()) == (403, True)


async def test_a_response_of_another_issuer_is_refused(
    running: RunningGateway, idp: IdentityProvider, browser: aiohttp.ClientSession
) -> None:
    callback_url = await callback(browser, running)
    async with browser.get(
        f"{callback_url.partition('&iss=')[0]}&iss=https://evil.example", allow_redirects=False
    ) as response:
        assert response.status == 403


async def test_identity_provider_whose_metadata_names_another_issuer_is_not_used(
    running: RunningGateway, idp: IdentityProvider, browser: aiohttp.ClientSession
) -> None:
    idp.issuer = "https://evil.example"
    status, page = await sign_in(browser, running)
    assert (status, "has the issuer https://evil.example" in page) == (503, True)


@pytest.mark.parametrize(
    ("metadata_changes", "key_set", "cause"),
    [
        ({"jwks_uri": None}, None, "has no URL in 'jwks_uri'"),
        ({}, {}, "has no 'keys'"),
        ({}, {"keys": []}, "has no usable key for signatures"),
        ({}, [], "is not of the form that OpenID Connect Discovery defines"),
    ],
)
async def test_invalid_metadata_is_refused_with_the_cause(
    running: RunningGateway,
    idp: IdentityProvider,
    browser: aiohttp.ClientSession,
    metadata_changes: dict[str, Any],
    key_set: Any,
    cause: str,
) -> None:
    idp.metadata_changes, idp.key_set = metadata_changes, key_set
    status, page = await sign_in(browser, running)
    assert (status, cause in unescape(page)) == (503, True)


def test_an_unsupported_key_of_the_provider_is_ignored() -> None:
    unsupported = {"kty": "EC", "crv": "brainpoolP256r1", "x": "AA", "y": "AA", "kid": "k0"}
    usable = RSAKey.generate_key(2048, {"kid": "k1"}).as_dict(private=False)
    assert [key.kid for key in signature_keys([unsupported, usable]).keys] == ["k1"]
    for none in ([], [unsupported], [{**usable, "use": "enc"}]):
        with pytest.raises(ValueError, match="no usable key"):
            signature_keys(none)


async def test_new_signing_key_of_the_identity_provider_is_fetched(
    running: RunningGateway, idp: IdentityProvider, browser: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import timedelta

    from gateway.console import oidc

    assert (await sign_in(browser, running))[0] == 200
    idp.key = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})
    monkeypatch.setattr(oidc, "RELOAD_AFTER", timedelta(0))
    browser.cookie_jar.clear()
    assert (await sign_in(browser, running))[0] == 200


async def test_gateway_yaml_sets_the_groups_claim_and_the_length_of_a_session(
    running: RunningGateway, browser: aiohttp.ClientSession
) -> None:
    async with identity_provider() as provider:
        provider.groups = ["platform"]
        provider.change = lambda claims: claims.update(roles=["support"])
        console = {"enabled": True, "session_hours": 2, "operators": ["platform"], "viewers": ["support"]}
        oidc = {"issuer": provider.url, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
        running.document["console"] = {**console, "oidc": {**oidc, "scopes": ["openid", "x"], "groups_claim": "roles"}}
        await running.restart()
        async with browser.get(await callback(browser, running), allow_redirects=False) as response:
            assert "Max-Age=7200" in "".join(response.headers.getall("Set-Cookie"))
        async with browser.get(f"{running.url}/console/dev") as response:
            assert (response.status, "(viewer)" in await response.text()) == (200, True)
        (query,) = provider.authorize_queries
        assert query["scope"] == "openid x"


async def test_without_an_identity_provider_its_sign_in_pages_do_not_exist(running: RunningGateway) -> None:
    running.configure(console=ConsoleConfig(True, 12))
    for path in ("sign-in/oidc", "callback?code=x&state=x"):
        async with running.http.get(f"{running.url}/console/{path}") as response:
            assert response.status == 404


# ── Identity headers.


def trust_proxy(running: RunningGateway, network: str) -> None:
    trusted = (AllowedNetwork(ip_network(network), None),)
    running.configure(
        console=ConsoleConfig(
            True, 12, ("platform",), ("support",), identity_headers=IdentityHeadersConfig(trusted_proxies=trusted)
        )
    )


def identity_headers(groups: str, user: str = "ada") -> dict[str, str]:
    return {"X-Forwarded-User": user, "X-Forwarded-Groups": groups}


async def test_identity_header_of_a_trusted_proxy_is_used(
    running: RunningGateway, browser: aiohttp.ClientSession
) -> None:
    trust_proxy(running, "127.0.0.0/8")
    minted = (await running.json("POST", "/environment/api-keys", json={"display_name": "k"}, expect=200))["data"]
    async with browser.get(
        f"{running.url}/console/dev/key?id={minted['id']}", headers=identity_headers("a, platform")
    ) as response:
        page = await response.text()
        assert (response.status, "ada" in page) == (200, True)
    fields = {"form": csrf_token(page), "id": str(minted["id"])}
    async with browser.post(
        f"{running.url}/console{REVOKE}", data=fields, headers=identity_headers("support")
    ) as response:
        assert response.status == 403
    # the cookie alone is not a session
    async with browser.post(f"{running.url}/console{REVOKE}", data=fields) as response:
        assert response.status == 401
    other = {**fields, "form": "0" * 64}
    async with browser.post(
        f"{running.url}/console{REVOKE}", data=other, headers=identity_headers("platform")
    ) as response:
        assert response.status == 403
    async with browser.post(
        f"{running.url}/console{REVOKE}", data=fields, headers=identity_headers("platform")
    ) as response:
        assert (response.status, "1 revoked" in await response.text()) == (200, True)
    await running.runtime.audit_keeper.run_once()
    found = await running.runtime.store.audit.find(AuditFilter(action="operator.signed_in"))
    details = [item.as_json()["detail"] for item in reversed(found)]
    assert details == [{"role": role, "by": "identity_headers"} for role in ("operator", "viewer")]


async def test_gateway_yaml_names_the_identity_headers(running: RunningGateway) -> None:
    """The usual headers then count for nothing: a proxy that sets other headers may pass on those of a browser."""
    named = {"trusted_proxies": ["127.0.0.1"], "user": "x-auth-name", "groups": "x-auth-teams"}
    running.document["console"] = {"enabled": True, "operators": ["platform"], "identity_headers": named}
    await running.restart()
    ours = {"X-Auth-Name": "ada", "X-Auth-Teams": "platform"}
    for headers, status in (
        (ours, 200),
        (identity_headers("platform"), 401),
        ({"X-Auth-Name": "ada", "X-Forwarded-Groups": "platform"}, 403),
    ):
        async with running.http.get(f"{running.url}/console/dev", headers=headers) as response:
            assert response.status == status


async def test_person_named_by_a_proxy_is_audited_once_per_session_length(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cookies of the requests do not matter: a polled page without cookies, and a page with a made-up cookie."""

    async def assert_role(name: str, group: str, **extra: str) -> None:
        headers = {**identity_headers(group, name), **extra}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{running.url}/console/dev", headers=headers) as response,
        ):
            assert response.status == 200

    trust_proxy(running, "127.0.0.0/8")
    await assert_role("eve", "platform", Cookie="gw-console=made-up")
    await asyncio.gather(*(assert_role("ada", "platform") for _ in range(20)))
    await assert_role("ada", "support")
    now = clock.now()
    monkeypatch.setattr("gateway.clock.now", lambda: now + timedelta(hours=12, seconds=1))
    await assert_role("ada", "platform")
    await running.runtime.audit_keeper.run_once()
    found = await running.runtime.store.audit.find(AuditFilter(action="operator.signed_in"))
    names = sorted((item.as_json()["actor"]["name"], item.as_json()["detail"]["role"]) for item in found)
    assert names == [("ada", "operator"), ("ada", "operator"), ("ada", "viewer"), ("eve", "operator")]
    assert await running.runtime.store.console_sessions.end_all() == 0


@pytest.mark.parametrize(
    "extra", [{}, {"X-Forwarded-For": "10.9.9.9"}, {"X-Real-IP": "10.9.9.9"}, {"Forwarded": "for=10.9.9.9"}]
)
async def test_identity_header_from_another_address_is_ignored(running: RunningGateway, extra: dict[str, str]) -> None:
    trust_proxy(running, "10.9.9.9/32")
    async with running.http.get(
        f"{running.url}/console/dev", headers={**identity_headers("platform"), **extra}
    ) as response:
        assert response.status == 401


async def test_identity_header_is_ignored_without_trusted_proxies(running: RunningGateway) -> None:
    running.configure(console=ConsoleConfig(True, 12, ("platform",)))
    async with running.http.get(f"{running.url}/console/dev", headers=identity_headers("platform")) as response:
        assert response.status == 401


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Forwarded-User", "ada")],
        [("X-Forwarded-User", "ada"), ("X-Forwarded-Groups", "nobody")],
        [("X-Forwarded-User", "ada"), ("X-Forwarded-Groups", "a, \u00a0platform")],
        [("X-Forwarded-User", "ada"), ("X-Forwarded-User", "eve"), ("X-Forwarded-Groups", "platform")],
        [("X-Forwarded-User", "ada"), ("X-Forwarded-Groups", "a"), ("X-Forwarded-Groups", "platform")],
    ],
    ids=["no group", "another group", "a group with a no-break space", "two users", "two lists of groups"],
)
async def test_incomplete_headers_of_a_trusted_proxy_are_refused(
    running: RunningGateway, headers: list[tuple[str, str]]
) -> None:
    trust_proxy(running, "127.0.0.1/32")
    async with running.http.get(f"{running.url}/console/dev", headers=headers) as response:
        assert response.status == 403
