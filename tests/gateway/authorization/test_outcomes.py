"""A failed authorization logs one warning with environment, integration, the provider's message and the request id."""

from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tests.fakes.gateways import RunningGateway, write_entry
from tests.fakes.pages import submit
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_credential_forms import walk_flow

FLOW_FIELDS = {"environment": "dev", "integration": "tracker", "log_level": "warning"}


def failure_line(logs: Any) -> dict[str, Any]:
    (line,) = [dict(line) for line in logs if line["event"] == "authorization_failed"]
    return line


async def test_refused_code_is_logged_with_the_providers_message(running: RunningGateway, tracker: Tracker) -> None:
    tracker.response = web.json_response(
        {"error": "invalid_client", "error_description": "Unknown client, client_secret=hunter2 " + "x" * 1000},
        status=401,
    )
    with capture_logs() as logs:
        status, html = await walk_flow(running, await running.session_token())
    line = failure_line(logs)
    assert status == 400
    assert (
        line.items() >= (FLOW_FIELDS | {"reason": "token_request_failed", "provider_error": "invalid_client"}).items()
    )
    assert line["provider_description"].startswith("Unknown client")
    assert "hunter2" not in str(line)
    assert all(len(text) <= 500 for text in line.values())
    assert line["request_id"] in html, "the page shows the request_id of the log line"


async def test_the_providers_refusal_of_an_authorization_is_logged(running: RunningGateway, tracker: Tracker) -> None:
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}"
    async with running.http.get(begin, allow_redirects=False) as response:
        state = response.headers["Location"].partition("state=")[2].partition("&")[0]
    query = {"state": state, "error": "access_denied", "error_description": "Not today"}
    with capture_logs() as logs:
        async with running.http.get(f"{running.url}/oauth/callback", params=query) as response:
            assert response.status == 400
            request_id = response.headers["Gateway-Request-Id"]
    result = {"reason": "authorization_refused", "provider_error": "access_denied", "provider_description": "Not today"}
    assert failure_line(logs).items() >= (FLOW_FIELDS | result | {"request_id": request_id}).items()


async def test_an_authorization_that_cannot_begin_is_logged(running: RunningGateway, tracker: Tracker) -> None:
    token = await running.session_token()
    with capture_logs() as logs:
        status, _ = await walk_flow(running, token, "&connection_id=x")
    assert status == 400
    assert failure_line(logs).items() >= (FLOW_FIELDS | {"reason": "invalid_query_params"}).items()
    assert token not in str(logs)


@pytest.mark.parametrize("by_page", [True, False])
async def test_a_credential_that_its_provider_refuses_is_logged(
    by_page: bool, running: RunningGateway, tracker: Tracker
) -> None:
    entry = {
        "display_name": "Keyed",
        "categories": ["other"],
        "docs": "https://docs.example.com",
        "auth_mode": "API_KEY",
        "proxy": {
            "base_url": tracker.url,
            "headers": {"authorization": "Bearer ${apiKey}"},
            "verification": {"method": "GET", "endpoints": ["/nowhere-at-all"]},
        },
    }
    write_entry(running.folder, "keyed", entry)
    running.document["environments"]["dev"]["integrations"]["keyed"] = {"provider": "keyed"}
    await running.restart()
    token = await running.session_token(allowed_integrations=["keyed"])
    with capture_logs() as logs:
        if by_page:
            async with running.http.get(
                f"{running.url}/connect?session_token={token}", headers={"Accept": "text/html"}
            ) as page:
                url = f"{page.url}/i/keyed"
            response = await submit(running.http, url, {"credentials[apiKey]": "wrong-key-1234"})
        else:
            url = f"{running.url}/api-auth/api-key/keyed?connect_session_token={token}"
            async with running.http.post(url, json={"apiKey": "wrong-key-1234"}) as response:
                pass
        assert response.status == 400
    line = failure_line(logs)
    assert line.items() >= (FLOW_FIELDS | {"integration": "keyed", "reason": "connection_test_failed"}).items()
    assert line["request_id"] == response.headers["Gateway-Request-Id"]
    assert "wrong-key-1234" not in str(line)


async def test_an_authorization_that_succeeds_is_not_logged_as_failed(
    running: RunningGateway, tracker: Tracker
) -> None:
    with capture_logs() as logs:
        assert (await walk_flow(running, await running.session_token()))[0] == 200
    assert not [line for line in logs if line["event"] == "authorization_failed"]
