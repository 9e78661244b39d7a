"""The admin port: metrics of all workers, and what happens to them when a worker dies."""

import asyncio
import gzip
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.fakes.load import Load, Upstream
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port
from tests.fakes.processes import Files, ServingProcess, head, serving
from tests.fakes.raw import exchange, parsed

PROMTOOL = shutil.which("promtool")

# The gateway runs in processes of its own, so the test needs to run with one event loop only, not also with uvloop.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


async def total(gateway: ServingProcess, name: str) -> float:
    families = text_string_to_metric_families(await gateway.metrics())
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


async def wait_until_total(gateway: ServingProcess, name: str, wanted: float) -> None:
    """Wait until a total is reached, since a request is counted after its response was sent. A total never
    decreases."""
    seen = 0.0
    async with asyncio.timeout(PATIENCE_S):
        while seen < wanted:
            now = await total(gateway, name)
            assert now >= seen
            seen = now
            await asyncio.sleep(0.05)
    assert seen == wanted


async def wait_until_gauge_above(gateway: ServingProcess, name: str, least: float) -> None:
    """Wait until a gauge is exceeded, since other workers' gauges are a few seconds old."""
    async with asyncio.timeout(PATIENCE_S):
        while await total(gateway, name) <= least:
            await asyncio.sleep(0.05)


async def test_request_counts_are_summed_over_workers_and_survive_their_end(tmp_path: Path) -> None:
    upstream, workers = Upstream(), 2
    async with upstream.serving(), serving(Files(tmp_path, upstream.port, workers=workers, admin_port=0)) as gateway:
        await gateway.connect()
        load = Load(gateway.port, head("/short"), 4)
        await load.further(50)
        await load.stop()
        await wait_until_total(gateway, "gateway_proxy_requests_total", load.total)
        await reaches_workers(gateway, workers)
        assert await total(gateway, "gateway_build_info") == 1
        await wait_until_gauge_above(gateway, "gateway_live_connections", 0)
        await wait_until_gauge_above(gateway, "gateway_fast_path_requests_total", 0)
        await wait_until_gauge_above(gateway, "gateway_upstream_connections", 0)
        await wait_until_gauge_above(gateway, "gateway_process_resident_memory_bytes", workers * 10_000_000)
        await wait_until_gauge_above(gateway, "gateway_process_open_fds", workers * 5)
        await wait_until_gauge_above(gateway, "process_open_fds", workers * 5)
        await wait_until_gauge_above(gateway, "process_max_fds", workers * 5)
        assert await total(gateway, "gateway_workers_wanted") == workers
        os.kill(gateway.workers()[0], signal.SIGKILL)
        await gateway.logged("worker_died")
        assert await total(gateway, "gateway_proxy_requests_total") == load.total
        cpu_s = await total(gateway, "gateway_process_cpu_seconds_total")
        again = Load(gateway.port, head("/short"), 4)
        await again.further(50)
        await again.stop()
        await wait_until_total(gateway, "gateway_proxy_requests_total", load.total + again.total)
        await reaches_workers(gateway, 2)
        assert await total(gateway, "gateway_process_cpu_seconds_total") >= cpu_s


async def reaches_workers(gateway: ServingProcess, wanted: int) -> None:
    """Wait for the number of workers, which is a few seconds old."""
    async with asyncio.timeout(PATIENCE_S):
        while await total(gateway, "gateway_workers") != wanted:
            await asyncio.sleep(0.05)


async def test_metrics_may_be_compressed_and_are_not_on_the_public_port(tmp_path: Path) -> None:
    async with serving(Files(tmp_path, 1, admin_port=0)) as gateway:
        admin = int(gateway.metrics_url.rpartition(":")[2].partition("/")[0])
        request = b"GET /metrics HTTP/1.1\r\nHost: gw\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        response = parsed(await exchange(admin, request))
        assert response.headers["content-encoding"] == "gzip"
        assert b"gateway_build_info" in gzip.decompress(response.body)
        assert parsed(await exchange(gateway.port, request)).status == 404
        response = parsed(await exchange(admin, request.replace(b"/metrics", b"/providers")))
        assert (response.status, response.error["code"]) == (404, "not_found")


async def listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


async def test_admin_port_is_ready_once_the_gateway_has_said_so(tmp_path: Path) -> None:
    async with serving(Files(tmp_path, free_port(), admin_port=0)) as gateway, aiohttp.ClientSession() as http:
        for query in ("", "?store=required"):
            async with http.get(gateway.metrics_url.removesuffix("/metrics") + f"/ready{query}") as response:
                assert (response.status, await response.json()) == (200, {"result": "ok"})


async def test_each_port_is_open_only_on_its_own_host(tmp_path: Path) -> None:
    """Callers of `server.host` reach neither the metrics nor the console if these have hosts of their own."""
    hosts = ("127.0.0.2", "127.0.0.3", "127.0.0.4")  # no other test listens on these
    public, admin, console = ports = (free_port(), free_port(), free_port())
    files = Files(tmp_path, 1, host=hosts[0], port=public, admin_host=hosts[1], admin_port=admin)
    files.document["console"] = {"enabled": True, "host": hosts[2], "port": console}
    files.write()
    async with serving(files) as gateway:
        assert gateway.metrics_url == f"http://{hosts[1]}:{admin}/metrics"
        assert "gateway_build_info" in await gateway.metrics()
        opened = [(host, port) for host in hosts for port in ports if await listens(host, port)]
    assert opened == list(zip(hosts, ports, strict=True))


async def test_a_busy_admin_port_is_one_line_that_names_the_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AssertionError, match=f"127.0.0.1:{port} is in use. Change server.admin_port"):
            async with serving(Files(tmp_path, 1, admin_port=port)):
                pass


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of the Debian package prometheus")
async def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    upstream = Upstream()
    async with upstream.serving(), serving(Files(tmp_path, upstream.port, admin_port=0)) as gateway:
        await gateway.connect()
        load = Load(gateway.port, head("/short"), 1)
        await load.further(5)
        await load.stop()
        await wait_until_total(gateway, "gateway_proxy_requests_total", load.total)
        text = await gateway.metrics()
    assert PROMTOOL is not None
    checked = await asyncio.to_thread(
        subprocess.run, [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
