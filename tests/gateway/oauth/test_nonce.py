"""The nonce of an authorization with `openid`: sent, and compared with the nonce of the ID token."""

import base64
import json
from typing import Any

import pytest

from gateway.oauth.authorize import nonce_acceptable, requests_id_token
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_credential_forms import start_flow, walk_flow


def id_token(claims: Any) -> str:
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{middle}.c2ln"


@pytest.mark.parametrize(
    ("token", "is_accepted"),
    [
        (id_token({"nonce": "mine"}), True),
        (id_token({"nonce": "another"}), False),
        (id_token({"nonce": ""}), False),
        (id_token({"nonce": ["mine"]}), False),
        (id_token({"nonce": "\ud800"}), False),
        (id_token({"sub": "1"}), True),
        (id_token([]), True),
        ("a.b.c", True),
        ("a.b.c.d.e", True),
        ("", True),
        (None, True),
        (7, True),
    ],
)
def test_a_wrong_nonce_is_refused_and_a_missing_nonce_is_accepted(token: object, is_accepted: bool) -> None:
    assert nonce_acceptable("mine", {"access_token": "a", "id_token": token}) is is_accepted
    assert nonce_acceptable("mine", {"access_token": "a"})


def test_an_id_token_is_requested_by_the_scope_openid() -> None:
    assert requests_id_token(("openid", "email"), {})
    assert requests_id_token((), {"scope": "email openid"})
    assert requests_id_token((), {"scope": "email,openid"})
    assert not requests_id_token(("email",), {"scope": "my_openid"})


@pytest.fixture
async def openid(running: RunningGateway) -> RunningGateway:
    running.document["environments"]["dev"]["integrations"]["tracker"]["scopes"] = ["openid"]
    await running.restart()
    return running


async def test_an_id_token_of_another_authorization_is_refused(openid: RunningGateway, tracker: Tracker) -> None:
    tracker.token_extra = {"id_token": id_token({"nonce": "of another one"})}
    status, html = await walk_flow(openid, await openid.session_token())
    assert status == 400
    assert "has the wrong nonce" in html
    assert (await openid.json("GET", "/connections"))["connections"] == []
    assert len(tracker.authorize_query["nonce"]) >= 43


async def test_each_authorization_has_a_new_nonce_and_a_provider_may_omit_it(
    openid: RunningGateway, tracker: Tracker
) -> None:
    seen = set()
    tracker.token_extra = {"id_token": id_token({"sub": "1"})}
    for _ in range(2):
        status, _ = await walk_flow(openid, await openid.session_token())
        assert status == 200
        seen.add(tracker.authorize_query["nonce"])
    assert len(seen) == 2


async def test_without_openid_no_nonce_is_sent(running: RunningGateway, tracker: Tracker) -> None:
    await walk_flow(running, await running.session_token())
    assert "nonce" not in tracker.authorize_query


@pytest.mark.parametrize(("value", "sent"), [("mine", "mine"), ("undefined", None)])
async def test_a_caller_chooses_the_nonce_or_leaves_it_out(
    value: str, sent: str | None, openid: RunningGateway, tracker: Tracker
) -> None:
    defaults = {"tracker": {"authorization_params": {"nonce": value}}}
    token = await openid.session_token(integrations_config_defaults=defaults)
    tracker.token_extra = {"id_token": id_token({"nonce": "mine"})}
    response = await start_flow(openid, token)
    response.release()
    status, _ = await walk_flow(openid, token)
    assert status == 200
    assert tracker.authorize_query.get("nonce") == sent
