"""No route waits forever for a body that does not arrive. This holds for every route that accepts a body, with and
without a key.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from gateway.app.routes import ROUTES
from tests.fakes.gateways import SECRET_KEY, RunningGateway, document, tracker_entry, write_entry
from tests.fakes.raw import RawResponse, dial
from tests.fakes.tracker import Tracker

PLACES = {"environment": "dev", "unique_key": "tracker", "integration_id": "tracker", "session_id": "embedded"}
TAKING = sorted(
    {
        ("POST" if method == "*" else method, re.sub(r"{(\w+)(?::.+)?}", lambda at: PLACES.get(at[1], "c1"), path))
        for method, path, _ in ROUTES
        # test_caller_body tests these routes
        if method in {"*", "POST", "PUT", "PATCH", "DELETE"} and not path.startswith("/proxy")
    }
)
FORM = "application/x-www-form-urlencoded"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def impatient_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    """Yield a gateway that waits 0.2 s for the next byte of a body. All cases share this gateway, because each case is
    refused.
    """
    folder = tmp_path_factory.mktemp("impatient")
    tracker = Tracker()
    server = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{server.port}"
    write_entry(folder, "tracker", tracker_entry(tracker.url, webhook_routing_script="jira_webhook_routing"))
    configuration = document([f"127.0.0.1/32:{server.port}"])
    configuration["environments"]["dev"]["integrations"]["tracker"]["webhook_secret"] = "secret-of-the-webhooks"
    configuration["server"] = {"limits": {"body_idle_s": 0.2}}
    gateway = RunningGateway(folder, configuration)
    await gateway.start()
    await gateway.import_connection(tracker.grant(), "c1")
    yield gateway
    await gateway.stop()
    await server.close()


async def send_stalled_body(gateway: RunningGateway, method: str, path: str, *fields: str) -> RawResponse:
    """Send one byte of a body that should have ten, and return the response."""
    head = [f"{method} {path} HTTP/1.1", "Host: gw", "Content-Length: 10", *fields, "", ""]
    async with dial(urlsplit(gateway.url).port or 0) as client:
        client.send("\r\n".join(head).encode() + b"{")
        return await client.response()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("method", "path"), TAKING, ids=[" ".join(item) for item in TAKING])
@pytest.mark.parametrize("with_key", [True, False], ids=["with a key", "without"])
async def test_a_body_that_stalls_gets_a_response(
    method: str, path: str, with_key: bool, impatient_gateway: RunningGateway
) -> None:
    kind = FORM if path.startswith(("/oauth/site", "/connect/s/")) else "application/json"
    ours = ["Provider-Config-Key: tracker", "Connection-Id: c1"]
    fields = [
        f"Content-Type: {kind}",
        "Cookie: a=b",
        *([f"Authorization: Bearer {SECRET_KEY}", *ours] if with_key else []),
    ]
    response = await send_stalled_body(impatient_gateway, method, path, *fields)
    assert response.headers["connection"] == "close"
    assert response.status >= 400


async def test_without_its_cookie_no_form_is_read(tmp_path: Path) -> None:
    """Without its cookie, a form is refused before its body is read.

    The default time limit for a body is long. A response within seconds shows that the gateway did not wait for the
    body.
    """
    write_entry(tmp_path, "tracker", tracker_entry("http://127.0.0.1:9"))
    gateway = RunningGateway(tmp_path, document([]))
    await gateway.start()
    try:
        token = await gateway.session_token()
        async with gateway.http.get(
            f"{gateway.url}/connect?session_token={token}", headers={"Accept": "text/html"}
        ) as page:
            name = page.url.path.rpartition("/")[2]
        response = await send_stalled_body(gateway, "POST", f"/connect/s/{name}/i/tracker", f"Content-Type: {FORM}")
        assert response.headers["gateway-error"] == "invalid_connect_session_token_format"
    finally:
        await gateway.stop()
