"""The fast path together with metrics, timeouts and reloads, and with a shutdown that loses no request."""

import asyncio
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import gateway
from gateway.observe.metrics_text import total
from tests.fakes.clock import Clock
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, raw_provider, read_message
from tests.gateway.proxy.test_server_timing import split
from tests.gateway.server.test_fast_path import dial, gateway_to_provider, get, port_of, warm


def series_of(running: RunningGateway, name: str) -> dict[tuple[str, ...], float]:
    metrics = running.runtime.metrics
    return {key[1:]: numbers[0] for key, numbers in total([metrics.page]).items() if key[0] == name}


async def test_fast_path_requests_are_counted_and_timed(tmp_path: Path, clock: Clock) -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_message(reader)
            clock.ahead_s += 5
            writer.write(OK)

    async with raw_provider(slow) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            responses = [await client.ask(get()) for _ in range(3)]
        taken = running.fast_path.taken
        assert taken >= 2
        assert series_of(running, "gateway_proxy_requests_total") == {("dev", "acme", "GET", "200", ""): 4}
        split_ms = next(numbers for key, numbers in total([running.runtime.metrics.page]).items() if key[0] == "split")
    for response in responses:
        text = split((response.head.one("server-timing") or b"").decode())
        assert list(text) == ["gateway", "token", "upstream"]
        assert 5000 <= text["upstream"] < 9000
        assert text["token"] == 0
        assert 0 < text["gateway"] < 4000
    assert 20_000 <= split_ms[-1] < 36_000  # the sum of all upstream times


async def test_a_handed_over_request_counts_the_time_on_the_fast_path(tmp_path: Path, clock: Clock) -> None:
    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
            else:
                clock.ahead_s += 5
                writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")

    async with raw_provider(refusing) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        notes = []
        running.runtime.call_queue.record = notes.append  # type: ignore[method-assign]
        async with dial(port_of(running)) as client:
            await client.ask(get(b"/proxy/warm"))
            response = await client.ask(get())
        assert running.fast_path.handed_over == 1
        assert running.runner is not None
        counts = dict(running.runner.counts())
        assert counts["gateway_fast_path_requests_total",] == running.fast_path.taken == 2
        assert counts["gateway_fast_path_handed_over_total",] == 1
    assert response.status == 401
    assert 5000 <= split((response.head.one("server-timing") or b"").decode())["upstream"] < 9000
    record = notes[-1]
    assert 5000 <= record.upstream_ms <= record.duration_ms < 9000
    assert record.gateway_ms < 4000


async def test_a_reload_counts_from_the_next_request_on(tmp_path: Path) -> None:
    async with raw_provider() as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            for _ in range(2):
                assert (await client.ask(get())).status == 200
            taken = running.fast_path.taken
            assert taken
            entry = yaml.safe_load((tmp_path / "catalog" / "acme.yaml").read_text())
            entry["proxy"]["base_url"] += "/v2"
            (tmp_path / "catalog" / "acme.yaml").write_text(yaml.safe_dump(entry))
            assert await gateway.reload(running.app, running.runtime.generation.config)
            for _ in range(2):
                assert (await client.ask(get())).status == 200
            assert provider.request_line() == "GET /v2/x HTTP/1.1"
            assert running.fast_path.taken > taken  # after the middleware chain has opened the connection again
            running.document["environments"]["dev"]["secret_keys"] = ["sk-another-0123456789abcdef"]
            (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(running.document))
            assert await gateway.reload(running.app, tmp_path / "gateway.yaml")
            assert (await client.ask(get())).status == 401


async def test_a_request_that_is_handed_over_ends_with_the_generation_it_began_with(tmp_path: Path) -> None:
    """The reload removes the key from gateway.yaml during the request. Only later requests with this key are refused."""
    came, resume_reading = asyncio.Event(), asyncio.Event()

    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
                continue
            came.set()
            await resume_reading.wait()
            writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 9\r\n\r\nprovider\n")

    async with raw_provider(refusing) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.ask(get(b"/proxy/warm"))
            await client.send(get())
            await came.wait()
            running.document["environments"]["dev"]["secret_keys"] = ["sk-another-0123456789abcdef"]
            (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(running.document))
            assert await gateway.reload(running.app, tmp_path / "gateway.yaml")
            resume_reading.set()
            response = await client.response()
            assert (response.status, response.body.data) == (401, b"provider\n")
            assert running.fast_path.handed_over == 1
            after = await client.ask(get())
            assert (after.status, b"unknown_account" in after.body.data) == (401, True)


async def test_a_post_that_was_sent_is_not_sent_again_where_a_reload_has_moved_its_provider(tmp_path: Path) -> None:
    came, resume_reading, posts = asyncio.Event(), asyncio.Event(), list[bytes]()

    async def breaking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if not head.startswith(b"POST"):
                writer.write(OK)
                continue
            posts.append(head.partition(b"\r\n")[0])
            came.set()
            await resume_reading.wait()
            return

    async with raw_provider(breaking) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.ask(get())
            body = b"Content-Length: 2\r\n"
            await client.send(get(more=body).replace(b"GET", b"POST", 1) + b"{}")
            await came.wait()
            entry = yaml.safe_load((tmp_path / "catalog" / "acme.yaml").read_text())
            entry["proxy"]["base_url"] += "/v2"
            (tmp_path / "catalog" / "acme.yaml").write_text(yaml.safe_dump(entry))
            assert await gateway.reload(running.app, running.runtime.generation.config)
            resume_reading.set()
            response = await client.response()
            assert running.fast_path.handed_over == 1
    assert posts == [b"POST /x HTTP/1.1"]
    assert response.status == 502


async def test_after_a_keep_alive_response_one_more_request_is_answered_during_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("gateway.server.runner"), "FIRST_REQUEST_S", PATIENCE_S)
    resume_reading = asyncio.Event()

    async def in_two_halves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/halves" not in head:
                writer.write(OK)
                continue
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
            await resume_reading.wait()
            writer.write(b"k")

    async with raw_provider(in_two_halves) as provider, gateway_to_provider(provider, tmp_path) as running:
        running.drain_s = PATIENCE_S
        await running.restart()
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.ask(get())
            taken = running.fast_path.taken
            await client.send(get(b"/proxy/halves"))
            assert b"\r\nConnection: close" not in await client.head()
            assert running.fast_path.taken == taken + 1
            assert running.runner is not None
            stopping = asyncio.create_task(running.runner.cleanup())
            await asyncio.sleep(0)
            resume_reading.set()
            assert await client.reader.readexactly(2) == b"ok"
            await client.send(get(b"/proxy/next"))
            response = await client.response()
            assert (response.status, response.head.one("connection")) == (200, b"close")
            await stopping
