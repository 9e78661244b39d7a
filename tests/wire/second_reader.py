"""nginx as a second reader: the test sees how nginx reads a message from the requests that nginx forwards."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.wire.messages import parse_head, read_body

CONFIG = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log /dev/null crit;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  underscores_in_headers on; ignore_invalid_headers off; client_body_timeout 2s; client_header_timeout 2s;
  server {{
    listen unix:{folder}/in.sock; server_name _;
    location / {{ proxy_pass http://unix:{folder}/out.sock:; proxy_http_version 1.1; proxy_set_header Host $http_host; }}
  }}
}}
"""
QUIET_S = 0.04  # if nginx sends nothing for this time, it waits for more bytes of the message


@dataclass(frozen=True, slots=True)
class Reading:
    """The messages that a reader found, as (method, target, body). `refused`: the reader refused the bytes after them.

    `left`: the bytes after the messages, if the reader reports these bytes.
    """

    messages: list[tuple[bytes, bytes, bytes]]
    refused: bool
    left: bytes | None = None


async def read_until_quiet(reader: asyncio.StreamReader, quiet_s: float = QUIET_S) -> bytes:
    """Return all bytes until the end, or until nothing more arrives. nginx would treat a half-close as a disconnect."""
    seen = bytearray()
    with suppress(ConnectionError, TimeoutError):
        while True:
            async with asyncio.timeout(quiet_s):
                piece = await reader.read(65536)
            if not piece:
                break
            seen += piece
    return bytes(seen)


class Nginx:
    """A running nginx that reads one client connection at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: list[tuple[bytes, bytes, bytes]] = []

    @classmethod
    @asynccontextmanager
    async def running(cls, folder: Path) -> AsyncIterator["Nginx | None"]:
        """Yield a running nginx, or None if nginx is not installed."""
        binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
        if binary is None:
            yield None
            return
        nginx = cls(folder)
        (folder / "nginx.conf").write_text(CONFIG.format(folder=folder))
        behind = await asyncio.start_unix_server(nginx._record, folder / "out.sock", limit=1 << 20)
        process = await asyncio.create_subprocess_exec(
            binary, "-p", str(folder), "-c", "nginx.conf", stderr=asyncio.subprocess.DEVNULL
        )
        try:
            await nginx._wait_until_process_listens(process)
            yield nginx
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
            behind.close()

    async def _wait_until_process_listens(self, process: asyncio.subprocess.Process) -> None:
        while process.returncode is None:
            with suppress(OSError):
                _, writer = await asyncio.open_unix_connection(self._folder / "in.sock")
                writer.close()
                return
            await asyncio.sleep(0.05)
        raise RuntimeError("nginx did not start")

    async def _record(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = parse_head(await reader.readuntil(b"\r\n\r\n"))
                body = await read_body(reader, head, without="none")
                method, target, _ = head.start.split(b" ", 2)
                self._seen.append((method, target, body.data))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def read(self, data: bytes, quiet_s: float = QUIET_S) -> Reading:
        """Return the messages that nginx forwards."""
        self._seen = []
        reader, writer = await asyncio.open_unix_connection(self._folder / "in.sock")
        try:
            writer.write(data)
            said = await read_until_quiet(reader, quiet_s)
        finally:
            writer.transport.abort()
        return Reading(self._seen, b"HTTP/1.1 4" in said or b"HTTP/1.1 5" in said or said.startswith(b"<html>"))
