"""The results of a connect session for a key that is limited to tags: only what fits its tags."""

from typing import Any

from gateway.client import code_challenge, new_code_verifier
from tests.fakes.gateways import SECRET_KEY, RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_connect_endpoints import call, create_reconnect, create_session
from tests.gateway.api.test_credential_forms import walk_flow

VERIFIER = new_code_verifier()
BOUND = {"code_challenge": code_challenge(VERIFIER)}
RED, BLUE = {"team": "red"}, {"team": "blue"}


async def mint_limited_key(running: RunningGateway, tags: dict[str, str]) -> str:
    body = {"display_name": str(tags), "scopes": ["environment:connect_sessions:write"], "limits": {"tags": tags}}
    minted = await running.json("POST", "/environment/api-keys", json=body, expect=200)
    return str(minted["data"]["secret"])


async def poll_result(running: RunningGateway, session: dict[str, Any], key: str, query: str = "") -> tuple[int, Any]:
    async with running.http.get(session["poll_url"] + query, headers={"Authorization": f"Bearer {key}"}) as response:
        return response.status, await response.json()


async def complete(running: RunningGateway, session: dict[str, Any], key: str, verifier: str = VERIFIER) -> int:
    url, headers = f"{session['poll_url']}/complete", {"Authorization": f"Bearer {key}"}
    async with running.http.post(url, json={"code_verifier": verifier}, headers=headers) as response:
        return response.status


async def test_a_key_limited_to_tags_sees_no_session_and_result_of_others(
    running: RunningGateway, tracker: Tracker
) -> None:
    """Before, such a key saw the id of another person's connection, and the text of a failure."""
    red, blue = await mint_limited_key(running, RED), await mint_limited_key(running, BLUE)
    session = await create_session(running, tags=RED)
    unknown = await poll_result(running, {"poll_url": f"{running.url}/connect/sessions/{'0' * 64}"}, blue)
    assert unknown[0] == 404
    assert await poll_result(running, session, blue, "?wait_s=30") == unknown
    assert (await poll_result(running, session, red))[1]["data"]["status"] == "pending"
    await walk_flow(running, session["token"])
    status, found = await poll_result(running, session, red)
    assert (status, found["data"]["status"], len(found["data"]["connections"])) == (200, "connected", 1)
    assert await poll_result(running, session, blue) == unknown
    assert (await call(running, "DELETE", "/connect/session", session["token"]))[0] == 204
    assert await poll_result(running, session, blue) == unknown
    assert (await poll_result(running, session, red))[1]["data"]["connections"] == found["data"]["connections"]


async def test_a_failed_attempt_is_shown_only_while_its_session_shows_its_tags(
    running: RunningGateway, tracker: Tracker
) -> None:
    red, blue = await mint_limited_key(running, RED), await mint_limited_key(running, BLUE)
    session = await create_session(running, tags=RED)
    await walk_flow(running, session["token"], "&params[subdomain]=nowhere")
    status, found = await poll_result(running, session, red)
    assert (status, found["data"]["error"]["type"]) == (200, "connection_validation_failed")
    assert (await poll_result(running, session, blue))[0] == 404
    assert (await call(running, "DELETE", "/connect/session", session["token"]))[0] == 204
    for key, expected in ((red, 404), (blue, 404), (SECRET_KEY, 200)):
        assert (await poll_result(running, session, key))[0] == expected


async def test_a_key_limited_to_tags_cannot_complete_or_disturb_other_connections(
    running: RunningGateway, tracker: Tracker
) -> None:
    """Before, such a key could send five wrong verifiers, after which the gateway deletes a pending connection."""
    red, blue = await mint_limited_key(running, RED), await mint_limited_key(running, BLUE)
    session = await create_session(running, tags=RED, **BOUND)
    await walk_flow(running, session["token"])
    for _ in range(5):
        assert await complete(running, session, blue, new_code_verifier()) == 404
    assert await complete(running, session, blue) == 404
    assert (await poll_result(running, session, red))[1]["data"]["connections"][0]["is_pending"] is True
    assert await complete(running, session, red) == 200
    assert (await poll_result(running, session, red))[1]["data"]["status"] == "connected"


async def test_after_a_session_has_ended_only_a_key_with_its_tags_completes_its_connection(
    running: RunningGateway, tracker: Tracker
) -> None:
    red, blue = await mint_limited_key(running, RED), await mint_limited_key(running, BLUE)
    session = await create_session(running, tags=RED, **BOUND)
    await walk_flow(running, session["token"])
    assert (await call(running, "DELETE", "/connect/session", session["token"]))[0] == 204
    assert (await poll_result(running, session, blue))[0] == 404
    assert await complete(running, session, blue, new_code_verifier()) == 404
    assert (await poll_result(running, session, red))[1]["data"]["connections"][0]["is_pending"] is True
    assert await complete(running, session, red) == 200


async def test_a_reconnect_is_seen_and_completed_with_the_tags_of_its_connection(
    running: RunningGateway, tracker: Tracker
) -> None:
    red, blue = await mint_limited_key(running, RED), await mint_limited_key(running, BLUE)
    await walk_flow(running, (await create_session(running, tags=RED))["token"])
    connection_id = (await running.json("GET", "/connections"))["connections"][0]["connection_id"]
    session = await create_reconnect(running, connection_id, **BOUND)
    await walk_flow(running, session["token"])
    assert await complete(running, session, blue) == 404
    assert await complete(running, session, red) == 200
    to_blue = await create_reconnect(running, connection_id, tags=BLUE, **BOUND)
    await walk_flow(running, to_blue["token"])
    assert (await poll_result(running, to_blue, red))[0] == 200
    assert (await poll_result(running, to_blue, blue))[1]["data"]["connections"] == []
    assert (await complete(running, to_blue, red), await complete(running, to_blue, blue)) == (409, 409)
    assert (await running.json("GET", "/connections"))["connections"][0]["tags"]["team"] == "red"
