"""Random mutations of requests, read by three readers: the gateway, h11, and nginx if it is installed.

    python -m tests.wire.mutate --seconds 300 --seed 1

Each mutated request is sent through the gateway to a recorder, given to h11, and sent through an nginx to its own
recorder. A finding is a request that the gateway forwards while another reader reads the same bytes differently:
another number of messages, another method, target or body. Requests that the others refuse and the gateway forwards are
counted as "forwarded only by the gateway". h11 always reads what leaves the gateway, to the last byte.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import h11

from tests.wire.bench import Bench, check_arrival
from tests.wire.gateway_under_test import gateway_with_recorder
from tests.wire.messages import CHUNKED, OURS, Misframed, request, upload
from tests.wire.recorder import RecordedRequest, Recorder, turns
from tests.wire.second_reader import Nginx, Reading, read_until_quiet

Message = tuple[bytes, bytes, bytes]  # method, target, body
PATIENT_S: Final = 2.0

SEEDS: Final = (
    request(b"/proxy/a/b?c=d", b"X-A: 1\r\nX-B: two\r\nAccept: */*\r\n"),
    upload(b"Content-Length: 5\r\nX-A: 1\r\n", b"hello", target=b"/proxy/a"),
    upload(CHUNKED + b"X-A: 1\r\n", b"5;x=y\r\nhello\r\n0\r\nX-T: 1\r\n\r\n", target=b"/proxy/a"),
    request(b"/proxy/a", b"Connection: X-A, close\r\nX-A: 1\r\nTE: trailers\r\n"),
    request(b"/proxy/a") + request(b"/proxy/b"),
    upload(b"Content-Length: 5\r\n", b"hello") + upload(CHUNKED, b"0\r\n\r\n") + request(b"/proxy/c"),
)
PIECES: Final = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b";", b",", b"\x00", b"\x0b", b"\x7f", b"\x85", b"\xa0", b"\xff", b"%00",
    b"%0d%0a", b"/..", b"//", b"\\", b"#", b"?", b"0", b"-", b"+", b"0x", b"chunked", b"identity", b"gzip, chunked",
    b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", CHUNKED, b"Transfer-Encoding: identity\r\n", b"\r\n ",
    b"Content_Length: 3\r\n", b"Host: evil.example\r\n", b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n",
    b" HTTP/1.0", b" HTTP/1.1", b"HTTP/1.1", b"GET /proxy/evil HTTP/1.1\r\n", OURS, b"0\r\n\r\n", b"5\r\nhello\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b"X-Forwarded-For: 1\r\n", b"Nango-Proxy-Host: evil.example\r\n",
    b"http://evil.example", b"http://gw.example",
)  # fmt: skip


def mutate_request(chance: random.Random) -> bytes:
    """Return one of SEEDS with one to three faults."""
    data = bytearray(chance.choice(SEEDS))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0:
                data[at:at] = chance.choice(PIECES)
            case 1:
                data[at : at + chance.randrange(1, 4)] = b""
            case 2:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                data[at : at + 1] = chance.choice(PIECES)
            case 4:  # repeats or moves a line
                lines = bytes(data).splitlines(keepends=True)
                lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
                data = bytearray(b"".join(lines))
            case _:
                data[at:at] = data[at : at + chance.randrange(1, 30)]
    return bytes(data)


async def forwarded_requests(bench: Bench, data: bytes) -> list[RecordedRequest]:
    """Send `data` to the gateway. Return the requests that the gateway forwards."""
    bench.set(bench.recorder.script)
    async with bench.dial() as caller:
        await caller.send(data)
        await read_until_quiet(caller.reader)
    await turns()
    return [received for received in bench.recorder.requests if received.partial is None]


def read_by_h11(data: bytes) -> Reading:
    """Return the messages that h11 reads from the same bytes, up to the end of the last complete message."""
    seen: list[tuple[bytes, bytes, bytes]] = []
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    reader.receive_data(data)
    left = data
    try:
        while isinstance(head := reader.next_event(), h11.Request):
            body = bytearray()
            while isinstance(event := reader.next_event(), h11.Data):
                body += event.data
            if not isinstance(event, h11.EndOfMessage):
                break
            seen.append((bytes(head.method), bytes(head.target), bytes(body)))
            reader.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            reader.send(h11.EndOfMessage())
            if reader.our_state is not h11.DONE or reader.their_state is not h11.DONE:
                break
            reader.start_next_cycle()
            left = reader.trailing_data[0]
    except h11.ProtocolError:
        return Reading(seen, refused=True, left=left)
    return Reading(seen, refused=False)


def differs(forwarded: list[Message], read: Reading) -> bool:
    """Return whether the gateway forwarded a message that the other reader reads differently.

    The gateway's messages must be among the other reader's, in the same order. There is one exception, if the other
    reader refused the following bytes. Then the gateway can have read a message from these bytes: it can refuse an
    earlier message without closing the connection, and it accepts an empty line before a head.
    """
    rest = iter([(method, as_sent(target), body) for method, target, body in read.messages])
    for at, mine in enumerate(forwarded):
        if not any(mine == other for other in rest):
            return not read.refused or (at == 0 and bool(read.messages) and not contains_request_line(read.left, mine))
    return False


def contains_request_line(left: bytes | None, message: Message) -> bool:
    """Return whether the bytes `left` contain the request line of the message, in any spelling in which it can be sent."""
    method, target, _ = message
    return left is not None and any(
        b"%b %b%b%b " % (method, start, mount, target) in left
        for start in (b"", b"http://gw.example", b"https://gw.example")
        for mount in (b"/proxy", b"")
    )


def as_sent(target: bytes) -> bytes:
    """Return the target as the gateway would send it: without the gateway's own authority and mount path."""
    for start in (b"http://gw.example", b"https://gw.example"):
        if target.lower().startswith(start):
            target = target[len(start) :]
    rest = target.removeprefix(b"/proxy")
    return rest if rest.startswith(b"/") else b"/" + rest


async def run(seconds: float, seed: int) -> int:
    """Run the mutations. Return the number of findings. Each finding is printed as one line of JSON."""
    chance, counts, findings = random.Random(seed), Counter[str](), 0
    recorder = Recorder()
    await recorder.start()
    with tempfile.TemporaryDirectory() as folder:
        async with gateway_with_recorder(recorder, Path(folder)) as bench, Nginx.running(Path(folder)) as nginx:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                data = mutate_request(chance)
                findings += await check_request(bench, nginx, data, counts)
    await recorder.stop()
    print(json.dumps({"seed": seed, "nginx": nginx is not None, **counts}))
    return findings


async def check_request(bench: Bench, nginx: Nginx | None, data: bytes, counts: Counter[str]) -> int:
    counts["sent"] += 1
    received = await forwarded_requests(bench, data)
    faults = list(bench.recorder.faults)
    try:
        for item in received:
            check_arrival(item, bench.recorder.authority)
    except (AssertionError, Misframed, h11.ProtocolError) as fault:
        faults.append(repr(fault))
    if faults:
        return print_finding("what left us is not plain", data, faults=faults)
    if not received:
        counts["refused or unfinished"] += 1
        return 0
    counts["forwarded"] += 1
    forwarded = [(entry.method, entry.target, entry.body.data) for entry in received]
    readers = {"h11": read_by_h11(data)}
    if nginx is not None:
        readers["nginx"] = await nginx.read(data)
        if differs(forwarded, readers["nginx"]):
            readers["nginx"] = await nginx.read(data, PATIENT_S)  # repeat, because nginx may only have been slow
    found = 0
    for name, read in readers.items():
        refused = read.refused and len(read.messages) < len(forwarded)
        counts[f"forwarded only by the gateway, refused by {name}"] += refused
        if differs(forwarded, read):
            found += print_finding(f"{name} reads it differently", data, forwarded_requests=forwarded, theirs=read)
    return found


def print_finding(kind: str, data: bytes, **extra: object) -> int:
    print(
        json.dumps({"finding": kind, "sent": repr(data), **{name: repr(value) for name, value in extra.items()}}),
        flush=True,
    )
    return 1


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--seconds", type=float, default=300)
    options.add_argument("--seed", type=int, default=int(time.time()))
    arguments = options.parse_args()
    logging.disable(logging.CRITICAL)
    return 1 if asyncio.run(run(arguments.seconds, arguments.seed)) else 0


if __name__ == "__main__":
    sys.exit(main())
