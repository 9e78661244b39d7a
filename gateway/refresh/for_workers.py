"""Runs token exchanges in the parent for its workers. Each exchange is finished even if its worker dies."""

import asyncio
import ipaddress
import select
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gateway import clock
from gateway.egress.client import Egress, RetiredEgress, Timeouts
from gateway.egress.egress_errors import EgressError
from gateway.egress.guard import Guard, IPNetwork
from gateway.refresh.exchange_message import EgressRoute, ExchangeRequest, fault_as_json, reply_as_json
from gateway.refresh.token_exchange import Journals, send_journalled

WORKER_CLOSED: Final = getattr(select, "POLLRDHUP", select.POLLHUP)  # POLLRDHUP exists on Linux only


@dataclass(frozen=True, slots=True)
class AllowedTarget:
    """An internal network that the operator allows. `port`: the allowed port; None means all ports."""

    network: IPNetwork
    port: int | None


class ExchangesForWorkers:
    """Runs token exchanges for workers. `journals`: the parent's journal writers."""

    def __init__(self) -> None:
        self.journals = Journals()
        self._tasks = set[asyncio.Task[None]]()
        self._route_egress: tuple[EgressRoute, Egress] | None = None
        self._retired = RetiredEgress()

    def begin(
        self, message: Mapping[str, Any], worker: socket.socket, send: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Start the exchange that a worker requests in `message`.

        `worker`: the socket of the channel to the worker. `send`: sends the result of the exchange to the worker.
        """
        task = asyncio.create_task(self._exchange(message, worker, send))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Finish the exchanges that have started."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.journals.close()
        await self._retired.close()
        if self._route_egress is not None:
            await self._route_egress[1].close()

    async def _exchange(
        self, message: Mapping[str, Any], worker: socket.socket, send: Callable[[Mapping[str, Any]], None]
    ) -> None:
        received_at = clock.monotonic()
        try:
            request = ExchangeRequest.from_json(message["request"])

            def now() -> datetime:
                return request.asked_at + timedelta(seconds=clock.monotonic() - received_at)

            reply = await send_journalled(
                self.journals,
                self._egress(request.route),
                request.call,
                request.entry,
                request.step,
                timeout_s=request.timeout_s,
                limit_bytes=request.limit_bytes,
                now=now,
                wanted_at=message["asked_at"],
                abandoned=lambda: _is_gone(worker),
            )
            result = reply_as_json(reply)
        except EgressError as fault:
            result = fault_as_json(fault)
        except Exception as fault:  # noqa: BLE001 (the worker waits for a message back, whatever failed)
            result = fault_as_json(EgressError("protocol", f"the call failed: {type(fault).__name__}."))
        send({"type": "exchanged", "id": message["id"], "result": result})

    def _egress(self, route: EgressRoute) -> Egress:
        if self._route_egress is None or self._route_egress[0] != route:
            if self._route_egress is not None:
                self._retired.add(self._route_egress[1])
            self._route_egress = route, _egress_of(route)
        return self._route_egress[1]


def _is_gone(worker: socket.socket) -> bool:
    if worker.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(worker, WORKER_CLOSED)
    return bool(poll.poll(0))


def _egress_of(route: EgressRoute) -> Egress:
    allowed_targets = [AllowedTarget(ipaddress.ip_network(network), port) for network, port in route.allow]
    timeouts = Timeouts(connect_s=route.connect_s)
    return Egress(Guard(allowed_targets), proxy=route.proxy, timeouts=timeouts, connections_per_host=route.connections)
