"""Sends and receives the first messages of a channel, before an event loop runs.

A message is a JSON object after its length in 4 bytes (big-endian).
"""

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

LENGTH: Final = struct.Struct(">I")
MAX_FDS: Final = 8
Message = dict[str, Any]


def frame_message(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message).encode()
    return LENGTH.pack(len(text)) + text


def send_now(sock: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send `message` with copies of the file descriptors `descriptors`.

    Call this function before the channel opens, or if no other message is in transit. Raises OSError.
    """
    data = frame_message(message)
    sent_bytes = socket.send_fds(sock, [data], descriptors)
    if sent_bytes < len(data):
        sock.sendall(data[sent_bytes:])


def receive_now(sock: socket.socket) -> tuple[Message, list[int]]:
    """Return the next message and the file descriptors sent with it.

    Call this function before the channel opens. Raises EOFError and OSError.
    """
    head, descriptors, _, _ = socket.recv_fds(sock, LENGTH.size, MAX_FDS)
    while 0 < len(head) < LENGTH.size:
        head += sock.recv(LENGTH.size - len(head)) or _raise_ended()
    (length,) = LENGTH.unpack(head or _raise_ended())
    text = b""
    while len(text) < length:
        text += sock.recv(length - len(text)) or _raise_ended()
    return json.loads(text), descriptors


def _raise_ended() -> bytes:
    raise EOFError("the other end of the channel is gone")
