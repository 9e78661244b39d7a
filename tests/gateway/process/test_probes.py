"""Responses of the admin port, which depend on the workers' reports and their age."""

import socket
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest
import structlog

from gateway.observe.metrics_page import SharedPages
from gateway.process.admin import DEAD_S, SILENT_S, Admin
from gateway.process.workers import WorkerProcess, Workers
from tests.fakes.raw import exchange

READY = {"status": 200, "body": {"result": "ok"}}
AWAY = {"status": 200, "body": {"result": "ok", "store": "away"}}
NOT_READY = {"status": 503, "body": {"result": "not ready", "store": "away"}}


def worker(pid: int, any_: dict[str, Any] | None, required: dict[str, Any] | None = None, age_s: float = 0.0) -> Any:
    made = WorkerProcess(0, pid, cast("socket.socket", None), 0, 0.0)
    if any_ is not None:
        made.report, made.reported_at = {"any": any_, "required": required or any_}, time.monotonic() - age_s
    return made


class ProbedAdmin:
    """An admin port. `workers`: the living workers."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.workers = Workers(lambda _: pytest.fail("nobody is started"), lambda *_: None)
        self.admin = Admin(self.listener, SharedPages(2), self.workers, time.time())

    def live(self, *workers: Any) -> None:
        self.workers.living = {item.pid: item for item in workers}

    async def ask(self, path: str) -> tuple[int, Any, str | None]:
        url = f"http://127.0.0.1:{self.listener.getsockname()[1]}{path}"
        async with aiohttp.ClientSession() as http, http.get(url) as response:
            assert response.headers["Cache-Control"] == "no-store"
            assert response.headers["Server"] == "gateway"
            return response.status, await response.json(), response.headers.get("Gateway-Error")


@pytest.fixture
async def probed_admin() -> AsyncIterator[ProbedAdmin]:
    made = ProbedAdmin()
    await made.admin.open()
    yield made
    await made.admin.close()


async def test_probe_is_healthy_first_and_ready_after_a_worker_reports(probed_admin: ProbedAdmin) -> None:
    probed_admin.live(worker(1, None))
    assert await probed_admin.ask("/ready") == (503, {"result": "not ready"}, "not_ready")
    assert await probed_admin.ask("/health") == (200, {"result": "ok"}, None), "a start may take minutes"
    probed_admin.live(worker(1, READY))
    assert await probed_admin.ask("/ready") == (200, {"result": "ok"}, None)


async def test_malformed_request_is_logged_in_one_line_of_the_gateway(
    probed_admin: ProbedAdmin, caplog: pytest.LogCaptureFixture
) -> None:
    with structlog.testing.capture_logs() as logs:
        response = await exchange(probed_admin.listener.getsockname()[1], b"GET /health HTTP/1.1\r\nno colon\r\n\r\n")
    assert response.split(b" ", 2)[1] == b"400"
    assert [(line["event"], line["status"]) for line in logs] == [("admin_request_refused", 400)]
    assert not [record for record in caplog.records if record.name.startswith("aiohttp")]


async def test_one_ready_worker_of_several_is_enough(probed_admin: ProbedAdmin) -> None:
    probed_admin.live(worker(1, NOT_READY), worker(2, READY), worker(3, None))
    assert (await probed_admin.ask("/ready"))[0] == 200


async def test_probe_reports_the_workers_database_state(probed_admin: ProbedAdmin) -> None:
    probed_admin.live(worker(1, AWAY, NOT_READY))
    assert await probed_admin.ask("/ready") == (200, AWAY["body"], None)
    assert await probed_admin.ask("/ready?store=required") == (503, NOT_READY["body"], "not_ready")


async def test_a_worker_that_is_silent_is_not_ready_and_in_the_end_not_healthy(probed_admin: ProbedAdmin) -> None:
    probed_admin.live(worker(1, READY, age_s=SILENT_S - 1))
    assert (await probed_admin.ask("/ready"))[0] == 200
    probed_admin.live(worker(1, READY, age_s=SILENT_S + 1))
    assert (await probed_admin.ask("/ready"))[0] == 503
    assert (await probed_admin.ask("/health"))[0] == 200
    probed_admin.live(worker(1, READY, age_s=DEAD_S + 1))
    assert (await probed_admin.ask("/health"))[0] == 503
    probed_admin.live(worker(1, READY, age_s=DEAD_S + 1), worker(2, READY))
    assert (await probed_admin.ask("/health"))[0] == 200


async def test_probe_is_not_ready_after_a_signal(probed_admin: ProbedAdmin) -> None:
    probed_admin.live(worker(1, READY))
    probed_admin.admin.stopping = True
    assert (await probed_admin.ask("/ready"))[0] == 503
    assert (await probed_admin.ask("/health"))[0] == 200


async def test_admin_port_returns_404_to_other_paths(probed_admin: ProbedAdmin) -> None:
    status, body, code = await probed_admin.ask("/providers")
    assert (status, body["error"]["code"], code) == (404, "not_found", "not_found")
