"""Measures large bodies in both directions, events, and idle connections."""

import os
import re
import selectors
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench import proc
from bench.server import HOST, CannotRun, Server, Target
from bench.stream_server import PIECE

MIB: Final = 1 << 20
_SUNK: Final = re.compile(rb'"bytes":(\d+)')
_AT_ONCE: Final = 64  # number of connections that are opened before their responses are read


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream. `grown_mib`: by how many MiB the peak of resident memory exceeded `before_mib`."""

    mib_per_second: float
    cpu_ms_per_mib: float
    before_mib: float
    grown_mib: float


@dataclass(frozen=True, slots=True)
class Idle:
    """Idle connections that have had one response each: their number, and the memory before and after they were opened."""

    connections: int
    before_mib: float
    after_mib: float

    @property
    def kib_each(self) -> float:
        return (self.after_mib - self.before_mib) * 1024 / self.connections


def download(server: Server, size: int) -> Stream:
    """Download `size` bytes from the upstream through `server`. Raises CannotRun if the number of bytes differs."""

    def take() -> int:
        with _send_request(server.target, "GET", f"/bytes/{size}") as peer:
            taken = len(_read_head(peer))
            buffer = bytearray(MIB)
            while taken < size and (got := peer.recv_into(buffer)):
                taken += got
            return taken

    return _measure_transfer(server, size, take)


def upload(server: Server, size: int) -> Stream:
    """Upload `size` bytes to the upstream through `server`. Raises CannotRun if the number of bytes differs."""

    def give() -> int:
        with (
            tempfile.TemporaryFile() as noise,
            _send_request(server.target, "POST", "/sink", f"Content-Length: {size}") as peer,
        ):
            noise.write(os.urandom(PIECE))
            noise.flush()
            sent = 0
            while sent < size:
                offset = sent % PIECE
                sent += peer.sendfile(noise, offset, min(size - sent, PIECE - offset))
            response = _read_head(peer)
            while chunk := peer.recv(MIB):
                response += chunk
            found = _SUNK.search(response)
            return int(found[1]) if found else 0

    return _measure_transfer(server, size, give)


def event_delays_ms(server: Server, *, count: int, every_ms: int) -> list[float]:
    """Return the delay between sending and arrival of each event, in ms, sorted. Raises CannotRun if events are
    missing.
    """
    delays: list[float] = []
    with _send_request(server.target, "GET", f"/events/{count}/{every_ms}") as peer:
        buffer = b""
        while len(delays) < count and (got := peer.recv(65536)):
            now = time.monotonic_ns()
            buffer += got
            *whole, buffer = buffer.split(b"\n\n")
            delays += [(now - int(event.rpartition(b"data: ")[2])) / 1e6 for event in whole]
    if len(delays) < count:
        raise CannotRun(f"{server.name} forwarded {len(delays)} of {count} events")
    return sorted(delays)


def idle(server: Server, connections: int) -> Idle:
    """Measure memory with this many open keep-alive connections, each after one request. Raises CannotRun if some were
    closed.
    """
    request = _head(server.target, "GET", "/small", "")
    pids = server.pids()
    before = proc.rss_mib(pids)
    with ExitStack() as stack:
        sockets: list[socket.socket] = []
        while len(sockets) < connections:
            fresh = [_connect(server.target) for _ in range(min(_AT_ONCE, connections - len(sockets)))]
            for peer in fresh:
                stack.enter_context(peer).sendall(request)
            for peer in fresh:
                _whole_response(peer)
            sockets += fresh
        after = proc.rss_mib(pids)
        if closed := _count_closed(sockets):
            raise CannotRun(f"{server.name} closed {closed} of {connections} idle connections")
    return Idle(connections, before, after)


def _measure_transfer(server: Server, size: int, move: Callable[[], int]) -> Stream:
    pids = server.pids()
    proc.forget_peak(pids)
    before_mib, before_s, began = proc.rss_mib(pids), proc.cpu_s(pids), time.monotonic()
    moved = move()
    took = time.monotonic() - began
    if moved != size:
        raise CannotRun(f"{server.name} forwarded {moved} of {size} bytes")
    mib = size / MIB
    used_s = proc.cpu_s(pids) - before_s
    return Stream(mib / took, used_s * 1000 / mib, before_mib, max(0.0, proc.peak_mib(pids) - before_mib))


def _connect(target: Target) -> socket.socket:
    return socket.create_connection((HOST, target.port), timeout=60)


def _send_request(target: Target, method: str, path: str, extra: str = "") -> socket.socket:
    peer = _connect(target)
    peer.sendall(_head(target, method, path, "\r\n".join(filter(None, ["Connection: close", extra]))))
    return peer


def _head(target: Target, method: str, path: str, extra: str) -> bytes:
    lines = [f"{method} {target.path}{path} HTTP/1.1", f"Host: {HOST}:{target.port}"]
    lines += [f"{name}: {value}" for name, value in target.headers.items()]
    return "\r\n".join([*lines, *filter(None, [extra]), "", ""]).encode()


def _read_head(peer: socket.socket) -> bytes:
    """Read until the head of a 200 response is complete. Return the bytes of the body that arrived with the head."""
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        got = peer.recv(65536)
        if not got:
            raise CannotRun(f"the connection ended in the head: {buffer[:200]!r}")
        buffer += got
    head, _, body = buffer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0] + b" ":
        raise CannotRun(f"the response was {head[:300]!r}")
    return body


def _whole_response(peer: socket.socket) -> None:
    buffer = b""
    while not buffer.endswith(b"]}"):
        got = peer.recv(65536)
        if not got:
            raise CannotRun(f"the connection ended within the response: {buffer[:200]!r}")
        buffer += got


def _count_closed(peers: list[socket.socket]) -> int:
    """Return how many connections are closed. No data is expected, so a readable socket means a closed connection."""
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer, selectors.EVENT_READ)
        return len(selector.select(timeout=0))
