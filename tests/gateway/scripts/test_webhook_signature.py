"""Signatures of providers' webhooks, as the shipped entries describe them: only a valid signature is accepted."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest

from gateway.catalog.load_catalog import Catalog
from gateway.catalog.provider_parts import WebhookSignature
from gateway.integrations.declared import catalog_of
from gateway.scripts.script_context import IncomingWebhook, SignatureRefused
from gateway.scripts.webhook_signature import is_checkable, signing_secrets, verify_signature
from gateway.secret import Secret

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
AT = str(int(NOW.timestamp()))
BODY = b'{"id": "evt_1", "text": "sn\xc3\xb6w"}'
URL = "https://gw.example.com/webhook/dev/x"
KEY = "a-secret-of-the-webhook"
RAW_KEY = base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


@cache
def shipped_signatures() -> Catalog:
    return catalog_of(None)


def signature_of(name: str) -> WebhookSignature:
    entry = shipped_signatures().get(name)
    assert entry is not None
    assert entry.webhook_signature is not None
    return entry.webhook_signature


def mac(message: bytes, algorithm: str = "sha256", key: bytes = KEY.encode()) -> bytes:
    return hmac.new(key, message, algorithm).digest()


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def standard(timestamp: str, body: bytes) -> str:
    return f"v1,{b64(mac(f'msg_1.{timestamp}.'.encode() + body, key=base64.b64decode(RAW_KEY)))}"


# For each provider: the headers for a time and a body, according to the provider's documentation.
Signer = Callable[[str, bytes], dict[str, str]]
SIGNERS: dict[str, Signer] = {
    "github": lambda _, body: {"x-hub-signature-256": f"sha256={mac(body).hex()}"},
    "jira": lambda _, body: {"x-hub-signature": f"sha256={mac(body).hex()}"},
    "shopify": lambda _, body: {"x-shopify-hmac-sha256": b64(mac(body))},
    "stripe": lambda at, body: {"stripe-signature": f"t={at},v1={mac(f'{at}.'.encode() + body).hex()},v0=00"},
    "slack": lambda at, body: {
        "x-slack-request-timestamp": at,
        "x-slack-signature": f"v0={mac(f'v0:{at}:'.encode() + body).hex()}",
    },
    "calendly": lambda at, body: {"calendly-webhook-signature": f"t={at},v1={mac(f'{at}.'.encode() + body).hex()}"},
    "paddle": lambda at, body: {"paddle-signature": f"ts={at};h1={mac(f'{at}:'.encode() + body).hex()}"},
    "buildkite": lambda at, body: {
        "x-buildkite-signature": f"timestamp={at},signature={mac(f'{at}.'.encode() + body).hex()}"
    },
    "circleci": lambda _, body: {"circleci-signature": f"v1={mac(body).hex()},v2=x"},
    "pagerduty": lambda _, body: {"x-pagerduty-signature": f"v1={'0' * 64},v1={mac(body).hex()}"},
    "openai": lambda at, body: {
        "webhook-id": "msg_1",
        "webhook-timestamp": at,
        "webhook-signature": f"v1,AAAA {standard(at, body)}",
    },
    "clerk": lambda at, body: {"svix-id": "msg_1", "svix-timestamp": at, "svix-signature": standard(at, body)},
    "hubspot": lambda at, body: {
        "x-hubspot-request-timestamp": f"{at}000",
        "x-hubspot-signature-v3": b64(mac(f"POST{URL}".encode() + body + f"{at}000".encode())),
    },
    "zendesk": lambda at, body: {
        "x-zendesk-webhook-signature-timestamp": iso_with_z(at),
        "x-zendesk-webhook-signature": b64(mac(iso_with_z(at).encode() + body)),
    },
    "box": lambda at, body: {
        "box-delivery-timestamp": iso_with_z(at),
        "box-signature-primary": b64(mac(body + iso_with_z(at).encode())),
    },
    "twitch": lambda at, body: {
        "twitch-eventsub-message-id": "m1",
        "twitch-eventsub-message-timestamp": iso_with_z(at),
        "twitch-eventsub-message-signature": f"sha256={mac(b'm1' + iso_with_z(at).encode() + body).hex()}",
    },
    "squareup": lambda _, body: {"x-square-hmacsha256-signature": b64(mac(URL.encode() + body))},
    "trello": lambda _, body: {"x-trello-webhook": b64(mac(body + URL.encode(), "sha1"))},
    "airtable": lambda _, body: {
        "x-airtable-content-mac": f"hmac-sha256={mac(body, key=base64.b64decode(RAW_KEY)).hex()}"
    },
    "greenhouse": lambda _, body: {"signature": f"sha256 {mac(body).hex()}"},
    "patreon": lambda _, body: {"x-patreon-signature": mac(body, "md5").hex()},
}
TIMESTAMPED = [
    "stripe",
    "slack",
    "calendly",
    "paddle",
    "buildkite",
    "openai",
    "clerk",
    "hubspot",
    "zendesk",
    "box",
    "twitch",
]


def iso_with_z(timestamp: str) -> str:
    return datetime.fromtimestamp(int(timestamp), tz=UTC).isoformat().replace("+00:00", "Z")


def secret_of(name: str) -> Secret:
    return Secret({"openai": f"whsec_{RAW_KEY}", "clerk": f"whsec_{RAW_KEY}", "airtable": RAW_KEY}.get(name, KEY))


def incoming(headers: dict[str, str], body: bytes = BODY) -> IncomingWebhook:
    return IncomingWebhook("POST", URL, headers, body, NOW)


@pytest.mark.parametrize("name", SIGNERS)
def test_valid_signature_is_accepted_also_during_a_rotation(name: str) -> None:
    message = incoming(SIGNERS[name](AT, BODY))
    assert verify_signature(message, signature_of(name), [secret_of(name)])
    assert verify_signature(message, signature_of(name), [Secret("the-new-secret-of-all"), secret_of(name)])


@pytest.mark.parametrize("name", SIGNERS)
def test_wrong_signature_is_refused(name: str) -> None:
    how, secret = signature_of(name), secret_of(name)
    right = SIGNERS[name](AT, BODY)
    header = how.header.lower()
    wrong: list[IncomingWebhook] = [
        incoming(right, BODY + b" "),
        incoming(right | {header: right[header][:-8] + "AAAAAAA="}),
        incoming(right | {header: "\udcff"}),
        incoming(right | {header: "=,;v1=sha256="}),
        incoming(SIGNERS[name](AT, b"")),
    ]
    for message in wrong:
        with pytest.raises(SignatureRefused):
            verify_signature(message, how, [secret])
    with pytest.raises(SignatureRefused):
        verify_signature(incoming(right), how, [Secret("another-secret-entirely")])
    with pytest.raises(SignatureRefused) as refusal:
        verify_signature(incoming({}), how, [secret])
    assert refusal.value.missing


@pytest.mark.parametrize("name", TIMESTAMPED)
@pytest.mark.parametrize("off_s", [-700, 700])
def test_timestamp_too_old_or_in_the_future_is_refused(name: str, off_s: int) -> None:
    late = replace(incoming(SIGNERS[name](AT, BODY)), received_at=NOW + timedelta(seconds=off_s))
    with pytest.raises(SignatureRefused):
        verify_signature(late, signature_of(name), [secret_of(name)])


@pytest.mark.parametrize("field", ["x-sent-at", "X-Sent", "x-hub-ts"])
def test_timestamp_header_of_the_entry_is_checked(field: str) -> None:
    form = f"v0:{{{field.lower()}}}:{{raw body}}"
    how = WebhookSignature(
        scheme="hmac-sha256", header="x-hub", signed_payload=form, timestamp_header=field, tolerance_s=60
    )

    def signed_webhook_at(timestamp: str) -> IncomingWebhook:
        return incoming({field.lower(): timestamp, "x-hub": mac(f"v0:{timestamp}:".encode() + BODY).hex()})

    assert verify_signature(signed_webhook_at(AT), how, [Secret(KEY)])
    for wrong in (str(int(AT) - 61), str(int(AT) + 61), "nan"):
        with pytest.raises(SignatureRefused):
            verify_signature(signed_webhook_at(wrong), how, [Secret(KEY)])


def test_different_messages_have_different_ids_and_a_repeated_one_the_same() -> None:
    how, secret = signature_of("github"), [secret_of("github")]
    first, again = (verify_signature(incoming(SIGNERS["github"](AT, BODY)), how, secret) for _ in range(2))
    other = verify_signature(incoming(SIGNERS["github"](AT, b"{}"), b"{}"), how, secret)
    assert first == again != other


def test_repeated_body_is_not_a_replay_if_bodies_may_repeat() -> None:
    headers = {"x-dropbox-signature": mac(BODY).hex()}
    assert verify_signature(incoming(headers), signature_of("dropbox"), [Secret(KEY)]) is None


def test_a_signature_by_a_private_key_is_verified_with_its_public_key() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    signed_text = AT.encode() + BODY
    discord = ed25519.Ed25519PrivateKey.generate()
    public = Secret(discord.public_key().public_bytes_raw().hex())
    headers = {"x-signature-timestamp": AT, "x-signature-ed25519": discord.sign(signed_text).hex()}
    assert verify_signature(incoming(headers), signature_of("discord"), [public])
    grid = ec.generate_private_key(ec.SECP256R1())
    spki = grid.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    field = "x-twilio-email-event-webhook"
    signed: dict[str, Any] = {
        f"{field}-timestamp": AT,
        f"{field}-signature": b64(grid.sign(signed_text, ec.ECDSA(SHA256()))),
    }
    assert verify_signature(incoming(signed), signature_of("sendgrid"), [Secret(b64(spki))])
    for how, key, right in (
        (signature_of("discord"), public, headers),
        (signature_of("sendgrid"), Secret(b64(spki)), signed),
    ):
        with pytest.raises(SignatureRefused):
            verify_signature(incoming(right, b"other"), how, [key])
        with pytest.raises(SignatureRefused):
            verify_signature(incoming(right), how, [Secret("no key at all")])


def test_shared_token_must_be_equal() -> None:
    how = signature_of("gitlab")
    assert verify_signature(incoming({"x-gitlab-token": KEY}), how, [Secret("new-one"), Secret(KEY)])
    with pytest.raises(SignatureRefused):
        verify_signature(incoming({"x-gitlab-token": KEY[:-1]}), how, [Secret(KEY)])


def test_form_is_signed_after_the_webhook_url() -> None:
    body = b"To=%2B15550001&From=%2B15550002&Body=hi"
    signed_text = f"{URL}BodyhiFrom+15550002To+15550001".encode()
    headers = {"x-twilio-signature": b64(mac(signed_text, "sha1"))}
    assert verify_signature(incoming(headers, body), signature_of("twilio"), [Secret(KEY)])


def test_some_providers_sign_with_the_client_secret() -> None:
    own, client = [Secret("own-webhook-secret")], Secret("client-secret-of-app")
    assert signing_secrets(signature_of("hubspot"), own, client) == (client,)
    assert signing_secrets(signature_of("github"), own, client) == own
    assert signing_secrets(None, own, client) == own


def test_unknown_scheme_is_never_accepted() -> None:
    unknown = WebhookSignature(scheme="rot13", header="x-signature")
    assert not is_checkable(unknown)
    assert not is_checkable(signature_of("mailgun"))
    with pytest.raises(SignatureRefused):
        verify_signature(incoming({"x-signature": hashlib.sha256(BODY).hexdigest()}), unknown, [Secret(KEY)])


def test_nearly_all_signatures_of_the_catalog_are_supported() -> None:
    entries = [shipped_signatures().get(name) for name in shipped_signatures().providers]
    result = {
        entry.name: entry.webhook_signature
        for entry in entries
        if entry is not None and entry.webhook_signature is not None
    }
    assert {name for name, how in result.items() if not is_checkable(how)} <= {"mailgun"}


def test_number_of_checked_signatures_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    digest = hmac.digest
    monkeypatch.setattr("gateway.scripts.webhook_signature.hmac.digest", lambda *args: made.append(1) or digest(*args))
    right = f"sha256={mac(BODY).hex()}"
    how = signature_of("github")
    secrets = (Secret("the old one"), Secret(KEY))

    def webhook_with_signatures(*signatures: str) -> IncomingWebhook:
        return IncomingWebhook("POST", URL, {"x-hub-signature-256": " ".join(signatures)}, BODY, NOW)

    verify_signature(webhook_with_signatures(*["sha256=00"] * 7, right), how, secrets)
    assert len(made) == len(secrets)
    with pytest.raises(SignatureRefused):
        verify_signature(webhook_with_signatures(*["sha256=00"] * 1000, right), how, secrets)
    assert len(made) == 2 * len(secrets)


@pytest.mark.parametrize("secret", ["whsec_schlüssel", "no base64!"])
def test_secret_that_is_not_base64_is_used_as_text(secret: str) -> None:
    how = WebhookSignature(scheme="standard-webhooks", header="webhook-signature")
    key = secret.removeprefix("whsec_").encode()
    signature = f"v1,{b64(mac(f'msg_1.{AT}.'.encode() + BODY, key=key))}"
    headers = {"webhook-id": "msg_1", "webhook-timestamp": AT, "webhook-signature": signature}
    assert verify_signature(incoming(headers), how, [Secret(secret)])


def test_public_key_on_an_unknown_curve_is_refused() -> None:
    # A SubjectPublicKeyInfo with the object identifier 1.3.132.0.99 as curve.
    spki = bytes.fromhex("3018301006072a8648ce3d020106052b81040063030400040102")
    how = WebhookSignature(scheme="ecdsa-p256-sha256", header="x-signature", encoding="base64")
    with pytest.raises(SignatureRefused):
        verify_signature(incoming({"x-signature": b64(b"signature")}), how, [Secret(b64(spki))])
