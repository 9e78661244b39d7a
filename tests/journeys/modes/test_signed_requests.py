"""The modes that sign each request: OAUTH1, TBA, AWS_SIGV4, and templates with parts of the request."""

import hashlib
import hmac
import io
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from aiohttp import web
from oauthlib.oauth1.rfc5849 import signature as rfc5849

from gateway.auth.aws_sigv4 import Scope, SigV4Keys, authorization
from gateway.secret import Secret
from tests.fakes.gateways import RunningGateway
from tests.journeys.modes.conftest import FakeProvider, connect, import_connection, only_id, read

CLIENT = {"client_id": "our key", "client_secret": "our secret"}


def header_params(request: web.Request) -> dict[str, str]:
    text = request.headers.get("Authorization", "")
    assert text.startswith("OAuth "), text
    return {name: unquote(value) for name, value in re.findall(r'([a-z_]+)="([^"]*)"', text)}


async def is_signed(request: web.Request, client_secret: str, token_secret: str, *, sha256: bool = False) -> bool:
    """Return whether the signature of the received request is valid by RFC 5849 §3.2."""
    oauth = header_params(request)
    params = [(k, v) for k, v in oauth.items() if k not in {"realm", "oauth_signature"}]
    params += parse_qsl(request.raw_path.partition("?")[2], keep_blank_values=True)
    if request.content_type == "application/x-www-form-urlencoded":
        params += parse_qsl((await request.read()).decode(), keep_blank_values=True)
    received = SimpleNamespace(
        uri=f"http://{request.host}{request.raw_path}",
        http_method=request.method,
        params=params,
        signature=oauth["oauth_signature"],
    )
    verify = rfc5849.verify_hmac_sha256 if sha256 else rfc5849.verify_hmac_sha1
    return bool(verify(received, client_secret, token_secret))


class OAuth1Provider:
    """A server that follows RFC 5849 and accepts each nonce only once."""

    def __init__(self, fake_provider: FakeProvider) -> None:
        self.nonces: set[str] = set()
        self.callback = ""
        self.fail_next = 0
        self.request_form: dict[str, str] = {}
        fake_provider.on("/request", self.request_token)
        fake_provider.on("/authorize", self.authorize)
        fake_provider.on("/token", self.access_token)
        fake_provider.on("/api", self.api)

    async def _fresh(self, request: web.Request, secret: str) -> dict[str, str]:
        oauth = header_params(request)
        assert oauth["oauth_nonce"] not in self.nonces
        self.nonces.add(oauth["oauth_nonce"])
        if oauth["oauth_consumer_key"] != "our key" or not await is_signed(request, "our secret", secret):
            raise web.HTTPUnauthorized(text="oauth_problem=signature_invalid")
        return oauth

    async def request_token(self, request: web.Request) -> web.Response:
        oauth = await self._fresh(request, "")
        self.callback = oauth["oauth_callback"]
        self.request_form = {k: str(v) for k, v in (await request.post()).items()}
        return web.Response(text="oauth_token=temporary&oauth_token_secret=t%26s&oauth_callback_confirmed=true")

    async def authorize(self, request: web.Request) -> web.Response:
        assert request.query["oauth_token"] == "temporary"
        verdict = "denied=temporary" if "no" in request.query else "oauth_token=temporary&oauth_verifier=v-1"
        raise web.HTTPFound(f"{self.callback}&{verdict}")

    async def access_token(self, request: web.Request) -> web.Response:
        oauth = await self._fresh(request, "t&s")
        assert (oauth["oauth_token"], oauth["oauth_verifier"]) == ("temporary", "v-1")
        return web.Response(text="oauth_token=lasting&oauth_token_secret=l%2Fs&user_id=7")

    async def api(self, request: web.Request) -> web.Response:
        oauth = await self._fresh(request, "l/s")
        if self.fail_next:
            self.fail_next -= 1
            return web.Response(status=503)
        return web.json_response({"token": oauth["oauth_token"], "body": (await request.read()).decode()})


async def oauth1(fake_provider: FakeProvider, start: Any, **extra: Any) -> RunningGateway:
    gateway: RunningGateway = await start(
        CLIENT,
        auth_mode="OAUTH1",
        request_url=f"{fake_provider.url}/request",
        authorization_url=f"{fake_provider.url}/authorize",
        token_url=f"{fake_provider.url}/token",
        token_response_metadata=["user_id"],
        **extra,
    )
    return gateway


async def test_oauth1_connects_and_signs_every_request_as_sent(fake_provider: FakeProvider, start: Any) -> None:
    provider = OAuth1Provider(fake_provider)
    gateway = await oauth1(fake_provider, start, request_params={"x_auth_access_type": "write"})
    status, html = await connect(gateway)
    assert status == 200, html
    assert provider.request_form == {"x_auth_access_type": "write"}
    connection_id = await only_id(gateway)
    connection = await gateway.json("GET", f"/connections/{connection_id}?provider_config_key=tracker")
    assert connection["credentials"]["oauth_token_secret"] == "l/s"
    assert connection["connection_config"]["user_id"] == "7"
    async with gateway.call_proxy(connection_id, "/a%20b/c?x=1&x=0&q=caf%C3%A9&e=") as response:
        assert response.status == 200
    async with gateway.call_proxy(
        connection_id, "/f?q=1", "POST", data={"status": "Hello & more", "a": "ü"}
    ) as response:
        assert (await response.json())["body"] == "status=Hello+%26+more&a=%C3%BC"
    async with gateway.call_proxy(connection_id, "/j", "POST", json={"not": "signed"}) as response:
        assert response.status == 200


async def test_calls_that_differ_in_nothing_are_signed_one_by_one(fake_provider: FakeProvider, start: Any) -> None:
    """The fast path reuses earlier heads, so it passes requests with a signature to the middleware chain."""
    provider = OAuth1Provider(fake_provider)
    gateway = await oauth1(fake_provider, start)
    await import_connection(
        gateway, credentials={"type": "OAUTH1", "oauth_token": "lasting", "oauth_token_secret": "l/s"}
    )
    for _ in range(4):
        async with gateway.call_proxy("c1", "/x") as response:
            assert response.status == 200
    assert len(provider.nonces) == 4


async def test_a_retry_is_signed_again(fake_provider: FakeProvider, start: Any) -> None:
    provider = OAuth1Provider(fake_provider)
    gateway = await oauth1(fake_provider, start)
    await import_connection(
        gateway, credentials={"type": "OAUTH1", "oauth_token": "lasting", "oauth_token_secret": "l/s"}
    )
    provider.fail_next = 2
    async with gateway.call_proxy("c1", "/x", headers={"Retries": "3"}) as response:
        assert (response.status, response.headers["Gateway-Attempts"]) == (200, "3")
    assert len(provider.nonces) == 3


async def test_a_providers_refusal_ends_the_flow_with_its_reason(fake_provider: FakeProvider, start: Any) -> None:
    OAuth1Provider(fake_provider)
    gateway = await oauth1(fake_provider, start)
    status, html = await connect(gateway, "&authorization_params[no]=1")
    assert (status, "did not grant access" in html) == (400, True)
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_a_wrong_client_secret_is_reported_before_the_redirect(fake_provider: FakeProvider, start: Any) -> None:
    OAuth1Provider(fake_provider)
    gateway = await start(
        {**CLIENT, "client_secret": "wrong"},
        auth_mode="OAUTH1",
        request_url=f"{fake_provider.url}/request",
        authorization_url=f"{fake_provider.url}/authorize",
        token_url=f"{fake_provider.url}/token",
    )
    status, body = await connect(gateway)
    assert (status, "token_request_failed" in body, "signature_invalid" in body) == (400, True, True)


async def test_token_based_authentication_signs_with_the_account_as_realm(
    fake_provider: FakeProvider, start: Any
) -> None:
    async def api(request: web.Request) -> web.Response:
        oauth = header_params(request)
        right = (oauth["realm"], oauth["oauth_token"], oauth["oauth_signature_method"]) == (
            "ACME_SB1", "id-1", "HMAC-SHA256",
        )  # fmt: skip
        right = right and await is_signed(request, "our secret", "tok secret", sha256=True)
        return web.json_response({}, status=200 if right else 401)

    fake_provider.on("/api", api)
    gateway = await start(CLIENT, auth_mode="TBA", connection_config={"accountId": {}})
    credentials = {"type": "TBA", "token_id": "id-1", "token_secret": "tok secret"}
    reply = await import_connection(gateway, credentials=credentials, expect=400)
    assert reply["error"]["code"] == "connection_validation_failed"
    await import_connection(gateway, credentials=credentials, connection_config={"accountId": "acme-sb1"})
    async with gateway.call_proxy("c1", "/record?limit=2") as response:
        assert response.status == 200


class Aws:
    """Verifies Signature Version 4 of the received request, and issues temporary keys for a role (STS)."""

    def __init__(self, fake_provider: FakeProvider) -> None:
        self.keys = {"AKIDEXAMPLE": ("secret/1", None)}
        self.issued = 0
        self.roles: list[dict[str, str]] = []
        self.dates: list[str] = []
        fake_provider.on("/sts", self.sts)
        fake_provider.on("/api", self.api)

    async def wrong(self, request: web.Request, service: str) -> str | None:
        sent = request.headers["Authorization"]
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/eu-west-1/([a-z0-9]+)/aws4_request, "
            r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
            sent,
        )
        assert found is not None, sent
        key, service_name, names, _ = found.groups()
        if key not in self.keys or service_name != service:
            return "InvalidClientTokenId"
        secret, session = self.keys[key]
        if request.headers.get("X-Amz-Security-Token") != session:
            return "InvalidSecurityToken"
        body = await request.read()
        payload = request.headers.get("X-Amz-Content-Sha256") or hashlib.sha256(body).hexdigest()
        at = datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        self.dates.append(request.headers["X-Amz-Date"])
        fields = [(name, request.headers[name]) for name in names.split(";")]
        assert {"host", "x-amz-date"} <= set(names.split(";"))
        wanted = authorization(
            SigV4Keys(key, Secret(secret)),
            Scope("eu-west-1", service_name),
            request.method,
            request.raw_path,
            fields,
            payload,
            at,
        )
        return None if hmac.compare_digest(wanted, sent) else "SignatureDoesNotMatch"

    async def sts(self, request: web.Request) -> web.Response:
        form = {k: str(v) for k, v in (await request.post()).items()}
        self.roles.append(form)
        problem = await self.wrong(request, "sts")
        if problem is None and form.get("ExternalId") != "cust-1":
            problem = "AccessDenied"
        if problem is not None:
            result = f"<ErrorResponse><Error><Code>{problem}</Code><Message>not &amp; never</Message></Error></ErrorResponse>"
            return web.Response(status=403, text=result, content_type="text/xml")
        self.issued += 1
        self.keys = {
            "AKIDEXAMPLE": self.keys["AKIDEXAMPLE"],
            f"ASIA{self.issued}": (f"issued-{self.issued}", "session=="),
        }
        until = "2999-01-01T00:00:00Z" if self.issued > 1 else self.until
        return web.Response(
            text=f"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA{self.issued}</AccessKeyId>"
            f"<SecretAccessKey>issued-{self.issued}</SecretAccessKey><SessionToken>session==</SessionToken>"
            f"<Expiration>{until}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
            content_type="text/xml",
        )

    until = "2999-01-01T00:00:00Z"

    async def api(self, request: web.Request) -> web.Response:
        problem = await self.wrong(request, "sqs")
        return web.json_response(
            {"bytes": len(await request.read()), "problem": problem}, status=403 if problem else 200
        )


def aws(fake_provider: FakeProvider, **extra: Any) -> dict[str, Any]:
    return {
        "auth_mode": "AWS_SIGV4",
        "request_signing": {"scheme": "aws-sigv4", "region": "${connectionConfig.region}", "service": "sqs"},
        "connection_config": {"region": {}, "external_id": {"optional": True}},
        "token_url": f"{fake_provider.url}/sts",
        **extra,
    }


STATIC = {"type": "AWS_SIGV4", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret/1"}


async def test_aws_requests_are_signed_over_the_bytes_that_are_forwarded(
    fake_provider: FakeProvider, start: Any
) -> None:
    Aws(fake_provider)
    gateway = await start(**aws(fake_provider))
    await import_connection(gateway, credentials=STATIC, connection_config={"region": "eu-west-1"})
    for path, method, options in (
        ("/", "GET", {}),
        ("/a%2Fb//c?Action=List&A=%20%2B&b", "GET", {}),
        ("/q", "POST", {"json": {"QueueUrl": "x"}, "headers": {"X-Amz-Target": "AmazonSQS.SendMessage"}}),
        ("/q", "POST", {"data": b"x" * 300_000}),
        ("/q", "DELETE", {}),
    ):
        async with gateway.call_proxy("c1", path, method, **options) as response:
            assert response.status == 200, (path, await response.text())


async def test_a_body_of_unknown_length_is_buffered_until_it_can_be_signed(
    fake_provider: FakeProvider, start: Any
) -> None:
    Aws(fake_provider)
    gateway = await start(**aws(fake_provider))
    await import_connection(gateway, credentials=STATIC, connection_config={"region": "eu-west-1"})

    async def pieces() -> Any:
        for _ in range(50):
            yield b"y" * 4000

    async with gateway.call_proxy("c1", "/q", "POST", data=pieces()) as response:
        assert (await response.json())["bytes"] == 200_000


@pytest.mark.heavy
async def test_a_body_too_large_to_buffer_is_refused_unless_its_hash_is_known(
    fake_provider: FakeProvider, start: Any
) -> None:
    Aws(fake_provider)
    gateway = await start(**aws(fake_provider))
    await import_connection(gateway, credentials=STATIC, connection_config={"region": "eu-west-1"})
    large = bytes(17 << 20)
    async with gateway.call_proxy("c1", "/q", "PUT", data=io.BytesIO(large)) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (413, "body_too_large")
    known = {"X-Amz-Content-Sha256": hashlib.sha256(large).hexdigest()}
    async with gateway.call_proxy("c1", "/q", "PUT", data=io.BytesIO(large), headers=known) as response:
        assert (response.status, (await response.json())["bytes"]) == (200, 17 << 20)


async def test_a_role_issues_keys_and_new_keys_before_they_expire(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    fake_aws = Aws(fake_provider)
    fake_aws.until = datetime.fromtimestamp(datetime.now(UTC).timestamp() + 3600, UTC).isoformat()
    gateway = await start({"client_id": "AKIDEXAMPLE", "client_secret": "secret/1"}, **aws(fake_provider))
    role = {"type": "AWS_SIGV4", "role_arn": "arn:aws:iam::123456789012:role/reader", "region": "eu-west-1"}
    reply = await import_connection(gateway, credentials=role, expect=400)
    assert "403: AccessDenied: not & never" in reply["error"]["message"]
    imported = await import_connection(gateway, credentials={**role, "external_id": "cust-1"})
    assert imported["credentials"]["access_key_id"] == "ASIA1"
    assert imported["connection_config"]["region"] == "eu-west-1"
    async with gateway.call_proxy("c1", "/q") as response:
        assert response.status == 200
    advance_clock(3601)
    assert (await read(gateway))["credentials"]["access_key_id"] == "ASIA2"
    async with gateway.call_proxy("c1", "/q") as response:
        assert response.status == 200
    assert fake_aws.roles[-1]["RoleArn"] == role["role_arn"]


async def test_a_dry_run_shows_the_place_of_the_signature_but_not_its_value(
    fake_provider: FakeProvider, start: Any
) -> None:
    Aws(fake_provider)
    gateway = await start(**aws(fake_provider))
    await import_connection(gateway, credentials=STATIC, connection_config={"region": "eu-west-1"})
    async with gateway.call_proxy("c1", "/q", headers={"Gateway-Dry-Run": "true"}) as response:
        body = await response.json()
    shown = {name.lower(): value for name, value in body["headers"]}
    assert shown["authorization"] == "AWS4-HMAC-SHA256 ***"
    assert "secret/1" not in str(body)
    assert fake_provider.seen == []


async def test_templates_may_name_parts_of_the_request(fake_provider: FakeProvider, start: Any) -> None:
    seen: list[dict[str, str]] = []
    failures = 1

    async def api(request: web.Request) -> web.Response:
        nonlocal failures
        h = request.headers
        canonical = "&".join(sorted((await request.text()).split("&"))) if request.method == "POST" else ""
        text = "|".join([request.method, request.host, request.path, request.query_string.partition("&sig")[0],
                         h["X-Nonce"], canonical])  # fmt: skip
        wanted = hmac.new(b"key-1", text.encode(), hashlib.sha1).hexdigest()
        assert h["X-Sign"] == wanted, text
        assert request.query["sig"] == hashlib.sha256(h["X-Nonce"].encode()).hexdigest()
        seen.append({"nonce": h["X-Nonce"], "sig": request.query["sig"]})
        if failures:
            failures -= 1
            return web.Response(status=503)
        return web.json_response({})

    fake_provider.on("/api", api)
    gateway = await start(
        auth_mode="API_KEY",
        proxy={
            "headers": {
                "x-nonce": "${random}",
                "x-sign": "${hmacSha1Hex(${method}|${host}|${path}|${params}|${random}|${bodyCanonicalParams}, ${apiKey})}",
            },
            "query": {"sig": "${sha256Hex(${random})}"},
        },
    )
    await import_connection(gateway, credentials={"type": "API_KEY", "apiKey": "key-1"})
    async with gateway.call_proxy("c1", "/a?x=1", "GET", headers={"Retries": "1", "X-Sign": "forged"}) as response:
        assert response.status == 200
    async with gateway.call_proxy("c1", "/a?x=1", "POST", data={"b": "2", "a": "1"}) as response:
        assert response.status == 200
    assert len({item["nonce"] for item in seen}) == 3
