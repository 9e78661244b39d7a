"""Sends a worker's token exchanges through the parent process, so that no reply is lost if the worker dies."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway import clock
from gateway.journal import Entry
from gateway.records.provider_call import ProviderCall, Reply
from gateway.refresh.exchange_message import EgressRoute, ExchangeRequest, reply_of_json
from gateway.refresh.token_exchange import ExchangeLost

# Extra time to wait after the exchange's timeout, in seconds. The parent starts the exchange a little later than the
# worker sends the message, and the result takes time to arrive.
LATE_RESULT_S: Final = 1.5


class ParentLink:
    """A worker's end of the channel to its parent.

    `send`: writes a message to the channel. `journal_fault`: why the parent cannot write its journal; None if it can.
    `up`: whether the parent is alive.
    """

    def __init__(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        self.journal_fault: str | None = None
        self.up = True
        self._send = send
        self._awaited: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._numbers = itertools.count()

    async def send(self, request: ExchangeRequest) -> Reply:
        """Send the request to the parent and return the reply.

        Raises EgressError, and ExchangeLost if the parent has ended or sends no reply in time.
        """
        if not self.up:
            raise ExchangeLost("unreachable", "the parent process that does token exchanges has ended.", sent=False)
        number = next(self._numbers)
        future: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._awaited[number] = future
        try:
            # The message contains its sending time, because the parent might read the message much later. All processes
            # of a machine share the monotonic clock.
            exchange_message = {"request": request.as_json(), "asked_at": clock.monotonic()}
            self._send({"type": "exchange", "id": number, **exchange_message})
            await asyncio.wait({future}, timeout=request.timeout_s)
            if not future.done():  # wait again: if this event loop stalled, an arrived reply can still be unread
                await asyncio.wait({future}, timeout=LATE_RESULT_S)
            if not future.done():
                raise ExchangeLost("timeout", f"no response within {request.timeout_s:g} s.")
            return reply_of_json(future.result())
        finally:
            del self._awaited[number]

    def pass_result(self, message: Mapping[str, Any]) -> None:
        """Pass the parent's result of an exchange to the `send` that waits for it."""
        future = self._awaited.get(message["id"])
        if future is not None and not future.done():
            future.set_result(message["result"])

    def release(self, attempt: str) -> None:
        self._send({"type": "released", "attempt": attempt})

    def fail_waiting(self) -> None:
        """Fail all waiting exchanges, because the parent is gone. It is unknown whether the parent has sent the
        calls."""
        self.up = False
        for future in self._awaited.values():
            if not future.done():
                future.set_exception(
                    ExchangeLost("unreachable", "the parent process that did the token exchange has ended.")
                )


class ParentExchange:
    """Sends exchanges through the parent. `route`: returns the network settings of the current configuration."""

    def __init__(self, parent: ParentLink, route: Callable[[], EgressRoute]) -> None:
        self._parent = parent
        self._route = route

    @property
    def journal_fault(self) -> str | None:
        return self._parent.journal_fault

    @property
    def available(self) -> bool:
        return self._parent.up

    async def send(
        self, call: ProviderCall, entry: Entry | None, step: int, *, timeout_s: float, limit_bytes: int
    ) -> Reply:
        return await self._parent.send(
            ExchangeRequest(call, self._route(), entry, step, timeout_s, limit_bytes, clock.now())
        )

    def release(self, attempt: str) -> None:
        self._parent.release(attempt)
