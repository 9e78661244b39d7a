"""Messages with open files over a socket, before an event loop runs."""

import os
import socket
import threading

import pytest

from gateway.process.handshake import frame_message, receive_now, send_now


def test_messages_arrive_completely_and_in_order() -> None:
    one, other = socket.socketpair()
    with one, other:
        large = {"text": "x" * 300_000}
        sending = threading.Thread(target=lambda: [send_now(one, message) for message in ({"n": 1}, large)])
        sending.start()
        assert receive_now(other) == ({"n": 1}, [])
        assert receive_now(other) == (large, [])
        sending.join()


def test_file_descriptors_arrive_with_their_message() -> None:
    one, other = socket.socketpair()
    reading, writing = os.pipe()
    with one, other:
        send_now(one, {"files": 1}, [writing])
        message, (copy,) = receive_now(other)
    os.write(copy, b"through")
    assert (message, os.read(reading, 100)) == ({"files": 1}, b"through")
    for descriptor in (reading, writing, copy):
        os.close(descriptor)


@pytest.mark.parametrize("sent", [0, 2, 6])
def test_end_within_a_message_raises_eof_error(sent: int) -> None:
    one, other = socket.socketpair()
    with other:
        one.sendall(frame_message({"n": 1})[:sent])
        one.close()
        with pytest.raises(EOFError, match="the other end of the channel is gone"):
            receive_now(other)
