"""The sandbox keeps its state over a restart, and its file contains no token."""

import json
import stat
from pathlib import Path

import pytest

from gateway.sandbox.app import running
from gateway.sandbox.sandbox_memory import MemoryUnreadable, SandboxMemory
from gateway.sandbox.visitor import browser
from tests.gateway.sandbox.conftest import CLIENT, Application

SITES = "/oauth/token/accessible-resources"


async def test_tokens_codes_and_logins_stay_valid_after_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "sandbox.json"
    async with browser() as session:
        async with running([CLIENT], state=state) as sandbox:
            application = Application(sandbox.issuer, session)
            tokens = await application.connect()
            code = (await application.walk())["code"]
        async with running([CLIENT], state=state) as sandbox:
            application.base = sandbox.issuer
            assert (await application.get(SITES, tokens["access_token"]))[0] == 200
            assert (await application.redeem(code))[0] == 200
            _, rotated = await application.refresh(tokens["refresh_token"])
        async with running([CLIENT], state=state) as sandbox:
            application.base = sandbox.issuer
            status, refusal = await application.redeem(code)
            assert (status, refusal["error"]) == (400, "invalid_grant")
            assert (await application.refresh(tokens["refresh_token"]))[0] == 400
            assert (await application.refresh(rotated["refresh_token"]))[0] == 400


async def test_the_file_is_private_and_contains_no_token(tmp_path: Path) -> None:
    state = tmp_path / "sandbox.json"
    async with running([CLIENT], state=state) as sandbox, browser() as session:
        tokens = await Application(sandbox.issuer, session).connect()
        cookies = [cookie.value for cookie in session.cookie_jar]
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    text = state.read_text()
    for secret in [tokens["access_token"], tokens["refresh_token"], *cookies]:
        assert secret not in text
        assert secret[-24:] not in text  # the random part of the secret; its prefix may occur


async def test_expired_items_are_not_stored(tmp_path: Path) -> None:
    state = tmp_path / "sandbox.json"
    async with running([CLIENT], state=state, token_ttl_s=0) as sandbox, browser() as session:
        await Application(sandbox.issuer, session).connect()
    assert json.loads(state.read_text())["grants"]["access"] == {}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2}', '{"version": 1}', '{"version": 1, "grants": {}}', "\x00"]
)
def test_a_file_of_another_format_is_refused_and_not_changed(tmp_path: Path, text: str) -> None:
    state = tmp_path / "sandbox.json"
    state.write_text(text)
    with pytest.raises(MemoryUnreadable, match=r"sandbox\.json"):
        SandboxMemory(state, token_ttl_s=60)
    assert state.read_text() == text
