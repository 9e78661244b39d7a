"""Work that the hot path of a proxied request must not do, and the error code for each faulty request."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from tests.fakes.gateways import RunningGateway, document, write_entry
from tests.fakes.tracker import Tracker


@pytest.fixture
def statements() -> Iterator[list[tuple[str, str]]]:
    """Yield a list of the SQL statements of this process, each with the name of the task that executed it."""
    seen: list[tuple[str, str]] = []

    def spy(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        task = asyncio.current_task()
        seen.append((statement, task.get_name() if task else ""))

    event.listen(Engine, "before_cursor_execute", spy)
    yield seen
    event.remove(Engine, "before_cursor_execute", spy)


async def test_a_call_with_a_fresh_token_executes_no_sql_statement(
    running: RunningGateway, tracker: Tracker, statements: list[tuple[str, str]]
) -> None:
    await running.import_connection(tracker.grant())
    async with running.call_proxy("c1") as response:
        assert response.status == 200
    assert statements  # shows that the spy works: the import and the first request execute statements
    statements.clear()
    for _ in range(20):
        async with running.call_proxy("c1") as response:
            assert response.status == 200
    following = {"follow_changes", "recover_refreshes", "keep_alive", "prune", "write_call_log"}
    following |= {"deliver_events", "keep_events"}
    assert [sql for sql, task in statements if task not in following] == []


@pytest.fixture
async def several_providers(tracker: Tracker, tmp_path: Path, unused_tcp_port: int) -> Any:
    """Yield a gateway with several providers. Each fails in a different way."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    torn, closed = server.sockets[0].getsockname()[1], unused_tcp_port
    urls = {
        "torn": f"http://127.0.0.1:{torn}",
        "closed": f"http://127.0.0.1:{closed}",
        "private": "https://10.0.0.1",
        "plain": "http://127.0.0.1:1",
    }
    for name, url in urls.items():
        entry = {"display_name": name, "categories": ["other"], "docs": "https://d.example", "auth_mode": "API_KEY"}
        write_entry(tmp_path, name, {**entry, "proxy": {"base_url": url, "headers": {"x-api-key": "${apiKey}"}}})
    write_entry(tmp_path, "tracker", {**entry, "proxy": {"base_url": tracker.url}})
    running = RunningGateway(
        tmp_path,
        document([f"127.0.0.1/32:{torn}", f"127.0.0.1/32:{closed}"], **{name: {"provider": name} for name in urls}),
    )
    await running.start()
    for name in urls:
        body = {"provider_config_key": name, "connection_id": "c1", "credentials": {"type": "API_KEY", "apiKey": "k"}}
        await running.json("POST", "/connections", json=body, expect=201)
    yield running
    await running.stop()
    server.close()
    await server.wait_closed()


SAD = [
    ({"Authorization": "Bearer sk-wrong-wrong-wrong"}, "closed", 401, "unknown_account"),
    ({"Authorization": ""}, "closed", 401, "malformed_auth_header"),
    ({"Authorization": "sk-test-0123456789abcdef"}, "closed", 401, "malformed_auth_header"),
    ({"Provider-Config-Key": ""}, "closed", 400, "invalid_headers"),
    ({"Connection-Id": ""}, "closed", 400, "invalid_headers"),
    ({"Connection-Id": "nobody"}, "closed", 404, "unknown_connection"),
    ({}, "nowhere", 404, "unknown_provider_config"),
    ({}, "closed", 502, "upstream_unreachable"),
    ({}, "private", 400, "address_refused"),
    ({}, "plain", 400, "address_refused"),
    ({"Base-Url-Override": "https://evil.example"}, "closed", 400, "base_url_override_not_allowed"),
]


async def test_each_mistake_in_a_proxied_request_has_its_own_error_code(several_providers: RunningGateway) -> None:
    for headers, integration, status, code in SAD:
        async with several_providers.call_proxy("c1", integration=integration, headers=headers) as response:
            body = await response.json()
        found = (response.status, body["error"]["code"], response.headers["Gateway-Error"])
        assert found == (status, code, code), (headers, integration)
        assert len(body["error"]["message"]) > 20
        assert response.headers["Gateway-Request-Id"]
        assert response.headers["Cache-Control"] == "no-store"


async def test_a_body_that_the_provider_cuts_never_ends_cleanly(several_providers: RunningGateway) -> None:
    import aiohttp

    async with several_providers.call_proxy("c1", integration="torn") as response:
        assert response.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_bearer_and_token_are_accepted_as_schemes_in_any_case(several_providers: RunningGateway) -> None:
    for scheme in ("Bearer", "bearer", "token", "TOKEN"):
        headers = {"Authorization": f"{scheme} sk-test-0123456789abcdef"}
        async with several_providers.http.get(f"{several_providers.url}/providers/jira", headers=headers) as response:
            assert response.status == 200


async def test_unknown_urls_and_methods_get_the_gateways_error_format(several_providers: RunningGateway) -> None:
    for method, path, status, code in [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/proxyfoo", 404, "not_found"),
        ("DELETE", "/providers", 405, "method_not_allowed"),
        ("GET", "/providers/nope", 404, "not_found"),
        ("TRACE", "/proxy/x", 405, "method_not_allowed"),
    ]:
        headers = {**several_providers.headers, "Provider-Config-Key": "closed", "Connection-Id": "c1"}
        async with several_providers.http.request(method, several_providers.url + path, headers=headers) as response:
            assert (response.status, response.headers["Gateway-Error"]) == (status, code), path
            assert (await response.json())["error"]["code"] == code


async def test_a_body_that_is_not_json_or_too_large_is_refused(several_providers: RunningGateway) -> None:
    url = f"{several_providers.url}/connections"
    async with several_providers.http.post(url, data="a=b", headers=several_providers.headers) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (415, "invalid_content_type")
    headers = {**several_providers.headers, "Content-Type": "application/json"}
    async with several_providers.http.post(url, data=io.BytesIO(b" " * (1 << 20) + b"[]"), headers=headers) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (413, "body_too_large")
