"""Background tasks: cancelled at the end of their block, and logged when they fail."""

import asyncio

import structlog

from gateway.background import ShieldedTasks, beside, end_background, start_background


async def test_background_task_ends_with_its_block() -> None:
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


async def test_failing_task_is_logged_immediately_and_does_not_end_the_block() -> None:
    async def work() -> None:
        raise RuntimeError("of ours")

    with structlog.testing.capture_logs() as logged:
        async with beside(work()):
            for _ in range(3):
                await asyncio.sleep(0)
            assert [(event["event"], event["log_level"]) for event in logged] == [("background_task_failed", "error")]


async def test_a_failure_is_logged_with_the_name_of_the_task() -> None:
    async def work() -> None:
        raise RuntimeError("of ours")

    with structlog.testing.capture_logs() as logged:
        task = start_background(work(), "keep_alive")
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert [event["task"] for event in logged] == ["keep_alive"]


async def test_cancelled_tasks_are_not_logged_as_failures() -> None:
    with structlog.testing.capture_logs() as logged:
        tasks = [start_background(asyncio.sleep(3600)) for _ in range(2)]
        await end_background(tasks)
    assert all(task.cancelled() for task in tasks)
    assert logged == []


async def test_shielded_work_continues_if_its_caller_is_cancelled_and_close_waits_for_it() -> None:
    tasks, may_end, ended = ShieldedTasks(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await may_end.wait()
        ended.set()
        raise RuntimeError("that nobody gets")

    caller = asyncio.create_task(tasks.run(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    assert caller.cancelled()
    closing = asyncio.create_task(tasks.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_end.set()
    await closing
    assert ended.is_set()
