"""The upstream for streams, in its own process with one thread per connection. Python code does not touch the bytes.

``GET /bytes/{n}`` sends n bytes from a file by sendfile(2). ``POST /sink`` discards Content-Length bytes and returns
their number. ``GET /events/{n}/{ms}`` sends n events, one every `ms` milliseconds. Each event contains the monotonic
time in ns at which it was sent. All processes of a machine share this clock. Every other request gets a body of 1.3 kB.
"""

import os
import socket
import sys
import tempfile
import threading
import time
from typing import Final

from bench.upstream import SMALL

PIECE: Final = 1 << 24  # 16 MiB of random bytes, which do not compress; sent repeatedly
_HEAD_LIMIT: Final = 65536


def serve(port: int) -> None:
    """Serve until the process is stopped."""
    with socket.create_server(("127.0.0.1", port), backlog=4096) as listening, tempfile.TemporaryFile() as noise:
        noise.write(os.urandom(PIECE))
        noise.flush()
        while True:
            peer, _ = listening.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_converse, args=(peer, noise.fileno()), daemon=True).start()


def _converse(peer: socket.socket, noise: int) -> None:
    """Respond to one request after the other until the peer closes the connection."""
    buffer = b""
    with peer:
        try:
            while True:
                while b"\r\n\r\n" not in buffer:
                    more = peer.recv(_HEAD_LIMIT)
                    if not more or len(buffer) > _HEAD_LIMIT:
                        return
                    buffer += more
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                buffer = _response(peer, head, buffer, noise)
        except ConnectionError:
            return


def _response(peer: socket.socket, head: bytes, buffered: bytes, noise: int) -> bytes:
    """Respond to one request. Return the bytes that were received after it."""
    line, *fields = head.decode("latin-1").split("\r\n")
    _, path, *rest = line.split(" ")[1].split("/")
    lengths = [field.partition(":")[2] for field in fields if field.lower().startswith("content-length:")]
    length = int(lengths[0]) if lengths else 0
    if path == "sink":
        if any(field.lower().startswith("expect:") for field in fields):
            peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        taken, buffered = _swallow(peer, buffered, length)
        _send_whole(peer, b'{"bytes":%d}' % taken)
    elif path == "bytes":
        _send_head(peer, f"Content-Length: {rest[0]}\r\nContent-Type: application/octet-stream")
        _send_noise(peer, noise, int(rest[0]))
    elif path == "events":
        _, buffered = _swallow(peer, buffered, length)
        _send_events(peer, int(rest[0]), int(rest[1]) / 1000)
    else:
        _send_whole(peer, SMALL.encode())
    return buffered


def _send_noise(peer: socket.socket, noise: int, size: int) -> None:
    sent = 0
    while sent < size:
        offset = sent % PIECE
        sent += os.sendfile(peer.fileno(), noise, offset, min(size - sent, PIECE - offset))


def _swallow(peer: socket.socket, buffered: bytes, length: int) -> tuple[int, bytes]:
    taken = min(len(buffered), length)
    buffered = buffered[taken:]
    buffer = bytearray(1 << 20)
    while taken < length:
        got = peer.recv_into(buffer, min(len(buffer), length - taken))
        if not got:
            break
        taken += got
    return taken, buffered


def _send_events(peer: socket.socket, count: int, every_s: float) -> None:
    _send_head(peer, "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nCache-Control: no-store")
    for number in range(count):
        time.sleep(every_s)
        event = f"id: {number}\ndata: {time.monotonic_ns()}\n\n".encode()
        peer.sendall(b"%x\r\n%s\r\n" % (len(event), event))
    peer.sendall(b"0\r\n\r\n")


def _send_whole(peer: socket.socket, body: bytes) -> None:
    peer.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    )


def _send_head(peer: socket.socket, fields: str) -> None:
    peer.sendall(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode())


if __name__ == "__main__":
    serve(int(sys.argv[1]))
