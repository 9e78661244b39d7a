"""The sandbox as an aiohttp application: its routes and middlewares."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from socket import create_server
from typing import Final

from aiohttp import web

from gateway.sandbox import consent, controls, lists, streams, token_endpoint, tracker_api
from gateway.sandbox.callers import AccessRefused
from gateway.sandbox.faults import FAULTS, Handler, InvalidFault
from gateway.sandbox.sandbox_memory import SandboxMemory
from gateway.sandbox.state import SANDBOX, Sandbox, SandboxClient
from gateway.startup.hardening import hide_versions

HOST: Final = "127.0.0.1"
_API: Final = "/ex/sandbox/{cloud_id}/rest/api/3"


def create_app(sandbox: Sandbox) -> web.Application:
    """Return the application of the sandbox.

    The middlewares check the Host, apply faults, save the state, and turn errors into responses. The outermost
    middleware comes first.
    """
    app = web.Application(
        middlewares=[_require_own_host, _apply_faults, _save_state, _refusals_as_responses, consent.refusals]
    )
    app[SANDBOX] = sandbox
    app.add_routes(
        [
            web.get("/", controls.welcome),
            web.get("/.well-known/oauth-authorization-server", controls.metadata),
            web.get("/oauth/authorize", consent.authorize),
            web.post("/oauth/login", consent.log_in),
            web.post("/oauth/logout", consent.log_out),
            web.post("/oauth/consent", consent.decide),
            web.post("/oauth/token", token_endpoint.token),
            web.post("/oauth/revoke", token_endpoint.revoke),
            web.get("/oauth/token/accessible-resources", tracker_api.accessible_resources),
            web.get(_API + "/myself", tracker_api.myself),
            web.get(_API + "/search", tracker_api.search),
            web.post(_API + "/search", tracker_api.search),
            web.post(_API + "/issue", tracker_api.create_issue),
            web.get(_API + "/issue/{key}", tracker_api.read_issue),
            web.get("/streams/events", streams.events),
            web.get("/streams/records", streams.records),
            web.get("/streams/socket", streams.socket),
            web.get("/streams/download", streams.download),
            web.post("/streams/upload", streams.upload),
            web.put("/streams/upload", streams.upload),
            web.get("/lists/cursor", lists.list_by_cursor),
            web.get("/lists/link-header", lists.list_by_link_header),
            web.get("/lists/link-body", lists.list_by_link_in_body),
            web.get("/lists/page", lists.list_by_page),
            web.get("/lists/offset", lists.list_by_offset),
            web.get("/avatars/{label}.svg", controls.avatar),
            web.get("/sandbox/faults", controls.list_faults),
            web.post("/sandbox/faults", controls.arm_fault),
            web.delete("/sandbox/faults", controls.clear_faults),
            web.delete("/sandbox/grants", controls.end_grants),
            web.get("/sandbox/stats", controls.stats),
        ]
    )
    return app


@asynccontextmanager
async def running(
    clients: Iterable[SandboxClient], *, port: int = 0, state: Path | None = None, token_ttl_s: int = 60
) -> AsyncIterator[Sandbox]:
    """Run a sandbox on the loopback address during the block.

    - `port`: the TCP port; 0 picks a free port
    - `state`: the state file; None: the state is only in memory
    - `token_ttl_s`: the lifetime of access tokens in seconds

    Raises OSError if the port is in use, MemoryUnreadable if `state` is not a state file.
    """
    memory = SandboxMemory(state, token_ttl_s=token_ttl_s)
    listening_socket = create_server((HOST, port))
    sandbox = Sandbox(
        issuer=f"http://{HOST}:{listening_socket.getsockname()[1]}",
        clients={client.client_id: client for client in clients},
        memory=memory,
    )
    hide_versions()
    runner = web.AppRunner(create_app(sandbox), access_log=None, shutdown_timeout=1, auto_decompress=False)
    await runner.setup()
    try:
        await web.SockSite(runner, listening_socket).start()
        yield sandbox
    finally:
        await runner.cleanup()
        listening_socket.close()


@web.middleware
async def _require_own_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request if its Host is not this machine, so that no web page can reach the sandbox by DNS rebinding."""
    if request.url.host not in (HOST, "localhost", "::1"):
        return web.json_response({"error": f"Call the sandbox as {HOST} or localhost."}, status=421)
    return await handler(request)


@web.middleware
async def _apply_faults(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path.startswith("/sandbox/"):
        return await handler(request)
    try:
        armed_fault = request.app[SANDBOX].faults.take_next_fault(request)
    except InvalidFault as fault:
        return web.json_response({"error": str(fault)}, status=400)
    if armed_fault is None:
        return await handler(request)
    request.app[SANDBOX].counts[f"faults.{armed_fault.name}"] += 1
    return await FAULTS[armed_fault.name].act(request, handler, armed_fault.options)


@web.middleware
async def _save_state(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Save the state before the response is sent, so that tokens in responses are still valid after a crash."""
    response = await handler(request)
    await request.app[SANDBOX].memory.save()
    return response


@web.middleware
async def _refusals_as_responses(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except AccessRefused as fault:
        return fault.as_response()
