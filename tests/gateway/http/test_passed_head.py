"""Header fields that are added to a provider's response for browsers and caches."""

import pytest

from gateway.http.headers import Fields
from gateway.http.passed_head import NOT_RENDERED, with_protection_fields

OURS = "Authorization, Connection-Id, Provider-Config-Key, Base-Url-Override"


@pytest.mark.parametrize(
    ("theirs", "vary"),
    [
        ([], OURS),
        ([("Vary", "Accept-Encoding")], f"Accept-Encoding, {OURS}"),
        ([("vary", "Accept-Encoding,Origin"), ("Vary", "X-Tenant")], f"Accept-Encoding, Origin, X-Tenant, {OURS}"),
        ([("Vary", "authorization")], "authorization, Connection-Id, Provider-Config-Key, Base-Url-Override"),
        ([("Vary", "Origin, *")], "*"),
        ([("Vary", " ,, ")], OURS),
    ],
)
def test_response_varies_by_the_headers_that_choose_the_credential(theirs: Fields, vary: str) -> None:
    fields = with_protection_fields([("X-A", "1"), *theirs], connection_in_headers=True)
    assert fields == [("X-A", "1"), *NOT_RENDERED, ("Vary", vary)]


def test_capability_response_keeps_the_providers_vary() -> None:
    theirs: Fields = [("Vary", "Accept-Encoding"), ("X-A", "1"), ("Vary", "Origin")]
    fields = with_protection_fields(theirs, connection_in_headers=False)
    assert fields == [("X-A", "1"), ("Vary", "Accept-Encoding"), ("Vary", "Origin"), *NOT_RENDERED]


def test_policies_of_the_provider_and_the_gateway_are_both_sent() -> None:
    """A browser applies both policies; the gateway's alone blocks scripts."""
    fields = with_protection_fields(
        [("Content-Security-Policy", "sandbox allow-scripts allow-same-origin")], connection_in_headers=False
    )
    assert [value for name, value in fields if name == "Content-Security-Policy"] == [
        "sandbox allow-scripts allow-same-origin",
        "sandbox",
    ]
