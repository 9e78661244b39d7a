"""Webhooks that are authenticated by tokens, by keys of the provider, or by a text that the operator chooses.

Each shipped entry is tested with a signer that behaves like the provider, and with attacks.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as rsa_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwk, jws, jwt

from gateway import clock
from gateway.events import webhook_keys
from tests.fakes.gateways import RunningGateway, document
from tests.fakes.internet import Internet, internet
from tests.fakes.patience import PATIENCE_S

RSA = rsa_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa_key(public_exponent=65537, key_size=2048)
BODY = b'{"event":"x","n":1}'
PATH = "/webhook/dev/tracker"
HOOK = "https://events.example/hook"


def pem(key: RSAPrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def sign_token(alg: str, claims: dict[str, Any], key: Any, **header: Any) -> str:
    registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
    return jwt.encode({"alg": alg, **header}, claims, key, registry=registry)


def text_of(*parts: dict[str, Any]) -> str:
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)


def unsigned_token(claims: dict[str, Any], **header: Any) -> str:
    return text_of({"alg": "none", **header}, claims) + "."


def sign_with_shared_secret(claims: dict[str, Any], secret: bytes | str, **header: Any) -> str:
    """Sign with HS256, without a library: libraries refuse to use a public key as a shared secret, but an attacker can
    do it.
    """
    signing_input = text_of({"alg": "HS256", **header}, claims)
    proof = hmac.digest(secret if isinstance(secret, bytes) else secret.encode(), signing_input.encode(), "sha256")
    return f"{signing_input}.{base64.urlsafe_b64encode(proof).rstrip(b'=').decode()}"


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture
async def providers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Internet]:
    async with internet(monkeypatch) as made:
        yield made


class Events:
    """The bodies of the events that the application received, in order of arrival."""

    def __init__(self, providers: Internet) -> None:
        self.bodies: list[bytes] = []
        self._changed = asyncio.Event()
        providers.on(HOOK, self.take)

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self._changed.set()
        return web.Response(status=204)

    async def wait_until(self, count: int) -> list[bytes]:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.bodies) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.bodies


@pytest.fixture
async def events(providers: Internet) -> Events:
    return Events(providers)


class WebhookGateway:
    """A gateway with integration `tracker`, which receives the webhooks of a shipped provider."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.webhook_url = f"{gateway.runtime.generation.public_url}{PATH}"

    async def send(self, body: bytes = BODY, path: str = PATH, **headers: str) -> int:
        with_hyphens = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.gateway.http.post(self.gateway.url + path, data=body, headers=with_hyphens) as response:
            self.text = await response.text()
            return response.status


@pytest.fixture
async def start(providers: Internet, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    async with AsyncExitStack() as stack:

        async def start_gateway(provider: str, secret: str, **integration: Any) -> WebhookGateway:
            configuration = document([f"127.0.0.1/32:{providers.port}"])
            configuration["catalog"] = []
            dev = configuration["environments"]["dev"]
            dev["webhook_url"] = HOOK
            dev["integrations"]["tracker"] = {"provider": provider, "webhook_secret": secret, **integration}
            gateway = RunningGateway(tmp_path, configuration)
            await gateway.start()
            stack.push_async_callback(gateway.stop)
            return WebhookGateway(gateway)

        yield start_gateway


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the gateway's clock ahead of the signer's clock."""
    real_now, real_monotonic = clock.now, clock.monotonic
    ahead = [0.0]
    monkeypatch.setattr(clock, "now", lambda: real_now() + timedelta(seconds=ahead[0]))
    monkeypatch.setattr(clock, "monotonic", lambda: real_monotonic() + ahead[0])

    def set_ahead(seconds: float) -> None:
        ahead[0] = seconds

    return set_ahead


# ── Plaid: ES256. The gateway requests the key by its ID from Plaid. The token contains a digest of the body.

PLAID = "https://production.plaid.com/webhook_verification_key/get"


class PlaidKeys:
    """Plaid's endpoint for keys. `requested_ids`: key IDs, in order. `fails`: if set, the status of every response."""

    def __init__(self, providers: Internet) -> None:
        self.keys = {kid: generate_private_key(SECP256R1()) for kid in ("k1", "old")}
        self.requested_ids: list[str] = []
        self.fails: int | None = None
        providers.on(PLAID, self.response)

    async def response(self, request: web.Request) -> web.Response:
        query = await request.json()
        self.requested_ids.append(query["key_id"])
        if self.fails is not None:
            return web.json_response({"error_code": "DOWN"}, status=self.fails)
        known = query["key_id"] in self.keys and request.method == "POST"
        if not known or (query["client_id"], query["secret"]) != ("cid", "s:ecret"):
            return web.json_response({"error_code": "INVALID_FIELD"}, status=400)
        public = jwk.ECKey.import_key(self.keys[query["key_id"]]).as_dict(private=False)
        ended = 1 if query["key_id"] == "old" else None
        key = {**public, "kid": query["key_id"], "alg": "ES256", "use": "sig", "created_at": 1, "expired_at": ended}
        return web.json_response({"key": key, "request_id": "r"})

    def sign(self, body: bytes = BODY, kid: str = "k1", key: Any = None, **claims: Any) -> str:
        all_claims = {"iat": int(time.time()), "request_body_sha256": digest(body), **claims}
        return sign_token("ES256", all_claims, jwk.ECKey.import_key(key or self.keys[kid]), kid=kid, typ="JWT")


PLAID_SECRET = "production:cid:s:ecret"


async def test_plaids_token_is_checked_with_plaids_key_for_its_id(
    providers: Internet, start: Any, events: Events, now: Callable[[float], None]
) -> None:
    plaid = PlaidKeys(providers)
    endpoint = await start("plaid", PLAID_SECRET)
    token = plaid.sign()
    assert await endpoint.send(plaid_verification=token) == 200
    assert await endpoint.send(plaid_verification=token) == 200  # a replay gets 200 but is not forwarded
    again = plaid.sign(iat=int(time.time()) - 1)
    assert await endpoint.send(plaid_verification=again) == 200  # the same body is another event
    assert await endpoint.send(b"{}", plaid_verification=plaid.sign(b"{}")) == 200
    assert sorted(await events.wait_until(3)) == sorted([BODY, BODY, b"{}"])
    assert plaid.requested_ids == ["k1"]  # the key is cached
    now(4000)
    assert await endpoint.send(b"[]", plaid_verification=plaid.sign(b"[]", iat=int(time.time()) + 4000)) == 200
    assert plaid.requested_ids == ["k1", "k1"]


async def test_a_forged_plaid_token_is_refused(
    providers: Internet, start: Any, events: Events, now: Callable[[float], None]
) -> None:
    plaid = PlaidKeys(providers)
    endpoint = await start("plaid", PLAID_SECRET)
    other = generate_private_key(SECP256R1())
    claims = {"iat": int(time.time()), "request_body_sha256": digest(BODY)}
    public = jwk.ECKey.import_key(plaid.keys["k1"]).as_pem(private=False)
    own = jwk.ECKey.import_key(other)
    forged = {
        "another key": plaid.sign(key=other),
        "the key in the token": sign_token("ES256", claims, own, kid="k1", jwk=own.as_dict(private=False)),
        "another body": plaid.sign(b"{}"),
        "no digest": sign_token("ES256", {"iat": claims["iat"]}, jwk.ECKey.import_key(plaid.keys["k1"]), kid="k1"),
        "no signature": unsigned_token(claims, kid="k1"),
        "the public key as a shared secret": sign_with_shared_secret(claims, public, kid="k1"),
        "too old": plaid.sign(iat=int(time.time()) - 400),
        "of tomorrow": plaid.sign(iat=int(time.time()) + 400),
        "no time": plaid.sign(iat=None),
        "a time that is not a number": plaid.sign(iat="now"),
        "a key that has ended": plaid.sign(kid="old"),
        "a key that Plaid does not have": plaid.sign(kid="x", key=other),
        "a key id that is a URL": plaid.sign(kid="https://evil.example/k", key=other),
        "no token": "x",
        "three dots": "e30.e30.e30",
        "very long": "e30." + "x" * 9000 + ".x",
    }
    for what, token in forged.items():
        assert await endpoint.send(plaid_verification=token) == 401, what
        assert json.loads(endpoint.text) == {"error": "Invalid webhook signature"}
    assert await endpoint.send() == 401
    good = plaid.sign()
    now(400)
    assert await endpoint.send(plaid_verification=good) == 401  # a replay after its time limit
    assert events.bodies == []
    assert set(plaid.requested_ids) <= {"k1", "old", "x"}
    assert all(url in {PLAID, HOOK} for _, url in providers.seen)


async def test_a_key_is_requested_once_and_requests_of_unknown_keys_are_limited(
    providers: Internet, start: Any, now: Callable[[float], None]
) -> None:
    plaid = PlaidKeys(providers)
    endpoint = await start("plaid", PLAID_SECRET)
    key = generate_private_key(SECP256R1())
    responses = [await endpoint.send(plaid_verification=plaid.sign(kid="same", key=key)) for _ in range(5)]
    assert (responses, plaid.requested_ids) == ([401] * 5, ["same"])
    responses = [await endpoint.send(plaid_verification=plaid.sign(kid=f"x{number}", key=key)) for number in range(20)]
    assert (responses.count(401), responses.count(503), len(plaid.requested_ids)) == (9, 11, 10)
    now(61)
    assert await endpoint.send(plaid_verification=plaid.sign(iat=int(time.time()) + 61)) == 200


async def test_invented_key_ids_do_not_prevent_requests_of_a_known_key(
    providers: Internet, start: Any, now: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_keys, "MAX_CACHED", 4)
    plaid = PlaidKeys(providers)
    endpoint = await start("plaid", PLAID_SECRET)
    key = generate_private_key(SECP256R1())
    assert await endpoint.send(plaid_verification=plaid.sign()) == 200
    for number in range(6):
        assert await endpoint.send(plaid_verification=plaid.sign(kid=f"x{number}", key=key)) == 401
    assert await endpoint.send(b"[]", plaid_verification=plaid.sign(b"[]")) == 200
    assert plaid.requested_ids.count("k1") == 1
    now(3700)
    for number in range(12):
        await endpoint.send(plaid_verification=plaid.sign(kid=f"y{number}", key=key))
    assert await endpoint.send(b"{}", plaid_verification=plaid.sign(b"{}", iat=int(time.time()) + 3700)) == 200
    plaid.fails = 500
    now(7500)
    responses = [await endpoint.send(plaid_verification=plaid.sign(iat=int(time.time()) + 7500)) for _ in range(20)]
    assert responses == [503] * 20
    assert plaid.requested_ids.count("k1") == 2 + 10


async def test_a_webhook_gets_503_while_keys_cannot_be_fetched(providers: Internet, start: Any, events: Events) -> None:
    plaid = PlaidKeys(providers)
    endpoint = await start("plaid", PLAID_SECRET)
    plaid.fails = 500
    assert await endpoint.send(plaid_verification=plaid.sign()) == 503
    assert json.loads(endpoint.text)["error"]["code"] == "busy"
    assert "ecret" not in endpoint.text
    plaid.fails = None
    assert await endpoint.send(plaid_verification=plaid.sign()) == 200
    assert await events.wait_until(1) == [BODY]


@pytest.mark.parametrize("secret", ["cid:s", "evil.example/:cid:s", "a.b:cid:s", ":cid:s", "production"])
async def test_an_invalid_webhook_secret_causes_no_request(providers: Internet, start: Any, secret: str) -> None:
    plaid = PlaidKeys(providers)
    endpoint = await start("plaid", secret)
    assert await endpoint.send(plaid_verification=plaid.sign()) == 401
    assert providers.seen == []


# ── monday: HS256 with the app's signing secret. Gong: RS256 with a key that the operator enters.


async def test_mondays_token_must_be_signed_with_the_signing_secret(start: Any, events: Events) -> None:
    secret = "the signing secret of the app, long enough"
    endpoint = await start("monday", secret, client_id="id", client_secret="s")
    key = jwk.OctKey.import_key(secret)
    soon = int(time.time()) + 300
    good = sign_token("HS256", {"accountId": 1, "aud": endpoint.webhook_url, "exp": soon}, key)
    assert await endpoint.send(b'{"challenge":"c1"}', authorization=good) == 200
    assert json.loads(endpoint.text) == {"challenge": "c1"}
    assert await endpoint.send(authorization=good) == 200
    assert await endpoint.send(authorization=f"Bearer {good}") == 200  # the same body again is a replay
    wrong = {
        "another secret": sign_token("HS256", {"exp": soon}, jwk.OctKey.import_key("some other secret that is long")),
        "for another URL": sign_token("HS256", {"exp": soon, "aud": "https://evil.example/"}, key),
        "expired": sign_token("HS256", {"exp": int(time.time()) - 100}, key),
        "without an end": sign_token("HS256", {"accountId": 1}, key),
        "no signature": unsigned_token({"exp": soon}),
        "another algorithm": sign_token("HS512", {"exp": soon}, key),
    }
    for what, token in wrong.items():
        assert await endpoint.send(b"[]", authorization=token) == 401, what
    assert await endpoint.send(b"[]", authorization="") == 401
    assert await endpoint.send(b"[2]", authorization=good) == 200
    assert sorted(await events.wait_until(2)) == sorted([BODY, b"[2]"])


@pytest.mark.parametrize("form", ["bare", "one line"])
async def test_gongs_token_is_checked_with_the_pasted_key(start: Any, events: Events, form: str) -> None:
    text = pem(RSA)
    bare = "".join(text.splitlines()[1:-1])
    secret = {"bare": bare, "one line": text.replace("\n", "\\n")}[form]
    endpoint = await start("gong", secret)
    key, other = jwk.RSAKey.import_key(RSA), jwk.RSAKey.import_key(OTHER_RSA)
    claims = {"webhook_url": endpoint.webhook_url, "body_sha256": digest(BODY), "exp": int(time.time()) + 60}
    wrong = {
        "another key": sign_token("RS256", claims, other),
        "another body": sign_token("RS256", {**claims, "body_sha256": digest(b"{}")}, key),
        "another URL": sign_token("RS256", {**claims, "webhook_url": "https://evil.example/"}, key),
        "expired": sign_token("RS256", {**claims, "exp": int(time.time()) - 100}, key),
        "the public key as a shared secret": sign_with_shared_secret(claims, secret),
        "another padding": sign_token("PS256", claims, key),
        "no signature": unsigned_token(claims),
    }
    for what, token in wrong.items():
        assert await endpoint.send(authorization=f"Bearer {token}") == 401, what
    good = sign_token("RS256", claims, key)
    assert await endpoint.send(authorization=f"Bearer {good}") == 200
    assert await endpoint.send(authorization=f"Bearer {good}") == 200
    assert await endpoint.send(b"{}", authorization=f"Bearer {good}") == 401
    assert await events.wait_until(1) == [BODY]


# ── Google: Pub/Sub tokens, checked with Google's key set.

CERTS = "https://www.googleapis.com/oauth2/v3/certs"


async def test_a_pub_sub_token_must_name_the_service_account(
    providers: Internet, start: Any, events: Events, now: Callable[[float], None]
) -> None:
    keys = {"g1": RSA}

    async def certs(_request: web.Request) -> web.Response:
        listed = [
            jwk.RSAKey.import_key(key).as_dict(private=False) | {"kid": kid, "use": "sig"} for kid, key in keys.items()
        ]
        return web.json_response({"keys": listed})

    providers.on(CERTS, certs)
    endpoint = await start("google-mail", "push@p.iam.gserviceaccount.com", client_id="id", client_secret="s")

    def token(kid: str = "g1", key: Any = RSA, **claims: Any) -> str:
        all_claims = {
            "iss": "https://accounts.google.com",
            "email": "push@p.iam.gserviceaccount.com",
            "iat": int(time.time()),
            "exp": int(time.time()) + 3600,
            **claims,
        }
        return "Bearer " + sign_token("RS256", all_claims, jwk.RSAKey.import_key(key), kid=kid)

    assert await endpoint.send(authorization=token()) == 200
    for wrong in (
        token(email="other@p.iam.gserviceaccount.com"),
        token(iss="https://evil.example"),
        token(key=OTHER_RSA),
    ):
        assert await endpoint.send(b"[]", authorization=wrong) == 401
    # the key set does not contain this key yet
    assert await endpoint.send(b"[]", authorization=token("g2", OTHER_RSA)) == 401
    keys["g2"] = OTHER_RSA
    await events.wait_until(1)
    now(61)
    # the gateway requests the key set again, and the set contains the key now
    assert await endpoint.send(b"[2]", authorization=token("g2", OTHER_RSA)) == 200
    assert sorted(await events.wait_until(2)) == sorted([BODY, b"[2]"])
    assert [url for _, url in providers.seen if url == CERTS] == [CERTS] * 2


# ── PayPal: RSA over ID, time, webhook and CRC-32. The header names a certificate, which must be one of PayPal's.

CERT = "https://api.paypal.com/v1/notifications/certs/CERT-1"


def certificate(key: RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "messageverificationcerts.paypal.com")])
    begins = datetime.now(UTC) - timedelta(days=1)
    ends = begins + timedelta(days=9)
    builder = x509.CertificateBuilder(
        name,
        name,
        key.public_key(),
        x509.random_serial_number(),
        begins.replace(tzinfo=None),
        ends.replace(tzinfo=None),
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def paypal(
    body: bytes = BODY, key: RSAPrivateKey = RSA, webhook: str = "WH-1", at: float = 0.0, **extra: str
) -> dict[str, str]:
    sent = datetime.fromtimestamp(time.time() + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    signed_text = f"t-1|{sent}|{webhook}|{zlib.crc32(body)}".encode()
    signature = base64.b64encode(key.sign(signed_text, PKCS1v15(), hashes.SHA256())).decode()
    fields = {"id": "t-1", "time": sent, "sig": signature}
    return {f"paypal_transmission_{name}": text for name, text in fields.items()} | {"paypal_cert_url": CERT} | extra


async def test_paypals_signature_is_checked_with_the_certificate_that_it_names(
    providers: Internet, start: Any, events: Events
) -> None:
    async def cert(_request: web.Request) -> web.Response:
        return web.Response(body=certificate(RSA))

    providers.on(CERT, cert)
    endpoint = await start("paypal", "WH-1", client_id="id", client_secret="s")
    first = paypal()
    assert await endpoint.send(**first) == 200
    assert await endpoint.send(**first) == 200  # a replay
    other_urls = (
        "https://evil.example/v1/notifications/certs/CERT-1",
        "https://api.paypal.com.evil.example/v1/notifications/certs/CERT-1",
        "https://api.paypal.com@evil.example/v1/notifications/certs/CERT-1",
        "http://api.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com/v1/notifications/certs/../../x",
        "https://api.paypal.com/v1/notifications/certs/CERT-1?x=1",
        "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com/v1/notifications/certs/",
    )
    for url in other_urls:
        assert await endpoint.send(b"[]", **paypal(b"[]", paypal_cert_url=url)) == 401, url
    wrong = {
        "another key": paypal(b"[]", OTHER_RSA),
        "another body": paypal(b"{}"),
        "another webhook": paypal(b"[]", webhook="WH-2"),
        "too old": paypal(b"[]", at=-300_000),
        "no signature": paypal(b"[]", paypal_transmission_sig=""),
        "a URL without a certificate": paypal(b"[]", paypal_cert_url=CERT + "2"),
    }
    for what, fields in wrong.items():
        assert await endpoint.send(b"[]", **fields) == 401, what
    assert await endpoint.send(b"[2]", **paypal(b"[2]")) == 200
    assert sorted(await events.wait_until(2)) == sorted([BODY, b"[2]"])
    assert {url for _, url in providers.seen} == {CERT, CERT + "2", HOOK}


# ── A text that the operator chooses: in the body, as a password, or for notifications that are all identical.


async def test_microsofts_client_state_must_be_right_in_every_notice(start: Any, events: Events) -> None:
    endpoint = await start("microsoft", "state-1", client_id="id", client_secret="s")

    def graph_notifications(*states: Any) -> bytes:
        return json.dumps({"value": [{"clientState": state, "resource": "r"} for state in states]}).encode()

    for body in (
        graph_notifications("state-1", "x"),
        graph_notifications("x"),
        graph_notifications(),
        graph_notifications(None),
        b"{}",
        b"[]",
        b"x",
        b'{"value":{}}',
    ):
        assert await endpoint.send(body) == 401, body
    good = graph_notifications("state-1", "state-1")
    assert await endpoint.send(good) == 200
    assert await endpoint.send(good) == 200  # two notifications about the same resource are identical
    assert await events.wait_until(2) == [good, good]
    url = f"{PATH}?validationToken=a%20%3Cb%3E"
    assert await endpoint.send(b"", url) == 200
    assert endpoint.text == "a <b>"


async def test_microsofts_validation_is_recognized_behind_a_balancer_that_sends_chunks(start: Any) -> None:
    async def no_chunks() -> AsyncIterator[bytes]:
        for chunk in list[bytes]():
            yield chunk

    endpoint = await start("microsoft", "state-1", client_id="id", client_secret="s")
    url = f"{endpoint.gateway.url}{PATH}?validationToken=a"
    async with endpoint.gateway.http.post(url, data=no_chunks()) as response:
        assert (response.status, await response.text()) == (200, "a")


async def test_pipedrives_password_is_required(start: Any, events: Events) -> None:
    endpoint = await start("pipedrive", "user:pass", client_id="id", client_secret="s")
    right = base64.b64encode(b"user:pass").decode()
    for credentials in (base64.b64encode(b"user:other").decode(), "", "user:pass", "\u00fc"):
        assert await endpoint.send(authorization=f"Basic {credentials}") == 401
    assert await endpoint.send(authorization=f"Bearer {right}") == 401
    assert await endpoint.send(authorization=f"basic {right}") == 200
    assert await events.wait_until(1) == [BODY]


async def test_googles_channel_token_is_required_and_empty_notices_are_not_replays(start: Any, events: Events) -> None:
    endpoint = await start("google-calendar", "token-1", client_id="id", client_secret="s")
    assert await endpoint.send(b"", x_goog_channel_token="x") == 401
    for _ in range(2):
        assert await endpoint.send(b"", x_goog_channel_token="token-1") == 200
    assert await events.wait_until(2) == [b"", b""]


# ── Providers that verify the webhook URL before they send webhooks.


@pytest.mark.parametrize("path", [PATH, "/webhook/dev/unknown", "/webhook/unknown/tracker"])
async def test_a_webhook_url_responds_to_head_and_to_get_without_a_query(start: Any, path: str) -> None:
    """Trello and Intercom send HEAD before they save a URL. The response does not reveal which integrations exist."""
    endpoint = await start("trello", "secret", client_secret="secret-of-the-app", client_id="id")
    url = endpoint.gateway.url + path
    async with endpoint.gateway.http.head(url) as response, endpoint.gateway.http.get(url) as same:
        assert (response.status, same.status, await response.read()) == (200, 200, b"")


async def test_asanas_secret_of_a_new_webhook_is_returned_in_its_field(start: Any, events: Events) -> None:
    endpoint = await start("asana", "", client_secret="secret-of-the-app", client_id="id")
    secret = "b537207f20cbfa02357cf448134da559"
    for signature, status, returned in ({}, 200, secret), ({"X-Hook-Signature": "00"}, 401, None):
        headers = {"X-Hook-Secret": secret, **signature}
        async with endpoint.gateway.http.post(endpoint.gateway.url + PATH, headers=headers) as response:
            assert (response.status, response.headers.get("X-Hook-Secret")) == (status, returned)
    for invalid in "", "caf\xe9", "a" * 2000:
        assert await endpoint.send(b"{}", X_Hook_Secret=invalid) == 401
    assert await endpoint.send(b"") == 401
    assert events.bodies == []


async def test_twitchs_challenge_is_returned_as_text(start: Any, events: Events) -> None:
    endpoint = await start("twitch", "s3cre7-of-the-subscription", client_secret="secret-of-the-app", client_id="id")
    body = b'{"challenge":"pogchamp-kappa","subscription":{"status":"webhook_callback_verification_pending"}}'
    sent_at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    name = "twitch-eventsub-message"
    mac = hmac.digest(b"s3cre7-of-the-subscription", b"m1" + sent_at.encode() + body, "sha256").hex()
    fields = {f"{name}-id": "m1", f"{name}-timestamp": sent_at, f"{name}-signature": f"sha256={mac}"}
    assert await endpoint.send(body, **fields) == 200
    assert endpoint.text == "pogchamp-kappa"
    assert await endpoint.send(body, **{**fields, f"{name}-signature": "sha256=00"}) == 401
    assert events.bodies == []


async def test_fitbits_verification_code_is_compared_with_the_secret(start: Any) -> None:
    endpoint = await start("fitbit", "the-verification-code", client_secret="secret-of-the-app", client_id="id")
    for code, status in (("the-verification-code", 204), ("another", 404), ("", 404)):
        async with endpoint.gateway.http.get(f"{endpoint.gateway.url}{PATH}?verify={code}") as response:
            assert (code, response.status) == (code, status)


@pytest.mark.parametrize(
    ("provider", "name", "key", "encode"),
    [
        ("fitbit", "X-Fitbit-Signature", b"secret-of-the-app&", lambda body, key: hmac.digest(key, body, "sha1")),
        ("clickup", "X-Signature", b"secret-of-the-webhook", lambda body, key: hmac.digest(key, body, "sha256")),
        ("attio", "Attio-Signature", b"secret-of-the-webhook", lambda body, key: hmac.digest(key, body, "sha256")),
    ],
)
async def test_the_second_change_of_an_object_is_an_event_though_the_body_is_the_same(
    start: Any, events: Events, provider: str, name: str, key: bytes, encode: Callable[[bytes, bytes], bytes]
) -> None:
    """Fitbit names only the user and the day of new data, ClickUp and Attio only the ids of what changed."""
    endpoint = await start(provider, "secret-of-the-webhook", client_secret="secret-of-the-app", client_id="id")
    proof = encode(BODY, key)
    text = base64.b64encode(proof).decode() if provider == "fitbit" else proof.hex()
    for _ in range(2):
        assert await endpoint.send(**{name: text}) == 200
    assert await events.wait_until(2) == [BODY, BODY]


@pytest.mark.parametrize("provider", ["facebook", "instagram", "meta-marketing-api", "threads", "whatsapp-business"])
async def test_each_product_of_meta_gets_its_challenge_back(start: Any, provider: str) -> None:
    endpoint = await start(provider, "the-verify-token", client_secret="secret-of-the-app", client_id="id")
    query = "hub.mode=subscribe&hub.challenge=115&hub.verify_token=the-verify-token"
    async with endpoint.gateway.http.get(f"{endpoint.gateway.url}{PATH}?{query}") as response:
        assert (response.status, await response.text()) == (200, "115")


async def test_xeros_intent_to_receive_gets_responses_without_a_body(start: Any, events: Events) -> None:
    endpoint = await start("xero", "webhooks-key", client_secret="secret-of-the-app", client_id="id")
    right = base64.b64encode(hmac.digest(b"webhooks-key", BODY, "sha256")).decode()
    assert (await endpoint.send(X_Xero_Signature=right), endpoint.text) == (200, "")
    assert (await endpoint.send(X_Xero_Signature="AAAA"), endpoint.text) == (401, "")
    assert await events.wait_until(1) == [BODY]
