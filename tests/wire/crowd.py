"""Many concurrent callers, some of which disconnect at random. Each caller must get its own response.

Every request has a unique number in its path and in its body. The provider returns both, so a mixed-up response is
noticed.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import count, islice, takewhile
from typing import Final

from tests.wire.bench import Bench, Caller
from tests.wire.messages import CHUNKED, Misframed, request, upload
from tests.wire.recorder import RecordedRequest, ScriptedHttpResponse, ok, sends, turns

CONNECTIONS: Final = 50
ABORTS: Final = 0.03  # share of the batches with a disconnect
PIPELINED: Final = 8


@dataclass
class Tally:
    """Counts callers. `done`: got their own response. `left`: disconnected. `foreign`: got the response of another
    caller.

    `odd`: any other result.
    """

    done: int = 0
    left: int = 0
    foreign: list[bytes] = field(default_factory=list)
    odd: Counter[str] = field(default_factory=Counter)


def response_to(received: RecordedRequest) -> ScriptedHttpResponse:
    """Return a response with path and body of the request. Its framing depends on the number of the request."""
    body = received.target + b"|" + received.body.data
    match int(received.target[1:]) % 5:
        case 0:
            return sends(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            )
        case 1:
            return sends(ok(body)[:-3], ok(body)[-3:])
        case 2:
            return sends(ok(body, b"Connection: close\r\n"), then="close")
        case _:
            return sends(ok(body))


def message(number: int) -> tuple[bytes, bytes]:
    """Return a request, and the body that the response must have."""
    target = b"/%d" % number
    text = b"body of %d " % number * (1 + number % 50)
    if number % 3 == 0:
        return request(b"/proxy" + target), target + b"|"
    if number % 3 == 1:
        sent = upload(b"Content-Length: %d\r\n" % len(text), text, method=b"PUT", target=b"/proxy" + target)
    else:
        sent = upload(CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text), method=b"PUT", target=b"/proxy" + target)
    return sent, target + b"|" + text


async def crowd(bench: Bench, total: int, seed: int) -> Tally:
    """Send `total` requests over CONNECTIONS connections. Each connection has up to PIPELINED requests in flight."""
    tally, chance = Tally(), random.Random(seed)
    numbers = takewhile(lambda number: number <= total, count(1))

    async def caller() -> None:
        while batch := list(islice(numbers, chance.randint(1, PIPELINED))):
            async with bench.dial() as connection:
                while batch and await _batch(connection, batch, chance, tally):
                    batch = list(islice(numbers, chance.randint(1, PIPELINED)))

    bench.recorder.response_to = response_to
    try:
        await asyncio.gather(*(caller() for _ in range(CONNECTIONS)))
    finally:
        bench.recorder.response_to = None
    return tally


async def _batch(caller: Caller, batch: list[int], chance: random.Random, tally: Tally) -> bool:
    """Send a batch of requests, then read the responses or disconnect. Return whether the connection can be used again."""
    messages = [message(number) for number in batch]
    leaves_at = chance.randrange(len(batch)) if chance.random() < ABORTS else len(batch)
    caller.writer.write(b"".join(sent for sent, _ in messages))
    for at, (sent, expected) in enumerate(messages):
        if at == leaves_at:
            await turns(chance.randrange(40))
            tally.left += len(batch) - at
            if chance.random() < 0.5:
                caller.reset()
            return False
        try:
            response = await caller.response(sent.split(b" ", 1)[0])
        except (Misframed, EOFError, ConnectionError, TimeoutError) as fault:
            tally.odd[repr(fault)[:80]] += len(batch) - at
            return False
        if response.code or response.end != "framed":
            tally.odd[f"{response.status} {response.code} {response.end}"] += 1
        elif response.body.data == expected:
            tally.done += 1
        else:
            tally.foreign.append(response.body.data[:80])
    return True
