"""The table of routes, asked on a running gateway."""

import pytest

from gateway.routes import ROUTES, WITHOUT_HEAD
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

GETS = [path for method, path, _ in ROUTES if method == "GET"]
FILLED = {
    "{name}": "tracker",
    "{provider}": "tracker",
    "{unique_key}": "tracker",
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
async def test_head_says_what_get_would(running: RunningGateway, tracker: Tracker, path: str) -> None:
    if "connections" in path:
        await running.imported(tracker.grant())
    for name, value in FILLED.items():
        path = path.replace(name, value)
    if path.startswith("/connections/"):
        path += "?provider_config_key=tracker"
    if path.startswith("/oauth/connect/"):
        path += f"?connect_session_token={await running.session_token()}"
    told = {}
    for method in ("GET", "HEAD"):
        async with running.http.request(
            method, running.url + path, headers=running.headers, allow_redirects=False
        ) as answer:
            head = {name.lower(): text for name, text in answer.headers.items()}
            told[method] = (answer.status, {name: head[name] for name in head.keys() - CHANGES_EACH_TIME})
            assert method == "GET" or await answer.read() == b""
    assert told["HEAD"] == told["GET"]
    assert told["HEAD"][0] < 500


async def test_head_does_not_use_an_authorization_up(running: RunningGateway) -> None:
    async with running.http.head(f"{running.url}/oauth/callback?state=x&code=y") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET")


async def test_a_node_that_does_not_serve_says_so_as_we_say_it(running: RunningGateway) -> None:
    running.services.serving = False
    async with running.http.get(f"{running.url}/ready") as answer:
        assert (answer.status, await answer.json()) == (503, {"result": "not ready"})
        assert answer.headers["Gateway-Error"] == "not_ready"
        assert answer.headers["Cache-Control"] == "no-store"
