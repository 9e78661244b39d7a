"""kill -9 at the worst moment: the receiver has the event, and the gateway has not recorded that yet."""

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from gateway.events.delivery import LEASE
from tests.fakes.gateways import RunningGateway
from tests.fakes.processes import Files, serving
from tests.fakes.receiver import Receiver
from tests.gateway.events.conftest import deliver_due_events


async def test_event_received_before_the_process_was_killed_is_sent_again_with_the_same_id(
    receiver: Receiver, tmp_path: Path, advance_clock: Any
) -> None:
    files = Files(tmp_path, 1)
    files.document["egress"]["allow"].append(f"127.0.0.1/32:{receiver.port}")
    files.document["environments"]["dev"]["webhook_url"] = receiver.url
    files.write()
    async with serving(files) as process:

        def kill(_path: str, _body: Any) -> web.Response:
            process.kill_all()
            return web.Response(status=200)

        receiver.response = kill
        connecting = asyncio.create_task(process.connect())
        await receiver.wait_until_taken(1)
        await process.process.wait()
        await asyncio.gather(connecting, return_exceptions=True)
    receiver.response = lambda _path, _body: web.Response(status=200)
    files.document["server"] = {}
    gateway = RunningGateway(tmp_path, files.document)
    await gateway.start()
    await deliver_due_events(gateway)
    assert len(receiver.got) == 1, "the lease of the dead process has not expired"
    advance_clock(LEASE.total_seconds() + 1)
    gateway.runtime.deliverer.wake()
    first, second = await receiver.wait_until_taken(2)
    await deliver_due_events(gateway)
    await gateway.stop()
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert len(receiver.got) == 2
