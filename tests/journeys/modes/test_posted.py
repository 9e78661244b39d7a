"""The end user's browser posts typed-in credentials within its connect session
(docs/compatibility.md#without-a-redirect).
"""

from typing import Any

import pytest
from aiohttp import web

from tests.fakes.gateways import RunningGateway
from tests.journeys.modes.conftest import FakeProvider, only_id

LOGIN = {"username": "ada", "password": "pw-1"}


def open_api(fake_provider: FakeProvider) -> None:
    async def api(request: web.Request) -> web.Response:
        return web.json_response({name.lower(): text for name, text in request.headers.items()})

    async def token(_: web.Request) -> web.Response:
        return web.json_response({"access_token": "t-1", "sessionId": "s-1", "expires_in": 60})

    fake_provider.on("/api", api)
    fake_provider.on("/token", token)


async def post(
    gateway: RunningGateway, path: str, body: Any = None, *, token: str | None = None, query: str = "", **session: Any
) -> tuple[int, Any]:
    """Post as the browser SDK does, from another origin."""
    token = token or await gateway.session_token(**session)
    url = f"{gateway.url}{path}/tracker?connect_session_token={token}{query}"
    options: dict[str, Any] = {"skip_auto_headers": ["Content-Type"]} if body is None else {"json": body}
    async with gateway.http.post(url, headers={"Origin": "https://app.example.com"}, **options) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        return response.status, await response.json()


FORMS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "/api-auth/api-key": (
        {"auth_mode": "API_KEY", "proxy": {"headers": {"x-key": "${apiKey}"}}}, {"apiKey": "k"}, {"x-key": "k"},
    ),
    "/api-auth/basic": ({"auth_mode": "BASIC"}, LOGIN, {"authorization": "Basic YWRhOnB3LTE="}),
    "/auth/two-step": (
        {
            "auth_mode": "TWO_STEP",
            "credentials": {"email": {}},
            "token_url": "{far}/token",
            "token_params": {"email": "${credentials.email}"},
        },
        {"type": "TWO_STEP", "email": "e"},
        {"authorization": "Bearer t-1"},
    ),
    "/auth/jwt": (
        {
            "auth_mode": "JWT",
            "credentials": {"secret": {"secret": True}},
            "jwt": {"header": {"alg": "HS256"}, "key": "${credentials.secret}"},
        },
        {"secret": "0123456789abcdef0123456789abcdef"},
        {},
    ),
    "/auth/bill": (
        {"auth_mode": "BILL", "token_url": "{far}/token", "proxy": {"headers": {"sessionid": "${accessToken}"}}},
        {**LOGIN, "organization_id": "o", "dev_key": "d"},
        {"sessionid": "s-1"},
    ),
    "/auth/signature": (
        {"auth_mode": "SIGNATURE", "signature": {"scheme": "wsse"}}, {**LOGIN, "type": "SIGNATURE"}, {},
    ),
    "/auth/tba": (
        {"auth_mode": "TBA", "connection_config": {"accountId": {}}},
        {"token_id": "i", "token_secret": "s", "oauth_client_id_override": "c", "oauth_client_secret_override": "x"},
        {},
    ),
    "/auth/aws-sigv4": (
        {
            "auth_mode": "AWS_SIGV4",
            "request_signing": {"scheme": "aws-sigv4", "region": "${credentials.region}", "service": "sqs"},
        },
        {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "s", "region": "eu-west-1"},
        {},
    ),
    "/auth/unauthenticated": ({"auth_mode": "NONE"}, {}, {}),
    "/oauth2/auth": (
        {"auth_mode": "OAUTH2_CC", "token_url": "{far}/token"},
        {"client_id": "c", "client_secret": "s"},
        {"authorization": "Bearer t-1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", FORMS)
async def test_each_mode_connects_by_its_form(fake_provider: FakeProvider, start: Any, path: str) -> None:
    open_api(fake_provider)
    entry, body, sent = FORMS[path]
    entry = {name: text.format(far=fake_provider.url) if name == "token_url" else text for name, text in entry.items()}
    gateway = await start(**entry)
    status, reply = await post(
        gateway, path, body or None, query="&params[accountId]=acme" if path == "/auth/tba" else ""
    )
    assert status == 200, reply
    assert reply == {"connectionId": await only_id(gateway), "providerConfigKey": "tracker"}
    async with gateway.call_proxy(reply["connectionId"]) as response:
        assert response.status == 200
        assert sent.items() <= (await response.json()).items()
    connection = await gateway.json("GET", f"/connections/{reply['connectionId']}?provider_config_key=tracker")
    assert connection["end_user"]["id"] == "u1"
    assert connection["tags"]["end_user_id"] == "u1"


KEY = {"auth_mode": "API_KEY", "proxy": {"headers": {"x-key": "${apiKey}"}}}


async def test_faults_are_named_by_their_place_in_the_body(fake_provider: FakeProvider, start: Any) -> None:
    gateway = await start(**KEY)
    status, response = await post(gateway, "/api-auth/api-key", {"apiKey": ""})
    assert (status, response["error"]["code"], response["error"]["errors"][0]["path"]) == (
        400,
        "invalid_body",
        ["apiKey"],
    )
    status, response = await post(gateway, "/api-auth/api-key", {"apiKey": "k", "extra": 1})
    assert (status, response["error"]["errors"][0]["code"]) == (400, "unrecognized_keys")
    status, response = await post(gateway, "/api-auth/api-key", {"api_key": "k"})
    assert "'api_key' is not a field of this form; did you mean 'apiKey'?" in response["error"]["message"]
    status, response = await post(gateway, "/api-auth/api-key", {"apiKey": "k"}, query="&connection_id=mine")
    assert (status, response["error"]["code"]) == (400, "invalid_query_params")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [("/api-auth/basic", 400, "invalid_auth_mode"), ("/auth/jwt", 400, "invalid_auth_mode")],
)
async def test_each_credential_endpoint_accepts_one_auth_mode(
    fake_provider: FakeProvider, start: Any, path: str, status: int, code: str
) -> None:
    gateway = await start(**KEY)
    responded, response = await post(gateway, path, {})
    assert (responded, response["error"]["code"]) == (status, code)


async def test_connecting_needs_a_session(fake_provider: FakeProvider, start: Any) -> None:
    gateway = await start(**KEY)
    status, response = await post(gateway, "/api-auth/api-key", {"apiKey": "k"}, token="nonsense")
    assert (status, response["error"]["code"]) == (401, "invalid_connect_session_token_format")
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_a_wrong_key_is_reported_to_the_end_user(fake_provider: FakeProvider, start: Any) -> None:
    async def me(_: web.Request) -> web.Response:
        return web.json_response({"message": "no such key"}, status=401)

    fake_provider.on("/api/me", me)
    gateway = await start(**{**KEY, "proxy": {**KEY["proxy"], "verification": {"endpoints": ["/me"]}}})
    status, response = await post(gateway, "/api-auth/api-key", {"apiKey": "k"})
    assert (status, response["error"]["code"]) == (400, "connection_test_failed")
    assert "no such key" in response["error"]["message"]


async def test_incomplete_and_refused_client_credentials_have_their_own_codes(
    fake_provider: FakeProvider, start: Any
) -> None:
    async def token(_: web.Request) -> web.Response:
        return web.json_response({"error": "invalid_client"}, status=401)

    fake_provider.on("/token", token)
    gateway = await start(auth_mode="OAUTH2_CC", token_url=f"{fake_provider.url}/token")
    for body, code in (
        ({"client_secret": "s"}, "missing_client_id"),
        ({"client_id": "c"}, "missing_client_secret"),
        ({"client_id": "c", "client_secret": "s"}, "client_credentials_fetch_error"),
    ):
        status, response = await post(gateway, "/oauth2/auth", body)
        assert (status, response["error"]["code"]) == (400, code)


async def test_the_back_end_decides_the_settings_that_it_fixed(fake_provider: FakeProvider, start: Any) -> None:
    open_api(fake_provider)
    entry = {**KEY, "connection_config": {"site": {}, "set_by_us": {"automated": True, "optional": True}}}
    gateway = await start(**entry)
    defaults = {"tracker": {"connection_config": {"site": "fixed"}}}
    query = "&params[site]=chosen&params[set_by_us]=forged"
    status, response = await post(
        gateway, "/api-auth/api-key", {"apiKey": "k"}, query=query, integrations_config_defaults=defaults
    )
    assert status == 200
    connection = await gateway.json("GET", f"/connections/{response['connectionId']}?provider_config_key=tracker")
    assert connection["connection_config"] == {"site": "fixed"}


async def test_a_role_is_assumed_for_the_end_user_of_the_session_and_for_no_other(
    fake_provider: FakeProvider, start: Any
) -> None:
    requests: list[dict[str, str]] = []

    async def sts(request: web.Request) -> web.Response:
        requests.append({k: str(v) for k, v in (await request.post()).items()})
        return web.Response(status=403, text="<Error><Code>AccessDenied</Code></Error>", content_type="text/xml")

    fake_provider.on("/sts", sts)
    gateway = await start(
        {"client_id": "AKID", "client_secret": "s"},
        auth_mode="AWS_SIGV4",
        token_url=f"{fake_provider.url}/sts",
        request_signing={"scheme": "aws-sigv4", "region": "eu-west-1", "service": "sqs"},
    )
    role = {"role_arn": "arn:aws:iam::123456789012:role/reader"}
    status, response = await post(gateway, "/auth/aws-sigv4", role)
    external = response["error"]["payload"]["external_id"]
    assert (status, external in response["error"]["message"]) == (400, True)
    await post(gateway, "/auth/aws-sigv4", role)
    await post(gateway, "/auth/aws-sigv4", role, end_user={"id": "u2"})
    assert [item["ExternalId"] == external for item in requests] == [True, True, False]
    status, response = await post(gateway, "/auth/aws-sigv4", role, query="&params[external_id]=another")
    assert response["error"]["payload"]["external_id"] == external, (
        "the external id belongs to the end user; the browser cannot choose another"
    )
    status, response = await post(gateway, "/auth/aws-sigv4", {**role, "external_id": "another's"})
    assert (status, response["error"]["errors"][0]["path"]) == (400, ["external_id"])


async def test_script_of_another_origin_can_send_a_preflight_request(fake_provider: FakeProvider, start: Any) -> None:
    gateway = await start(**KEY)
    headers = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "POST"}
    async with gateway.http.options(f"{gateway.url}/api-auth/api-key/tracker", headers=headers) as response:
        assert response.status == 204
        assert "Content-Type" in response.headers["Access-Control-Allow-Headers"]
