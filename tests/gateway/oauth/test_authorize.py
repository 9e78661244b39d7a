from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway.oauth import authorize
from gateway.oauth.authorize import authorization_url, issuer_accepted, without_protocol_params
from tests.fakes.providers import provider


def authorization_query(entry_url: str = "https://auth.example.com/authorize", **changes: object) -> dict[str, str]:
    fields = {
        "client_id": "client",
        "redirect_uri": "https://gw.example.com/oauth/callback",
        "scopes": ["read", "offline_access"],
        "state": "the-state",
        "code_challenge": "challenge",
        "params": {"audience": "api"},
    } | changes
    entry = fields.pop("provider", provider())
    url = authorization_url(entry, entry_url, **fields)  # type: ignore[arg-type]
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def test_the_request_has_all_that_rfc_6749_requires() -> None:
    assert authorization_query() == {
        "response_type": "code",
        "client_id": "client",
        "redirect_uri": "https://gw.example.com/oauth/callback",
        "scope": "read offline_access",
        "state": "the-state",
        "code_challenge": "challenge",
        "code_challenge_method": "S256",
        "audience": "api",
    }


def test_scopes_are_joined_as_the_provider_wants_them() -> None:
    assert authorization_query(provider=provider(scope_separator=","))["scope"] == "read,offline_access"


def test_only_a_plus_between_scopes_is_unencoded_in_the_url() -> None:
    url = authorization_url(
        provider(scope_separator="+", authorization_param_renames={"scope": "perms"}),
        "https://a.example/x", client_id="c", redirect_uri="r", scopes=["a+b", "c"], state="s",
        code_challenge=None, params={"hint": "x y"},
    )  # fmt: skip
    assert url.endswith("&perms=a%2Bb+c")
    assert "hint=x%20y&" in url


def test_without_scopes_the_parameter_is_left_out() -> None:
    assert "scope" not in authorization_query(scopes=[])


def test_a_provider_that_breaks_on_pkce_gets_no_challenge() -> None:
    assert not {"code_challenge", "code_challenge_method"} & authorization_query(code_challenge=None).keys()


@pytest.mark.parametrize("name", ["state", "redirect_uri", "client_id", "response_type", "code_challenge_method"])
def test_a_parameter_of_the_caller_never_replaces_one_of_the_protocol(name: str) -> None:
    assert authorization_query(params={name: "evil"})[name] != "evil"


def test_a_browser_cannot_add_a_protocol_parameter_under_the_providers_name() -> None:
    renames = {"scope": "perms", "response_type": ""}
    params = {"perms": "manage", "SCOPE": "all", "hint": "x"}
    assert without_protocol_params(params, renames) == {"hint": "x"}


def test_a_query_and_a_fragment_of_the_consent_url_are_kept() -> None:
    url = authorization_url(
        provider(), "https://a.example/x?tenant=1#/go", client_id="c", redirect_uri="r", scopes=[], state="s",
        code_challenge=None, params={},
    )  # fmt: skip
    parts = urlsplit(url)
    assert dict(parse_qsl(parts.query))["tenant"] == "1"
    assert parts.fragment == "/go"


def test_spaces_are_sent_as_percent_20_which_every_provider_reads() -> None:
    url = authorization_url(
        provider(), "https://a.example/x", client_id="c", redirect_uri="r", scopes=["a", "b"], state="s",
        code_challenge=None, params={},
    )  # fmt: skip
    assert "scope=a%20b" in url


def test_the_pkce_pair_is_that_of_rfc_7636_appendix_b() -> None:
    assert authorize.challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == (
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )
    assert len(authorize.new_verifier()) == 43
    assert authorize.new_verifier() != authorize.new_verifier()


CONSENT_URL = "https://auth.example.com/authorize"


@pytest.mark.parametrize(
    ("issuer", "iss", "accepted"),
    [
        (None, None, True),
        (None, "https://auth.example.com", True),
        (None, "https://auth.example.com:443/tenant", True),
        (None, "https://evil.example.com", False),
        (None, "http://auth.example.com", False),
        (None, "https://auth.example.com.evil.test", False),
        (None, "", False),
        (None, "http://[", False),
        ("https://id.example.com", "https://id.example.com", True),
        ("https://id.example.com", "https://id.example.com/", False),
        ("https://id.example.com", None, False),
    ],
)
def test_the_issuer_must_be_the_one_the_flow_was_sent_to(issuer: str | None, iss: str | None, accepted: bool) -> None:
    assert issuer_accepted(provider(issuer=issuer), CONSENT_URL, iss) is accepted
