"""The courier at work: errands from its gateway, until that is gone and all that was begun is over."""

import asyncio
import ipaddress
import select
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.courier.errand import RELEASE, Brought, Errand, Way, framed, received
from gateway.courier.jotter import Jotter
from gateway.egress.client import Egress, Timeouts
from gateway.egress.errors import EgressError
from gateway.egress.guard import Guard, IPNetwork
from gateway.egress.reply import replied

# A service manager may tell all processes of a service to end. We end with our gateway, which lets refreshes finish first.
OF_OTHERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)

GONE: Final = getattr(select, "POLLRDHUP", select.POLLHUP)  # the former is Linux's


@dataclass(frozen=True, slots=True)
class Opened:
    """A network that the operator opened, on one port or, with None, on any."""

    network: IPNetwork
    port: int | None


class Round:
    """The errands of one gateway."""

    def __init__(self, sock: socket.socket, writer: asyncio.StreamWriter) -> None:
        self._sock = sock
        self._writer = writer
        self._jotter = Jotter()
        self._way: tuple[Way, Egress] | None = None
        self._retired: list[Egress] = []

    async def take(self, number: int, told: Mapping[str, Any]) -> None:
        """Do it, and tell what came of it."""
        try:
            brought = await self._brought(Errand.of_json(told))
        except Exception as fault:  # noqa: BLE001 (whatever it was, the gateway waits to hear of it)
            brought = Brought(False, fault=EgressError("protocol", f"the call failed: {type(fault).__name__}."))
        self.tell({"id": number, **brought.as_json()})

    def done(self, attempt: str) -> None:
        self._jotter.done(attempt)

    def tell(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(framed(message))

    async def close(self) -> None:
        await self._jotter.close()
        for egress in (*self._retired, *filter(None, [self._way and self._way[1]])):
            await egress.close()

    async def _brought(self, errand: Errand) -> Brought:
        call, note = errand.call, errand.note
        room = await self._jotter.begin(note, errand.step)
        if self._abandoned():  # whoever takes the refresh up may not have seen that we are at it
            if room is not None:
                self._jotter.drop(note, room)
            return Brought(False, fault=EgressError("unreachable", "nobody waits for it.", sent=False))
        try:
            egress = self._egress(errand.way)
            reply = await replied(egress, call, timeout_s=errand.timeout_s, limit_bytes=errand.limit_bytes)
        except Exception as fault:
            if room is not None:
                self._jotter.drop(note, room)
            if isinstance(fault, EgressError):
                return Brought(False, fault=fault)
            raise
        if room is None:
            return Brought(False, reply)
        if not 200 <= reply.status < 300:  # whoever asks again hears a refusal again
            self._jotter.drop(note, room)
            return Brought(False, reply)
        try:
            noted = await self._jotter.keep(note, room, note.record(errand.step, call, reply))
        except Exception:  # noqa: BLE001 (whatever it was, the reply itself goes to the gateway)
            noted = False
        return Brought(noted, reply)

    def _abandoned(self) -> bool:
        """Whether our gateway is gone already."""
        looking = select.poll()
        looking.register(self._sock, GONE)
        return bool(looking.poll(0))

    def _egress(self, way: Way) -> Egress:
        if self._way is None or self._way[0] != way:
            if self._way is not None:
                self._way[1].retire()
                self._retired = [egress for egress in (*self._retired, self._way[1]) if not egress.unused]
            self._way = way, _egress_of(way)
        return self._way[1]


async def serve(sock: socket.socket) -> None:
    """Do what comes over `sock` until its other end is closed, and what was begun is over."""
    for number in OF_OTHERS:
        signal.signal(number, signal.SIG_IGN)
    reader, writer = await asyncio.open_connection(sock=sock)
    here, tasks = Round(sock, writer), set[asyncio.Task[None]]()
    here.tell({"ready": RELEASE})
    while (message := await received(reader)) is not None:
        if "done" in message:
            here.done(message["done"])
            continue
        task = asyncio.create_task(here.take(message["id"], message["errand"]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks, return_exceptions=True)
    await here.close()


def _egress_of(way: Way) -> Egress:
    openings = [Opened(ipaddress.ip_network(network), port) for network, port in way.allow]
    timeouts = Timeouts(connect_s=way.connect_s)
    return Egress(Guard(openings), proxy=way.proxy, timeouts=timeouts, connections_per_host=way.connections)
