"""Header templates can use parts of the request that they are sent with."""

import pytest

from gateway.auth.request_templates import RequestTemplates, canonical_query, request_values
from gateway.catalog.render import carries_credential, needs_request, render_text
from gateway.errors import InvalidRequest
from gateway.records.proxied_call import UpstreamRequest

URL = "https://api.example.com:8443/v1/a%20b?b=2&a=x%20y&a=!*"


def test_request_values_quote_the_request_unchanged() -> None:
    values = request_values("GET", URL, content_type="text/plain")
    assert values["method"] == "GET"
    assert values["host"] == "api.example.com:8443"
    assert values["path"] == "/v1/a%20b"
    assert values["params"] == "b=2&a=x%20y&a=!*"
    assert values["endpoint"] == "/v1/a%20b?b=2&a=x%20y&a=!*"
    assert values["contentType"] == "text/plain"
    assert request_values("GET", "https://a.example.com")["endpoint"] == "/"


def test_canonical_parameters_are_sorted_and_percent_encoded() -> None:
    assert request_values("GET", URL)["urlCanonicalParams"] == "a=%21%2A&a=x%20y&b=2"
    assert canonical_query([("b", "~._-"), ("a", "ü'()")]) == "a=%C3%BC%27%28%29&b=~._-"
    assert request_values("GET", "https://a.example.com/?x=")["urlCanonicalParams"] == "x="


@pytest.mark.parametrize(
    ("kind", "body", "canonical_params"),
    [
        ("application/x-www-form-urlencoded", b"b=1+2&a=%C3%BC", "a=%C3%BC&b=1%202"),
        ("application/json; charset=utf-8", b'{"b": 1, "a": "x", "c": {"d": [1, true]}}', ""),
        ("application/json", b"[1]", ""),
        ("application/json", b"no json", ""),
        ("application/octet-stream", b"a=1", ""),
        ("", b"", ""),
    ],
)
def test_canonical_parameters_of_bodies(kind: str, body: bytes, canonical_params: str) -> None:
    found = request_values("POST", URL, content_type=kind, body=body)["bodyCanonicalParams"]
    if body.startswith(b"{"):
        assert found == "a=x&b=1&c=%7B%22d%22%3A%5B1%2Ctrue%5D%7D"
    else:
        assert found == canonical_params


def test_a_request_with_bytes_that_are_not_utf_8_is_refused() -> None:
    templates = RequestTemplates({"x-proof": "${sha256Hex(${contentType})}"}, {}, {})
    request = UpstreamRequest("POST", "https", "api.example.com", 443, "/x")
    request.headers["content-type"] = b"text/caf\xe9".decode("utf-8", "surrogateescape")
    with pytest.raises(InvalidRequest, match="bytes that are not UTF-8"):
        templates.sign(request, b"")


def test_templates_that_use_the_request_are_recognized() -> None:
    signed = "${hmacSha256Hex(${method}\n${path}, ${credentials.secret})}"
    assert needs_request(signed)
    assert not needs_request("Bearer ${accessToken}")
    assert carries_credential(signed)
    assert not carries_credential("${method} ${host}${path}")
    values = {**request_values("GET", URL), "credentials.secret": "s"}
    assert len(render_text(signed, values)) == 64
