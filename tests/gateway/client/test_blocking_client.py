"""The thread of the blocking client."""

import asyncio
import threading
import time

import pytest

from gateway.client import Unreachable
from gateway.client.blocking_client import Loop
from tests.fakes.patience import PATIENCE_S


def test_call_in_another_thread_fails_when_the_client_is_closed() -> None:
    """Such a call used to wait forever for an event loop that had stopped."""
    loop, raised, running = Loop(), [], threading.Event()

    async def wait() -> None:
        running.set()
        await asyncio.sleep(3600)

    def call() -> None:
        with pytest.raises(Unreachable, match="closed") as fault:
            loop.run(wait())
        raised.append(fault.value.cause)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert running.wait(PATIENCE_S)
    loop.stop()
    thread.join(PATIENCE_S)
    assert raised == ["the client was closed"]


def test_iteration_in_another_thread_fails_when_the_client_is_closed() -> None:
    loop, raised, running = Loop(), [], threading.Event()

    async def items():  # type: ignore[no-untyped-def]
        yield 1
        running.set()
        await asyncio.sleep(3600)

    def read() -> None:
        with pytest.raises(Unreachable):
            list(loop.iterate(items()))
        raised.append(loop.runs_in_this_process)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    assert running.wait(PATIENCE_S)
    loop.stop()
    thread.join(PATIENCE_S)
    assert raised == [False]  # no second loop was started to close the iterator


def test_loop_starts_again_after_it_was_stopped() -> None:
    loop = Loop()
    for _ in range(2):
        loop.run(asyncio.sleep(0))
        loop.stop()
    time.sleep(0)
    assert not loop.runs_in_this_process
