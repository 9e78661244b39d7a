"""Interrupted deletions of integrations are resumed for as long as the gateway runs."""

import asyncio
import itertools
from unittest.mock import AsyncMock, Mock

import pytest

from gateway.background import beside
from gateway.connections import api_integrations
from gateway.connections.api_integrations import ApiIntegrations, resume_deletions_regularly
from tests.fakes.patience import PATIENCE_S


async def test_deletions_are_resumed_after_a_failure_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_integrations, "RESUME_EVERY_S", 0.01)
    resume = AsyncMock(side_effect=itertools.chain([KeyError("a bug")], itertools.repeat(None)))
    async with beside(resume_deletions_regularly(Mock(ApiIntegrations, resume_deletions=resume))):
        async with asyncio.timeout(PATIENCE_S):
            while resume.await_count < 2:
                await asyncio.sleep(0.01)
    assert resume.await_count >= 2
