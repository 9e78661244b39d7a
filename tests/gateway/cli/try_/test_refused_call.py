"""The output of `gateway try` for an error, and the link that fixes it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.app.routes import ROUTES
from gateway.cli.try_.refused_call import explain_refusal
from gateway.cli.try_.try_target import ConnectionPath, TargetGateway
from gateway.client import CutShort, GatewayError
from gateway.secret import Secret
from tests.fakes.gateways import SECRET_KEY, RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.cli.try_.conftest import Try

RECONNECTS = any(path == "/connect/sessions/reconnect" for _, path, _ in ROUTES)
NAMED = ConnectionPath("jira", "u1", "/x")
TARGET = TargetGateway("http://gw", Secret("k"), "gateway serve", "gateway.yaml")


class Stub:
    """A client that creates reconnect sessions, or gets an error."""

    def __init__(self, link: str | None) -> None:
        self.link = link

    def create_reconnect_session(self, *named: str) -> dict[str, Any]:
        if self.link is None:
            raise GatewayError(404, "not_found", "no such endpoint")
        assert named == ("jira", "u1")
        return {"connect_link": self.link}


@pytest.mark.parametrize(
    ("payload", "made", "link"),
    [
        ({"connect_url": "http://gw/from-the-refusal"}, "http://gw/made", "http://gw/from-the-refusal"),
        ({"reason": "revoked"}, "http://gw/made", "http://gw/made"),
        ({}, None, None),
    ],
)
def test_connection_that_needs_reauthorization_is_reported_with_the_link(
    payload: dict[str, str], made: str | None, link: str | None
) -> None:
    fault = GatewayError(424, "reconnect_needed", "The provider refused.", payload=payload, request_id="r-1")
    result = explain_refusal(Stub(made), fault, NAMED, TARGET)  # type: ignore[arg-type]
    assert result.lines[0] == "reconnect_needed: The provider refused."
    assert (link in result.lines) is (link is not None)
    assert result.report.get("connect_url") == link
    assert any("connections why --integration jira u1" in line for line in result.lines)
    assert result.lines[-1] == "request id r-1"


def test_a_printed_command_names_the_configuration_that_was_used() -> None:
    fault = GatewayError(424, "reconnect_needed", "The provider refused.", request_id="r-1")
    call_path = ConnectionPath("jira", "user 1", "/x")
    for file, option in ((None, ""), (Path("gateway.yaml"), ""), (Path("a b/gateway.yaml"), " -c 'a b/gateway.yaml'")):
        target = replace(TARGET, file=file)
        lines = explain_refusal(Stub(None), fault, call_path, target).lines  # type: ignore[arg-type]
        (command,) = [line for line in lines if "connections why" in line]
        assert command.endswith(f"connections why{option} --integration jira 'user 1'")


def test_an_integration_without_connections_is_named() -> None:
    class Empty(Stub):
        def list_connections(self, **_: Any) -> list[dict[str, Any]]:
            return []

    fault = GatewayError(404, "unknown_connection", "No connection.", request_id="r-1")
    lines = explain_refusal(Empty(None), fault, NAMED, TARGET).lines  # type: ignore[arg-type]
    assert "there are no connections of 'jira'" in lines


def test_retry_after_is_shown_with_its_end() -> None:
    fault = GatewayError(503, "busy", "Too many.", payload={"retry_at": "2030-01-02T03:04:05Z"}, request_id="r-2")
    result = explain_refusal(Stub(None), fault, NAMED, TARGET)  # type: ignore[arg-type]
    assert "retry after 2030-01-02 03:04:05 UTC" in result.lines


def test_cut_off_response_is_reported_with_its_message() -> None:
    arguments = Stub(None), CutShort("the response was interrupted"), NAMED, TARGET
    assert explain_refusal(*arguments).lines == ("the response was interrupted",)  # type: ignore[arg-type]


async def test_real_gateway_reports_a_connection_that_the_provider_ended(
    tracker: Tracker, running: RunningGateway, try_command: Try
) -> None:
    grant = tracker.grant() | {"expires_at": "2020-01-01T00:00:00Z"}
    del grant["expires_in"]
    await running.import_connection(grant)
    tracker.grants[0].revoked = True
    result = await try_command("tracker", "c1", "/x", "--url", running.url, "--key", SECRET_KEY, "--json")
    assert result.exit_code == 1
    body = json.loads(result.stdout)["error"]
    assert (body["status"], body["code"]) == (424, "reconnect_needed")
    assert any("connections why --integration tracker c1" in line for line in body["hints"])
    if RECONNECTS:
        assert body["connect_url"].startswith(f"{running.url}/connect")
        assert body["connect_url"] in result.stderr.splitlines()
