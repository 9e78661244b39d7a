"""Which requests of an OAuth 2.0 authorization carry the integration's secret."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.auth.context import AuthContext
from gateway.auth.oauth2 import OAuth2
from gateway.records.integration import Integration
from gateway.records.provider_call import ProviderCall, Reply
from gateway.secret import Secret
from tests.fakes.providers import provider

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
STEP = {"params": {"client_secret": "${clientSecret}", "token": "${step1.access_token}"}}


def second_request(step_url: str) -> ProviderCall:
    """Return the request of the entry's second step, after the code was exchanged."""
    entry = provider(additional_steps=[{"url": step_url, **STEP}], connection_config={"site": {"format": "hostname"}})
    integration = Integration(
        environment="dev", integration_id="t", provider="tracker", client_id="c", client_secret=Secret("the secret")
    )
    context = AuthContext(entry, integration, {"site": "chosen.example.org"}, public_url="https://gw.example.com")
    kept: dict[str, Any] = {
        "address": "https://auth.example.com/authorize",
        "token_url": "https://auth.example.com/token",
        "code_verifier": "v",
        "nonce": None,
    }
    dialogue = OAuth2().finish_consent(context, kept, {"code": "c", "state": "s"})
    first = next(dialogue)
    assert first.body is not None
    assert b"client_secret=the+secret" in first.body
    return dialogue.send(Reply(200, {}, b'{"access_token": "a", "expires_in": 60}', NOW))


@pytest.mark.parametrize(
    ("step_url", "has_secret"),
    [("https://auth.example.com/long-lived", True), ("https://${connectionConfig.site}/long-lived", False)],
)
def test_a_later_step_gets_the_secret_only_at_a_host_that_the_entry_names(step_url: str, has_secret: bool) -> None:
    request = second_request(step_url)
    assert request.body is not None
    assert b"token=a" in request.body
    assert (b"the+secret" in request.body) is has_secret
