"""Relays bytes between caller and provider after a 101, until one of them closes its connection (RFC 9110 §7.8).

The tunnel does not interpret the bytes, and reads from one connection only as fast as it can write to the other. If one
connection closes, the other is closed after its last bytes have been sent. If the provider resets its connection, the
caller's connection is reset too.
"""

import asyncio
from typing import Final

from aiohttp import web

from gateway.egress.provider_exchange import ProviderExchange

LINGER_S: Final = 2.0  # time to send the last bytes to the provider after the caller has disconnected


class Tunnel(asyncio.Protocol):
    """Relays bytes. For the provider's transport, a tunnel is the protocol; for aiohttp's protocol, it is the parser.

    Call `run` after the 101 has been written to the caller. `bytes_in`: number of bytes received from the caller.
    `bytes_out`: number of bytes sent to the caller.
    """

    def __init__(self, request: web.Request) -> None:
        assert request.transport is not None
        self.bytes_in = self.bytes_out = 0
        self._caller_protocol = request.protocol
        self._caller: asyncio.Transport = request.transport
        self._provider: asyncio.Transport | None = None
        self._woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended = False
        self._fault: Exception | None = None

    async def run(self, exchange: ProviderExchange) -> None:
        """Relay bytes until the provider closes the connection. If the caller disconnects, this task is cancelled.

        Raises EgressError if `exchange` is not a 101 response, and ConnectionError if the provider resets the
        connection.
        """
        provider, early_bytes = exchange.switch(self)
        self._provider = provider
        try:
            if early_bytes:
                self.data_received(early_bytes)
            self._caller_protocol.set_parser(self)  # type: ignore[arg-type]  # `Tunnel` has every parser method that aiohttp calls here
            if not provider.is_closing():
                provider.resume_reading()
            while not self._ended:
                await self._woken
                self._woken = asyncio.get_running_loop().create_future()
                await self._caller_protocol._drain_helper()
                if not self._ended:
                    provider.resume_reading()
        finally:
            _close(provider)
        if self._fault is not None:
            raise ConnectionError("the provider broke off") from self._fault

    # ── methods that the provider's transport calls ───────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        if self._caller.is_closing():
            return
        self._caller.write(data)
        self.bytes_out += len(data)
        if self._caller_protocol.writing_paused and self._provider is not None:
            self._provider.pause_reading()
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended, self._fault = True, exc
        self._wake()

    def pause_writing(self) -> None:
        if not self._caller.is_closing():
            self._caller.pause_reading()

    def resume_writing(self) -> None:
        if not self._caller.is_closing():
            self._caller.resume_reading()

    # ── methods that aiohttp's protocol of the caller calls ───────────────────────────────────────────────────────────

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        if self._provider is not None and not self._provider.is_closing():
            self._provider.write(data)
            self.bytes_in += len(data)
        return False, b""

    def feed_eof(self) -> None:
        """Do nothing, because the task of the tunnel is cancelled when the caller disconnects."""

    def set_exception(self, *_: object) -> None:
        """Do nothing, because the task of the tunnel is cancelled when the caller disconnects."""

    def _wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)


def _close(transport: asyncio.Transport) -> None:
    """Close the transport when the last bytes have been sent, at the latest after `LINGER_S` seconds."""
    transport.close()
    if transport.get_write_buffer_size():
        asyncio.get_running_loop().call_later(LINGER_S, transport.abort)
