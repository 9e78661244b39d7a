"""Signatures: one key string works with the published Standard Webhooks library and with a plain HMAC."""

import hashlib
import hmac
import json
import time

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from gateway.config.values import signing_key
from gateway.events.signatures import new_signing_key, signature_fields, standard_form, standard_key
from gateway.secret import Secret

BODY = json.dumps({"a": "snöw", "type": "auth"}, ensure_ascii=False).encode()


def fields(*keys: Secret) -> dict[str, str]:
    return signature_fields(BODY, "msg_1", int(time.time()), keys)


@pytest.mark.parametrize("key", [new_signing_key(), Secret("any-key-that-was-brought-along")])
def test_library_and_plain_hmac_accept_the_shown_key(key: Secret) -> None:
    result = fields(key)
    assert Webhook(standard_form(key).reveal()).verify(BODY, result) == json.loads(BODY)
    shown = key.reveal().encode()
    assert result["X-Nango-Hmac-Sha256"] == hmac.new(shown, BODY, hashlib.sha256).hexdigest()
    assert result["X-Nango-Signature"] == hashlib.sha256(shown + BODY).hexdigest()


def test_generated_key_is_in_standard_form_and_has_256_bits() -> None:
    key = new_signing_key()
    assert standard_form(key) == key
    assert len(standard_key(key)) == 32
    assert new_signing_key() != key


def test_both_keys_verify_during_an_overlap_and_no_other() -> None:
    new, former, other = new_signing_key(), new_signing_key(), new_signing_key()
    result = fields(new, former)
    assert result["webhook-signature"].count("v1,") == 2
    for key in (new, former):
        Webhook(key.reveal()).verify(BODY, result)
    with pytest.raises(WebhookVerificationError):
        Webhook(other.reveal()).verify(BODY, result)
    with pytest.raises(WebhookVerificationError):
        Webhook(new.reveal()).verify(BODY + b" ", result)


@pytest.mark.parametrize("text", ["whsec_no base64 at all", "whsec_%%%%%%%%%%%%", "short"])
def test_key_that_libraries_refuse_is_a_configuration_fault(text: str) -> None:
    with pytest.raises(ValueError, match=r"whsec_|16 or more"):
        signing_key(text)
