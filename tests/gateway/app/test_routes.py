"""The table of routes, tested on a running gateway."""

import pytest

from gateway.app.routes import ROUTES, WITHOUT_HEAD
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

GETS = [path for method, path, _ in ROUTES if method == "GET"]
FILLED = {
    "{name}": "tracker",
    "{provider}": "tracker",
    "{unique_key}": "tracker",
    "{environment}": "dev",
    "{integration_id}": "tracker",
    "{connection_id:.+}": "c1",
}
CHANGES_EACH_TIME = {
    "gateway-request-id",
    "date",
    "set-cookie",
    "location",
    "content-security-policy",
    "content-length",
}


@pytest.mark.parametrize("path", [path for path in GETS if path not in WITHOUT_HEAD])
@pytest.mark.asyncio(loop_scope="module")
async def test_head_returns_the_same_head_as_get(
    shared_gateway: RunningGateway, shared_tracker: Tracker, path: str
) -> None:
    if "connections" in path:
        await shared_gateway.import_connection(shared_tracker.grant())
    for name, value in FILLED.items():
        path = path.replace(name, value)
    if path.startswith("/connections/"):
        path += "?provider_config_key=tracker"
    if path.startswith("/oauth/connect/"):
        path += f"?connect_session_token={await shared_gateway.session_token()}"
    result = {}
    for method in ("GET", "HEAD"):
        async with shared_gateway.http.request(
            method, shared_gateway.url + path, headers=shared_gateway.headers, allow_redirects=False
        ) as response:
            head = {name.lower(): text for name, text in response.headers.items()}
            result[method] = (response.status, {name: head[name] for name in head.keys() - CHANGES_EACH_TIME})
            assert method == "GET" or await response.read() == b""
    assert result["HEAD"] == result["GET"]
    assert result["HEAD"][0] < 500


@pytest.mark.asyncio(loop_scope="module")
async def test_head_request_does_not_use_up_an_authorization(shared_gateway: RunningGateway) -> None:
    async with shared_gateway.http.head(f"{shared_gateway.url}/oauth/callback?state=x&code=y") as response:
        assert (response.status, response.headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/records?model=x"),
        ("POST", "/action/trigger"),
        ("POST", "/sync/start"),
        ("GET", "/scripts/config"),
        ("GET", "/integrations/tracker/functions"),
        ("GET", "/integrations/tracker/functions/x/code"),
        ("GET", "/providers/tracker/templates"),
        ("POST", "/functions/invocations"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_syncs_and_actions_of_the_nango_sdks_return_not_offered(
    shared_gateway: RunningGateway, method: str, path: str
) -> None:
    body = await shared_gateway.json(method, path, expect=501)
    assert body["error"]["code"] == "not_offered"
    assert "Syncs, actions and records are not offered" in body["error"]["message"]
    await shared_gateway.json(method, "/recordings", expect=404)


@pytest.mark.asyncio(loop_scope="module")
async def test_quickstart_integration_of_the_nango_sdks_returns_not_offered(shared_gateway: RunningGateway) -> None:
    body = await shared_gateway.json("POST", "/integrations/quickstart", expect=501)
    assert body["error"]["code"] == "not_offered"
    assert "Register your own app" in body["error"]["message"]
    await shared_gateway.json("POST", "/integrations/tracker", expect=405)


WITHOUT_BODY = [
    ("GET", "/providers"),
    ("GET", "/providers/tracker"),
    ("GET", "/providers/tracker/operations"),
    ("GET", "/integrations"),
    ("GET", "/integrations/tracker"),
    ("DELETE", "/integrations/none"),
    ("GET", "/connections"),
    ("GET", "/connections/c1?provider_config_key=tracker"),
    ("DELETE", "/connections/c1?provider_config_key=tracker"),
    ("GET", "/connect/sessions/none"),
    ("GET", "/connect/session"),
    ("GET", "/connect/session/result"),
    ("DELETE", "/connect/session"),
    ("POST", "/environment/webhook-signing-key/rotate"),
    ("GET", "/environment-variables"),
    ("GET", "/environment/api-keys"),
    ("DELETE", "/environment/api-keys/9"),
    ("DELETE", "/sessions/9"),
    ("GET", "/logs"),
    ("GET", "/audit"),
    ("GET", "/audit/uses"),
]


@pytest.mark.parametrize(("method", "path"), WITHOUT_BODY)
@pytest.mark.asyncio(loop_scope="module")
async def test_body_of_a_call_that_takes_none_is_refused(
    shared_gateway: RunningGateway, method: str, path: str
) -> None:
    of_session = path.startswith("/connect/session") and "sessions" not in path
    headers = (
        {"Authorization": f"Bearer {await shared_gateway.session_token()}"} if of_session else shared_gateway.headers
    )
    async with shared_gateway.http.request(
        method, shared_gateway.url + path, headers=headers, json={"a": 1}
    ) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (400, "invalid_body")
    async with shared_gateway.http.request(method, shared_gateway.url + path, headers=headers, json={}) as response:
        assert response.headers.get("Gateway-Error") != "invalid_body"


async def test_node_that_is_not_serving_responds_with_the_gateways_error(running: RunningGateway) -> None:
    running.runtime.serving = False
    async with running.http.get(f"{running.url}/ready") as response:
        assert (response.status, await response.json()) == (503, {"result": "not ready"})
        assert response.headers["Gateway-Error"] == "not_ready"
        assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "key", [{}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer nobody-knows-this-one"}]
)
@pytest.mark.asyncio(loop_scope="module")
async def test_every_401_names_the_scheme(shared_gateway: RunningGateway, key: dict[str, str]) -> None:
    async with shared_gateway.http.get(f"{shared_gateway.url}/providers", headers=key) as response:
        assert (response.status, response.headers["WWW-Authenticate"].partition(",")[0]) == (
            401,
            'Bearer realm="gateway"',
        )


FROM_A_PAGE = {"Origin": "https://app.example.com"}
OWN = [
    "/providers",
    "/providers/tracker",
    "/integrations",
    "/integrations/tracker",
    "/connect/sessions",
    "/connections",
]


@pytest.mark.parametrize("path", [*OWN, "/connections/a/b", "/proxy", "/proxy/x"])
@pytest.mark.asyncio(loop_scope="module")
async def test_preflight_needs_no_key(shared_gateway: RunningGateway, path: str) -> None:
    asks = {**FROM_A_PAGE, "Access-Control-Request-Method": "GET"}
    async with shared_gateway.http.options(shared_gateway.url + path, headers=asks) as response:
        assert response.status == 204
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in response.headers
        assert "Retries" not in response.headers["Access-Control-Allow-Headers"]


@pytest.mark.parametrize("path", OWN)
@pytest.mark.asyncio(loop_scope="module")
async def test_responses_allowed_by_a_preflight_can_be_read(shared_gateway: RunningGateway, path: str) -> None:
    for key in (shared_gateway.headers, {}):
        async with shared_gateway.http.get(shared_gateway.url + path, headers={**key, **FROM_A_PAGE}) as response:
            assert response.status in {200, 401, 405}
            if response.status != 405:
                assert response.headers["Access-Control-Allow-Origin"] == "*"
        async with shared_gateway.http.get(shared_gateway.url + path, headers=key) as response:
            assert "Access-Control-Allow-Origin" not in response.headers


async def test_proxied_responses_and_errors_can_be_read_across_origins(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    for connection_id, status in (("c1", 200), ("nobody", 404)):
        async with running.call_proxy(connection_id, "/ex/x", headers=FROM_A_PAGE) as response:
            assert response.status == status
            assert response.headers.getall("Access-Control-Allow-Origin") == ["*"]
            assert "Access-Control-Allow-Credentials" not in response.headers


@pytest.mark.parametrize("path", ["/connect", "/oauth/callback", "/oauth/connect/tracker", "/health"])
@pytest.mark.asyncio(loop_scope="module")
async def test_pages_allow_no_cross_origin_requests(shared_gateway: RunningGateway, path: str) -> None:
    async with shared_gateway.http.get(shared_gateway.url + path, headers=FROM_A_PAGE) as response:
        assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/providers", "GET, HEAD, OPTIONS"),
        ("/connections", "GET, HEAD, OPTIONS, POST"),
        ("/connections/x", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/connect/sessions", "OPTIONS, POST"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_options_names_the_methods(shared_gateway: RunningGateway, path: str, allowed: str) -> None:
    async with shared_gateway.http.options(shared_gateway.url + path) as response:
        assert (response.status, response.headers["Allow"]) == (204, allowed)
