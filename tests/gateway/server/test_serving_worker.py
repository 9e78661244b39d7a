"""A task that lasts as long as a block."""

import asyncio

import structlog

from gateway.server.serving_worker import beside


async def test_it_ends_with_its_block() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with beside(work()):
        await asyncio.sleep(0)
        assert not ended.is_set()
    assert ended.is_set()


async def test_one_that_fails_is_logged_at_once_and_does_not_end_the_block() -> None:
    async def work() -> None:
        raise RuntimeError("of ours")

    with structlog.testing.capture_logs() as logged:
        async with beside(work()):
            for _ in range(3):
                await asyncio.sleep(0)
            assert [(one["event"], one["log_level"]) for one in logged] == [("background_task_failed", "error")]
