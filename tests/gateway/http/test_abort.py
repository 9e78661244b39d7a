"""How much of a response a client has not read."""

import asyncio
from typing import Any

import pytest

from gateway.http.abort import bytes_held_up, unread_bytes


class BufferedTransport(asyncio.WriteTransport):
    """A transport without a socket, such as that of a host application's own server."""

    def __init__(self, buffered: int) -> None:
        super().__init__()
        self._buffered = buffered

    def get_write_buffer_size(self) -> int:
        return self._buffered

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


@pytest.mark.parametrize("buffered", [0, 5])
def test_only_bytes_in_the_transport_are_counted_if_there_is_no_socket(buffered: int) -> None:
    transport = BufferedTransport(buffered)
    assert (unread_bytes(transport), bytes_held_up(transport)) == (buffered, buffered)
