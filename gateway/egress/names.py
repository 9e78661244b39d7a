"""Host names to addresses that may be dialled: off the event loop, in limited time, judged before anyone sees them."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

from gateway.egress.errors import EgressError
from gateway.egress.guard import Guard, Scheme

LIMIT_S: Final = 5.0
_THREADS: Final = 16


class Names:
    """The system's resolver in threads of its own, so that a dead name server starves nobody but other look-ups."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolve")

    async def addresses(self, host: str, port: int) -> list[str]:
        """All addresses of a name, in the system's order. Raises EgressError ``unreachable`` or ``timeout``."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(LIMIT_S):
                found = await loop.run_in_executor(self._threads, _look_up, host, port)
        except TimeoutError:
            raise EgressError(
                "timeout", f"The address of {host} was not found within {LIMIT_S:g} s.", sent=False
            ) from None
        except (OSError, UnicodeError) as fault:
            raise EgressError("unreachable", f"The name {host} has no address.", sent=False) from fault
        if not found:
            raise EgressError("unreachable", f"The name {host} has no address.", sent=False)
        return found

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for _, _, _, _, where in found))


class GuardedResolver(AbstractResolver):
    """Names for one connector: it hands out addresses only if every one of them may be dialled by `scheme`."""

    def __init__(self, names: Names, guard: Guard, scheme: Scheme) -> None:
        self._names = names
        self._guard = guard
        self._scheme = scheme

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002
    ) -> list[ResolveResult]:
        addresses = await self._names.addresses(host, port)
        self._guard.admit(self._scheme, host, port, addresses)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Nothing: the threads are shared, and closed by their owner."""
