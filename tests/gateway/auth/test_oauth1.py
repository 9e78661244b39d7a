"""OAuth 1 signatures against the examples of RFC 5849 and of a provider's documentation."""

import base64
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from gateway.auth.oauth1 import (
    MAX_PARAMETERS,
    OAuth1Keys,
    OAuth1Signer,
    authorization,
    base_string,
    oauth_signature,
    read_credentials,
)
from gateway.errors import BodyTooLarge, InvalidRequest
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.records.provider_call import Reply
from gateway.records.proxied_call import UpstreamRequest
from gateway.secret import Secret

PRINTER = {"oauth_consumer_key": "dpf43f3p2l4k3l03", "oauth_signature_method": "HMAC-SHA1"}


def keys(token: str, token_secret: str, **extra: Any) -> OAuth1Keys:
    return OAuth1Keys("dpf43f3p2l4k3l03", Secret("kd94hf93k423kf44"), token, Secret(token_secret), **extra)


def test_signature_matches_the_photo_request_of_rfc_5849_1_2() -> None:
    protocol = {**PRINTER, "oauth_token": "nnch734d00sl2jdk", "oauth_timestamp": "137131202", "oauth_nonce": "chapoH"}
    url = "http://photos.example.net/photos?file=vacation.jpg&size=original"
    signature = oauth_signature(keys("nnch734d00sl2jdk", "pfkkdhi9sl3r4s00"), "GET", url, "", protocol)
    assert signature == "MdpQcU8iPSUjWoN/UDMsK2sui9I="


def test_signature_matches_the_token_request_of_rfc_5849_1_2() -> None:
    protocol = {**PRINTER, "oauth_token": "hh5s93j4hdidpola", "oauth_timestamp": "137131201", "oauth_nonce": "walatlh"}
    protocol["oauth_verifier"] = "hfdp7dh39dks9884"
    url = "https://photos.example.net/token"
    signature = oauth_signature(keys("hh5s93j4hdidpola", "hdhd0244k9j7ao03"), "POST", url, "", protocol)
    assert signature == "gKgrFCywp7rO0OXSjdot/IHF7IU="


def test_base_string_matches_rfc_5849_3_4_1_1() -> None:
    parameters = [
        ("b5", "=%3D"), ("a3", "a"), ("c@", ""), ("a2", "r b"), ("c2", ""), ("a3", "2 q"),
        ("oauth_consumer_key", "9djdj82h48djs9d2"), ("oauth_token", "kkk9d7dh3k39sjv7"),
        ("oauth_signature_method", "HMAC-SHA1"), ("oauth_timestamp", "137131201"), ("oauth_nonce", "7d8f3e4a"),
    ]  # fmt: skip
    assert base_string("POST", "http://EXAMPLE.COM:80/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b", parameters) == (
        "POST&http%3A%2F%2Fexample.com%2Frequest&a2%3Dr%2520b%26a3%3D2%2520q%26a3%3Da%26b5%3D%253D%25253D%26c%2540%3D%26"
        "c2%3D%26oauth_consumer_key%3D9djdj82h48djs9d2%26oauth_nonce%3D7d8f3e4a%26oauth_signature_method%3DHMAC-SHA1%26"
        "oauth_timestamp%3D137131201%26oauth_token%3Dkkk9d7dh3k39sjv7"
    )


def test_signature_matches_the_documented_example_with_a_form_and_a_query() -> None:
    """The example "Creating a signature" of Twitter's former documentation."""
    theirs = OAuth1Keys(
        "xvz1evFS4wEEPTGEFPHBog",
        Secret("kAcSOqF21Fu85e7zjz7ZN2U4ZRhfV3WpwPAoE3Z7kBw"),
        "370773112-GmHxMAgYyLbNEtIKZeRNFsMKPR9EyMZeS9weJAEb",
        Secret("LswwdoUaIvS8ltyTt5jkRh4J50vUPVVHtR2YPi5kE"),
    )
    header = authorization(
        theirs,
        "POST",
        "https://api.twitter.com/1.1/statuses/update.json?include_entities=true",
        "status=Hello%20Ladies%20%2b%20Gentlemen%2c%20a%20signed%20OAuth%20request%21",
        nonce="kYjzVBB8Y0ZFabxSWbWovY3uYSQ2pTgmZeNu2VS4cg",
        timestamp=1318622958,
    )
    assert 'oauth_signature="hCtSmYh%2BiHYCEqBWrE7C7hYmtUk%3D"' in header


def sign(signer: OAuth1Signer, target: str = "/x", body: bytes | None = b"", **headers: str) -> UpstreamRequest:
    request = UpstreamRequest("POST", "https", "api.example.com", 443, target)
    request.headers.update(headers)
    signer.sign(request, body)
    return request


def test_every_attempt_has_a_new_nonce() -> None:
    signer = OAuth1Signer(keys("t", "s"))
    request = sign(signer)
    first = request.headers.getall("Authorization")
    signer.sign(request, b"")
    assert len(request.headers.getall("Authorization")) == 1
    assert request.headers["Authorization"] != first[0]


def test_plaintext_sends_both_secrets_and_nothing_of_the_request() -> None:
    header = sign(OAuth1Signer(keys("t", "s&", method="PLAINTEXT"))).headers["Authorization"]
    assert 'oauth_signature="kd94hf93k423kf44%26s%2526"' in header


def test_rsa_signs_with_the_apps_key() -> None:
    key = rsa.generate_private_key(65537, 2048)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    theirs = OAuth1Keys("c", Secret(text), "t", Secret("s"), "RSA-SHA1")
    protocol = {"oauth_consumer_key": "c"}
    made = oauth_signature(theirs, "GET", "https://a.example/x", "", protocol)
    message = base_string("GET", "https://a.example/x", list(protocol.items())).encode()
    key.public_key().verify(base64.b64decode(made), message, padding.PKCS1v15(), hashes.SHA1())
    with pytest.raises(InvalidRequest, match="not an RSA key"):
        oauth_signature(OAuth1Keys("c", Secret("nonsense"), method="RSA-SHA1"), "GET", "https://a.example/", "", {})


@pytest.mark.parametrize("target", ["/a?x=[1]|", "/a?q=caf%C3%A9&b", "/a?a=1&a=0&=", "/a%2Fb?x=+", "/?%zz"])
def test_every_query_that_can_be_proxied_can_be_signed(target: str) -> None:
    header = sign(OAuth1Signer(keys("t", "s")), target).headers["Authorization"]
    found = re.search(r'oauth_signature="([^"]+)"', header)
    assert found is not None
    assert len(base64.b64decode(unquote(found[1]))) == 20


def test_form_is_signed_and_other_bodies_are_not_read() -> None:
    signer = OAuth1Signer(keys("t", "s"))
    form = UpstreamRequest("POST", "https", "h", 443, "/")
    form.headers["Content-Type"] = "application/x-www-form-urlencoded; charset=utf-8"
    assert signer.wants_body(form)
    form.headers["Content-Type"] = "application/json"
    assert not signer.wants_body(form)


def test_a_form_of_too_many_parameters_is_refused_before_it_is_sorted() -> None:
    signer = OAuth1Signer(keys("t", "s"))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    sign(signer, body=b"&".join([b"a=b"] * MAX_PARAMETERS), **form)
    with pytest.raises(BodyTooLarge, match="more than 10000"):
        sign(signer, body=b"&".join([b"a=b"] * (MAX_PARAMETERS + 1)), **form)


@pytest.mark.parametrize(
    ("status", "fault"),
    [(302, TokenUnavailable), (425, TokenUnavailable), (503, TokenUnavailable), (401, TokenRefused)],
)
def test_only_a_4xx_of_a_token_endpoint_refuses_the_credential(status: int, fault: type[Exception]) -> None:
    with pytest.raises(fault, match=f"returned {status}"):
        read_credentials(Reply(status, {}, b"", datetime(2026, 1, 1, tzinfo=UTC)))
