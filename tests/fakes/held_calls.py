"""Holds a call of a method after its work, so that a test can act before the caller gets the result."""

import asyncio
from typing import Any

import pytest


def hold_after(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold the result of the first call of the coroutine method or function `owner.name`.

    Return two events: the first is set when the work of the call is done. The test sets the second to return the result.
    """
    done, may_return, method = asyncio.Event(), asyncio.Event(), getattr(owner, name)

    async def call_and_hold(*args: Any, **options: Any) -> Any:
        result = await method(*args, **options)
        if not done.is_set():
            done.set()
            await may_return.wait()
        return result

    monkeypatch.setattr(owner, name, call_and_hold)
    return done, may_return
