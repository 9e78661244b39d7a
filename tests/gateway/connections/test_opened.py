"""The place of a credential: the entry's slots, its defaults, and cases that must be refused instead of sent
half-filled."""

from typing import Any

import pytest

from gateway.auth import modes
from gateway.auth.context import AuthContext
from gateway.connections.opened import base_url, placement
from gateway.errors import InvalidRequest
from gateway.records.integration import Integration
from tests.fakes.providers import provider

INTEGRATION = Integration(environment="dev", integration_id="i", provider="tracker", client_id="client")
TOKEN = {"type": "OAUTH2", "access_token": "tok"}
KEY = {"type": "API_KEY", "apiKey": "k&y"}


def placement_of(credential: dict[str, Any], config: dict[str, Any] | None = None, **proxy: Any) -> Any:
    settings = proxy.pop("settings", {})
    entry = provider(
        auth_mode=credential["type"], connection_config=settings, proxy={"base_url": "https://api.example.com", **proxy}
    )
    return placement(
        modes()[credential["type"]], credential, AuthContext(entry, INTEGRATION, config or {}, {"team": 7})
    )


def test_oauth_sends_a_bearer_token_unless_the_entry_has_headers() -> None:
    assert placement_of(TOKEN).slots == (("authorization", "Bearer tok"),)
    assert placement_of(TOKEN, headers={"X-Token": "${accessToken}"}).slots == (("x-token", "tok"),)


def test_headers_without_the_credential_are_defaults() -> None:
    placed = placement_of(TOKEN, headers={"Accept": "application/json", "Authorization": "token ${access_token}"})
    assert placed.slots == (("authorization", "token tok"),)
    assert placed.defaults == (("accept", "application/json"),)


def test_api_key_in_the_query_is_percent_encoded() -> None:
    placed = placement_of(KEY, query={"api key": "${apiKey}", "v": "2"})
    assert placed.query_slots == (("api%20key", "k%26y"),)
    assert placed.query_defaults == (("v", "2"),)
    assert placed.slots == ()


def test_basic_credential_is_encoded_as_in_rfc_7617() -> None:
    credential = {"type": "BASIC", "username": "Aladdin", "password": "open sesame"}
    assert placement_of(credential).slots == (("authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),)


def test_settings_and_metadata_fill_headers_with_their_defaults() -> None:
    settings = {"region": {"title": "Region", "default_value": "eu"}}
    headers = {"x-region": "${connectionConfig.region}", "x-team": "${metadata.team}"}
    assert placement_of(TOKEN, headers=headers, settings=settings).defaults == (("x-region", "eu"), ("x-team", "7"))


def test_a_header_whose_setting_is_missing_is_left_out() -> None:
    assert placement_of(TOKEN, headers={"x-site": "${connectionConfig.site}"}).defaults == ()


def test_header_with_a_secret_setting_is_a_slot() -> None:
    settings = {"pin": {"title": "PIN", "secret": True}}
    placed = placement_of(TOKEN, {"pin": "1234"}, headers={"x-pin": "${connectionConfig.pin}"}, settings=settings)
    assert ("x-pin", "1234") in placed.slots


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "a\x00b"])
def test_credential_that_would_split_a_header_is_refused(token: str) -> None:
    with pytest.raises(InvalidRequest) as fault:
        placement_of({"type": "OAUTH2", "access_token": token})
    assert token not in fault.value.message


def test_printed_placement_shows_no_secret() -> None:
    assert "tok" not in repr(placement_of(TOKEN))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, "subdomain"),
        ({"subdomain": "evil.test/"}, "subdomain"),
        ({"subdomain": "x@evil.test"}, "subdomain"),
        ({"subdomain": "a.b"}, "subdomain"),
        ({"subdomain": "evil.test#"}, "subdomain"),
        ({"subdomain": "127.0.0.1:80\\"}, "subdomain"),
    ],
)
def test_setting_that_is_not_a_host_label_is_refused_in_a_base_url(config: dict[str, str], problem: str) -> None:
    entry = provider(
        connection_config={"subdomain": {"title": "Subdomain"}},
        proxy={"base_url": "https://${connectionConfig.subdomain}.example.com/api/"},
    )
    with pytest.raises(InvalidRequest, match=problem) as fault:
        base_url(entry, config, modes()["OAUTH2"], TOKEN)
    assert fault.value.code == "unresolved_setting"


def test_a_base_url_is_parsed() -> None:
    entry = provider(
        connection_config={"subdomain": {"title": "Subdomain"}},
        proxy={"base_url": "https://${connectionConfig.subdomain}.example.com:8443/api/"},
    )
    base = base_url(entry, {"subdomain": "Acme"}, modes()["OAUTH2"], TOKEN)
    assert (base.scheme, base.host, base.port, base.path) == ("https", "acme.example.com", 8443, "/api")


def test_credential_may_be_in_the_path_of_a_base_url() -> None:
    entry = provider(auth_mode="API_KEY", proxy={"base_url": "https://api.example.com/bot${apiKey}"})
    assert base_url(entry, {}, modes()["API_KEY"], KEY).path == "/botk%26y"


def test_time_and_uuid_are_the_same_within_a_request() -> None:
    placed = placement_of(TOKEN, headers={"x-a": "${random}", "x-b": "${random}"})
    assert len({value for _, value in placed.defaults}) == 1
