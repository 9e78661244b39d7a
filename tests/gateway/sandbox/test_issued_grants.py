"""The sandbox's authorization server: codes and refresh tokens are valid once, and a replay revokes the grant."""

import json
from datetime import timedelta

import pytest

from gateway import clock
from gateway.sandbox.accounts import OFFLINE_SCOPE
from gateway.sandbox.issued_grants import CODE_TTL_S, GrantRefused, IssuedGrants, IssuedTokens, s256

VERIFIER = "v" * 43
BACK = "https://app.example.com/back"


def code_of(memory: IssuedGrants, *scopes: str) -> str:
    return memory.issue_code(
        client_id="app", redirect_uri=BACK, challenge=s256(VERIFIER), account_id="dana", scopes=list(scopes)
    )


def exchange_code(memory: IssuedGrants, code: str, **changes: str) -> IssuedTokens:
    return memory.exchange_code(code, **{"client_id": "app", "redirect_uri": BACK, "verifier": VERIFIER, **changes})


def assert_refused(error: str, memory: IssuedGrants, token: str, scopes: list[str] | None = None) -> None:
    with pytest.raises(GrantRefused) as fault:
        memory.refresh(token, client_id="app", scopes=scopes)
    assert fault.value.error == error


def advance_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    at = clock.now() + timedelta(seconds=seconds)
    monkeypatch.setattr(clock, "now", lambda: at)


@pytest.mark.parametrize("changes", [{"client_id": "other"}, {"redirect_uri": "https://x"}, {"verifier": "w" * 43}])
def test_a_code_is_bound_to_client_redirect_uri_and_verifier(changes: dict[str, str]) -> None:
    memory = IssuedGrants()
    code = code_of(memory)
    with pytest.raises(GrantRefused):
        exchange_code(memory, code, **changes)
    assert exchange_code(memory, code).refresh_token is None  # without offline_access


def test_an_old_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = IssuedGrants()
    code = code_of(memory)
    advance_clock(monkeypatch, CODE_TTL_S)
    with pytest.raises(GrantRefused, match="older than 60 s"):
        exchange_code(memory, code)


def test_a_second_use_of_a_code_revokes_the_tokens_of_the_first() -> None:
    memory = IssuedGrants()
    code = code_of(memory, OFFLINE_SCOPE)
    first = exchange_code(memory, code)
    assert memory.grant_and_scopes(first.access_token) is not None
    with pytest.raises(GrantRefused, match="already used"):
        exchange_code(memory, code)
    assert memory.grant_and_scopes(first.access_token) is None
    assert first.refresh_token is not None
    assert_refused("invalid_grant", memory, first.refresh_token)
    assert memory.replays == 1


def test_a_refresh_token_works_once_and_its_replay_revokes_the_grant() -> None:
    memory = IssuedGrants()
    first = exchange_code(memory, code_of(memory, OFFLINE_SCOPE, "read:sandbox-work"))
    assert first.refresh_token is not None
    second = memory.refresh(first.refresh_token, client_id="app", scopes=["read:sandbox-work"])
    assert second.refresh_token not in (None, first.refresh_token)
    assert_refused("invalid_grant", memory, first.refresh_token)
    assert second.refresh_token is not None
    assert_refused("invalid_grant", memory, second.refresh_token)


def test_a_refresh_cannot_widen_the_granted_scopes() -> None:
    memory = IssuedGrants()
    first = exchange_code(memory, code_of(memory, OFFLINE_SCOPE))
    assert first.refresh_token is not None
    assert_refused("invalid_scope", memory, first.refresh_token, ["write:sandbox-work"])
    assert_refused("invalid_grant", memory, "sbx_rt_unknown_x")
    assert_refused("invalid_grant", memory, "other")


def test_one_access_token_or_the_whole_grant_is_revoked() -> None:
    memory = IssuedGrants()
    first = exchange_code(memory, code_of(memory, OFFLINE_SCOPE))
    assert first.refresh_token is not None
    memory.revoke(first.access_token, client_id="other")
    assert memory.grant_and_scopes(first.access_token) is not None
    memory.revoke(first.access_token, client_id="app")
    assert memory.grant_and_scopes(first.access_token) is None
    second = memory.refresh(first.refresh_token, client_id="app", scopes=None)
    assert memory.revoke_all() == 1
    assert memory.grant_and_scopes(second.access_token) is None
    assert memory.revoke_all() == 0


def test_a_restart_keeps_the_state_without_expired_items(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = IssuedGrants(token_ttl_s=60)
    issued, cookie = exchange_code(memory, code_of(memory, OFFLINE_SCOPE)), memory.log_in("dana")
    again = IssuedGrants.from_json(json.loads(json.dumps(memory.as_json())), token_ttl_s=60)
    assert again.grant_and_scopes(issued.access_token) is not None
    assert again.logged_in_account(cookie) == "dana"
    again.log_out(cookie)
    assert again.logged_in_account(cookie) is None
    advance_clock(monkeypatch, 61)
    assert memory.grant_and_scopes(issued.access_token) is None
    assert memory.as_json()["access"] == {}
    assert issued.access_token not in json.dumps(memory.as_json())
