"""The request for public keys, and which parts of the response are keys; see also
tests/journeys/test_signed_webhooks.py."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.catalog.provider_parts import WebhookKeys
from gateway.events.webhook_keys import KeyRequest, key_request, keys_in
from gateway.scripts.script_context import IncomingWebhook, SignatureRefused
from gateway.secret import Secret

BY_ID = WebhookKeys(url="https://${region}.example.com/keys/${kid}")


def request(where: WebhookKeys, secret: str = "eu:s", kid: str = "k1", **headers: str) -> KeyRequest:
    message = IncomingWebhook("POST", "https://gw.example.com/x", headers, b"{}", datetime.now(UTC))
    return key_request(where, message, kid, ["region", "secret"], Secret(secret))


def test_placeholders_are_filled_in_the_url_and_in_the_body() -> None:
    assert request(BY_ID) == KeyRequest("GET", "https://eu.example.com/keys/k1", None)
    posted = request(
        BY_ID.model_copy(update={"method": "POST", "body": {"id": "${kid}", "key": "x-${secret}"}}), 'eu:a"b'
    )
    assert json.loads(posted.body or b"") == {"id": "k1", "key": 'x-a"b'}


@pytest.mark.parametrize(
    ("secret", "kid"),
    [
        ("eu.evil.example:s", "k"),
        ("eu/x:s", "k"),
        ("@:s", "k"),
        (":s", "k"),
        ("eu", "k"),
        ("eu:s", "a/b"),
        ("eu:s", ""),
        ("eu:s", ".."),
    ],
)
def test_filled_in_values_cannot_change_the_host_or_path_of_a_url(secret: str, kid: str) -> None:
    with pytest.raises(SignatureRefused):
        request(BY_ID, secret, kid)


def test_only_identical_key_requests_are_shared() -> None:
    first = KeyRequest("POST", "https://a.example/", b"1")
    assert first.digest == KeyRequest("POST", "https://a.example/", b"1").digest
    assert (
        len({first.digest, KeyRequest("GET", first.url, b"1").digest, KeyRequest("POST", first.url, b"2").digest}) == 3
    )


@pytest.mark.parametrize(
    ("response", "kids"),
    [
        ({"keys": [{"kid": "a", "kty": "RSA"}, {"kid": "b", "use": "enc"}, {"kty": "RSA"}, 7]}, {"a"}),
        ({"key": {"kid": "a", "expired_at": None}}, {"a"}),
        ({"key": {"kid": "a", "expired_at": 17}}, set()),
        ({"keys": {}}, set()),
        ([1], set()),
        (None, set()),
    ],
)
def test_usable_keys_are_found_by_their_id(response: Any, kids: set[str]) -> None:
    assert set(keys_in(json.dumps(response).encode())) == kids


def test_a_certificate_is_read_as_a_key_without_an_id() -> None:
    text = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"
    assert keys_in(text.encode() + b"\n") == {"": text}
    assert keys_in(b"\xff") == {}
