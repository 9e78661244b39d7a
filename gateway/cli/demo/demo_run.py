"""Runs the demo: starts the sandbox and the gateway, connects the demo user, and waits for a signal."""

import asyncio
import errno
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.cli.console_command import sign_in_link
from gateway.cli.demo import DemoFailed, customer
from gateway.cli.demo.child import Child, start_child
from gateway.cli.demo.demo_folder import CLIENT_ID, PORT_VARIABLE, SANDBOX_PORT_VARIABLE, DemoFolder
from gateway.cli.run_command import run_on_opened_store
from gateway.config import Faults
from gateway.errors import GatewayError, StartRefused
from gateway.sandbox.app import HOST

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.store import Store

# ── Ports of the loopback address.


@contextmanager
def reserve_port(port: int, flag: str) -> Iterator[int]:
    """Reserve a port until the end of the block, so that a child process can use the port afterwards.

    `port`: 0 picks a free port. `flag`: the option that selects another port, for the message of DemoFailed.
    """
    try:
        listening_socket = socket.create_server((HOST, port))
    except OSError as fault:
        reason = "is in use" if fault.errno == errno.EADDRINUSE else f"cannot be used ({fault.strerror})"
        raise DemoFailed(f"port {port} {reason}; choose another port with {flag} (0 picks a free port)") from fault
    try:
        yield listening_socket.getsockname()[1]
    finally:
        listening_socket.close()


_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_GRACE_S: Final = 0.3  # after a failed call, how long to wait for the end of a child process that explains the failure
NEW_AGENT_KEY: Final = (
    "The agent has a new key, because its former key or that key's connection has ended. Add the tools again with the new "
    "command."
)


@dataclass(frozen=True, slots=True)
class DemoReady:
    """The members of the JSON that ``gateway demo --json`` prints as soon as everything runs."""

    url: str
    secret_key: str
    provider_config_key: str
    connection_id: str
    connect_link: str
    curl: str
    console_link: str
    mcp_add: str


async def run(folder: DemoFolder, *, port: int, sandbox_port: int, announce: Callable[[DemoReady], None]) -> None:
    """Run the demo until a signal arrives, then return. Both processes are stopped before the return.

    `announce`: called as soon as everything runs. Raises DemoFailed.
    """
    work = asyncio.create_task(_run(folder, port, sandbox_port, announce))
    got_signal = False

    def stop_work() -> None:
        nonlocal got_signal
        got_signal = True
        work.cancel()

    for signal_number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(signal_number, stop_work)
    try:
        await work
    except asyncio.CancelledError:
        if not got_signal:
            raise


async def _run(folder: DemoFolder, port: int, sandbox_port: int, announce: Callable[[DemoReady], None]) -> None:
    if port == sandbox_port != 0:
        raise DemoFailed(f"--port and --sandbox-port are both {port}; they must differ")
    with folder.lock():
        async with _run_both_processes(folder, port, sandbox_port) as (url, sandbox, gateway):
            child_ends = [asyncio.create_task(child.wait_for_end()) for child in (sandbox, gateway)]
            try:
                announce(await _wait_until_ready(url, folder, child_ends))
                await asyncio.wait(child_ends, return_when=asyncio.FIRST_COMPLETED)
                raise _error_of_ended(child_ends)
            finally:
                for child_end in child_ends:
                    child_end.cancel()


async def _wait_until_ready(url: str, folder: DemoFolder, child_ends: Sequence[asyncio.Task[DemoFailed]]) -> DemoReady:
    """Return the result of `_connect_demo_user`.

    If a child process ends meanwhile, raise the error of the child, because it explains more than the failed call.
    """
    try:
        return await _connect_demo_user(url, folder)
    except DemoFailed:
        await asyncio.wait(child_ends, timeout=_GRACE_S, return_when=asyncio.FIRST_COMPLETED)
        if any(child_end.done() for child_end in child_ends):
            raise _error_of_ended(child_ends) from None
        raise


def _error_of_ended(child_ends: Sequence[asyncio.Task[DemoFailed]]) -> DemoFailed:
    return next(child_end.result() for child_end in child_ends if child_end.done())


@asynccontextmanager
async def _run_both_processes(
    folder: DemoFolder, port: int, sandbox_port: int
) -> AsyncIterator[tuple[str, Child, Child]]:
    """Start both processes, and wait until both listen. Yield the gateway's URL, the sandbox and the gateway's process.

    At the end of the block, the gateway is stopped first, then the sandbox.
    """
    async with AsyncExitStack() as stack:
        with reserve_port(port, "--port") as gateway_port:
            url = f"http://{HOST}:{gateway_port}"
            with reserve_port(sandbox_port, "--sandbox-port"):
                pass  # raises an error early if the port is in use, with a message that names the flag
            sandbox = await stack.enter_async_context(_sandbox(folder, sandbox_port, f"{url}/oauth/callback"))
            origin = await sandbox.wait_until_ready()
            folder.point_catalog_at(origin)
        actual_sandbox_port = int(origin.rpartition(":")[2])
        folder.write_ports(gateway_port, actual_sandbox_port)
        environ = {PORT_VARIABLE: str(gateway_port), SANDBOX_PORT_VARIABLE: str(actual_sandbox_port)}
        serve_arguments = ("serve", "-c", str(folder.configuration))
        log = folder.path / "gateway.log"
        gateway = await stack.enter_async_context(
            start_child("gateway", "gateway", *serve_arguments, log=log, environ=environ)
        )
        ready_url = await gateway.wait_until_ready()
        if ready_url != url:
            raise DemoFailed(
                f"the gateway listens on {ready_url} instead of {url}; "
                f"set server.port in {folder.configuration} to ${{file:port}}, and choose the port with --port"
            )
        folder.write_url(url)
        yield url, sandbox, gateway


def _sandbox(folder: DemoFolder, port: int, callback: str) -> AbstractAsyncContextManager[Child]:
    options = {
        "--port": str(port),
        "--state": str(folder.sandbox_state),
        "--client-id": CLIENT_ID,
        "--client-secret-file": str(folder.client_secret),
        "--redirect-uri": callback,
    }
    arguments = [argument for name_and_value in options.items() for argument in name_and_value]
    return start_child("sandbox", "gateway.sandbox", *arguments, log=folder.path / "sandbox.log")


async def _connect_demo_user(url: str, folder: DemoFolder) -> DemoReady:
    key = folder.secret_key()
    async with customer.session() as http:
        demo_customer = customer.Customer(http, url, key)
        connection = await demo_customer.connection()
        earlier_key = folder.agent_key()
        agent_key = await demo_customer.agent_key(connection, earlier_key)
        if earlier_key and agent_key != earlier_key:
            print(NEW_AGENT_KEY, file=sys.stderr, flush=True)
        folder.save_agent_key(agent_key)
        return DemoReady(
            url=url,
            secret_key=key.reveal(),
            provider_config_key=customer.INTEGRATION,
            connection_id=connection.connection_id,
            connect_link=await demo_customer.connect_link(),
            curl=demo_customer.curl(connection),
            console_link=await _console_link(folder),
            mcp_add=demo_customer.mcp_add(agent_key),
        )


async def _console_link(folder: DemoFolder) -> str:
    """Return a link that signs in to the console once, within ten minutes.

    Return an empty string if the console is disabled, as in a configuration that an earlier release wrote.
    """
    links = list[str]()

    async def add_link(store: "Store", config: "Config") -> int:
        if config.console.enabled:
            links.append((await sign_in_link(store, config, "operator"))[0])
        return 0

    with suppress(Faults, StartRefused, GatewayError):
        await run_on_opened_store(folder.configuration, add_link)
    return "".join(links)
