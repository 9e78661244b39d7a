"""CUSTOM checks with the end user's token that this end user can access the installation that the browser names."""

from datetime import UTC, datetime
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from gateway.auth.context import AuthContext
from gateway.auth.custom import Custom
from gateway.auth.mode import Dialogue, Granted
from gateway.errors import InvalidRequest, UpstreamFailed
from gateway.oauth.token_responses import TokenUnavailable
from gateway.records.integration import Integration
from gateway.records.provider_call import ProviderCall, Reply
from gateway.secret import Secret
from tests.fakes.providers import provider

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PEM = RSAKey.generate_key(2048).as_pem(private=True).decode()
NUMBER = "${connectionConfig.installation_id}"
ACCESS = f"https://api.example.com/user/installations/{NUMBER}/repositories?per_page=1"
QUERY = {"code": "c", "state": "s", "installation_id": "42"}


def start_check(entry: dict[str, Any], **extra: Any) -> tuple[Dialogue[Granted], ProviderCall]:
    """Return the dialogue of a callback, and its request after the end user's code was exchanged."""
    found = provider(
        auth_mode="CUSTOM",
        installation_token_url=f"https://api.example.com/app/installations/{NUMBER}/access_tokens",
        connection_config={"installation_id": {"automated": True}, "site": {"format": "hostname"}},
        **entry,
    )
    secrets = {"client_secret": Secret("the secret"), "private_key": Secret(PEM)}
    integration = Integration(
        environment="dev", integration_id="t", provider="tracker", client_id="c", app_id="7", **secrets, **extra
    )
    context = AuthContext(found, integration, {"site": "chosen.example.org"}, public_url="https://gw.example.com")
    kept = {"address": found.authorization_url, "token_url": found.token_url, "code_verifier": "v", "nonce": None}
    dialogue = Custom().finish_consent(context, kept, QUERY)
    next(dialogue)
    return dialogue, dialogue.send(reply(200, b'{"access_token": "ghu_1", "expires_in": 60}'))


def reply(status: int, body: bytes = b"{}") -> Reply:
    return Reply(status, {}, body, NOW)


def test_the_installation_is_checked_by_one_request_with_the_end_users_token() -> None:
    headers = {"authorization": "Basic ${clientId}", "X-Api-Version": "1"}
    dialogue, call = start_check({"installation_access_url": ACCESS, "token_headers": headers})
    assert (call.method, call.body) == ("GET", None)
    assert call.url == "https://api.example.com/user/installations/42/repositories?per_page=1"
    assert call.headers == {"accept": "application/json", "x-api-version": "1", "authorization": "Bearer ghu_1"}
    assert call.secrets == ("ghu_1",)
    token = dialogue.send(reply(200, b"[]"))
    assert (token.method, token.url) == ("POST", "https://api.example.com/app/installations/42/access_tokens")
    assert "ghu_1" not in str(token.headers)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refused_check_refuses_the_connection(status: int) -> None:
    dialogue, _ = start_check({"installation_access_url": ACCESS})
    with pytest.raises(InvalidRequest, match=rf"cannot access installation 42 \({status}: no \*+\)\. ") as refused:
        dialogue.send(reply(status, b'{"message": "no ghu_1"}'))
    assert refused.value.code == "authorization_refused"
    assert "ghu_1" not in refused.value.message


@pytest.mark.parametrize(
    ("status", "body"), [(200, b""), (200, b"<html>sign in</html>"), (200, b"[" * 100_000), (204, b"")]
)
def test_a_2xx_without_json_does_not_confirm_the_installation(status: int, body: bytes) -> None:
    dialogue, _ = start_check({"installation_access_url": ACCESS})
    with pytest.raises(UpstreamFailed, match=rf"can access installation 42: the check returned {status}\. "):
        dialogue.send(reply(status, body))


@pytest.mark.parametrize("status", [302, 429, 500, 503])
def test_a_check_without_a_response_is_a_temporary_failure(status: int) -> None:
    dialogue, _ = start_check({"installation_access_url": ACCESS})
    with pytest.raises(UpstreamFailed, match=rf"can access installation 42: the check returned {status}\. ") as failed:
        dialogue.send(Reply(status, {"Retry-After": "7"}, b"{}", NOW))
    assert (failed.value.code, failed.value.retry_after_s) == ("upstream_unreachable", 7)


def test_a_check_that_cannot_be_sent_is_a_temporary_failure() -> None:
    dialogue, _ = start_check({"installation_access_url": ACCESS})
    with pytest.raises(UpstreamFailed, match="can access installation 42: the provider could not be reached") as failed:
        dialogue.throw(TokenUnavailable("no route"))
    assert isinstance(failed.value.__cause__, TokenUnavailable)  # which is logged


OPEN = ACCESS.replace("api.example.com", "${connectionConfig.site}")


def test_the_end_users_token_is_not_sent_to_a_host_that_the_end_user_chose() -> None:
    with pytest.raises(InvalidRequest, match=r"was not checked at chosen\.example\.org") as refused:
        start_check({"installation_access_url": OPEN})
    assert refused.value.code == "unresolved_setting"


def test_the_operator_may_allow_the_host() -> None:
    _, call = start_check({"installation_access_url": OPEN}, allowed_hosts=("chosen.example.org",))
    assert call.url.startswith("https://chosen.example.org/user/installations/42/")


def test_without_installation_access_url_no_installation_is_checked() -> None:
    _, call = start_check({})
    assert call.url == "https://api.example.com/app/installations/42/access_tokens"
