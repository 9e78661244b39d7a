"""Host names to addresses that may be dialled: off the event loop, in limited time, each name once at a time."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gateway.egress.errors import EgressError

LIMIT_S: Final = 5.0
_THREADS: Final = 16


class Names:
    """The system's resolver in threads of its own, so that a dead name server starves nobody but other look-ups."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolve")
        self._asked: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """All addresses of a name, in the system's order. Raises EgressError ``unreachable`` or ``timeout``."""
        try:
            async with asyncio.timeout(LIMIT_S):
                found = await asyncio.shield(self._ask(host, port))
        except TimeoutError:
            raise EgressError("timeout", f"The address of {host} was not found within {LIMIT_S:g} s.") from None
        except (OSError, UnicodeError) as fault:
            raise EgressError("unreachable", f"The name {host} has no address.") from fault
        if not found:
            raise EgressError("unreachable", f"The name {host} has no address.")
        return found

    def _ask(self, host: str, port: int) -> asyncio.Future[list[str]]:
        """One look-up for all who want the same at the same time; none of them can cancel it for the others."""
        key = (host, port)
        asked = self._asked.get(key)
        if asked is None:
            asked = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)
            self._asked[key] = asked
            asked.add_done_callback(lambda done: self._answered(key, done))
        return asked

    def _answered(self, key: tuple[str, int], done: asyncio.Future[list[str]]) -> None:
        del self._asked[key]
        if not done.cancelled():
            done.exception()  # told to whoever still waits; to nobody else it is news

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for _, _, _, _, where in found))
