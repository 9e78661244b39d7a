"""A response is decoded in small parts, and no faster than the caller reads it."""

import asyncio
import gzip
import random

from gateway.http.content_coding import CodingError, Decoder
from gateway.server.response_decoding import PART_BYTES, STEP_BYTES, ResponseDecoding
from tests.fakes.patience import PATIENCE_S

TEXT = random.Random(1).randbytes(1 << 20).hex().encode()  # 2 MiB of text, which compresses to about half


class Caller:
    def __init__(self, pause_at: int | None = None) -> None:
        self.held_bytes = 0
        self.taken = bytearray()
        self.turns: list[int] = []
        self.done = asyncio.Event()
        self.fault: Exception | None = None
        self.decoding: ResponseDecoding
        self._pause_at = pause_at

    def pass_on(self, piece: bytes) -> None:
        self.taken += piece
        if self._pause_at is not None and len(self.taken) >= self._pause_at:
            self.decoding.paused, self._pause_at = True, None

    def on_all_decoded(self) -> None:
        self.turns.append(len(self.taken))

    def end_response(self) -> None:
        self.done.set()

    def fail(self, fault: Exception) -> None:
        self.fault = fault


class Provider:
    def __init__(self) -> None:
        self.aborted = False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        self.aborted = True


def decoding(caller: Caller, provider: Provider) -> ResponseDecoding:
    decoder = Decoder()
    assert decoder.start("gzip")
    caller.decoding = ResponseDecoding(decoder, caller, provider, live=False)
    return caller.decoding


async def test_each_loop_iteration_decodes_a_limited_amount() -> None:
    caller = Caller()
    it = decoding(caller, Provider())
    it.feed(gzip.compress(TEXT))
    assert 0 < len(caller.taken) <= 2 * STEP_BYTES
    it.end()
    await asyncio.wait_for(caller.done.wait(), PATIENCE_S)
    assert caller.taken == TEXT
    assert caller.held_bytes == 0


async def test_decoding_pauses_for_a_slow_caller() -> None:
    caller = Caller(pause_at=1)
    it = decoding(caller, Provider())
    it.feed(gzip.compress(TEXT))
    it.end()
    taken = len(caller.taken)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(caller.taken) == taken < len(TEXT)
    it.resume()
    assert len(caller.taken) == taken  # the transport may call `resume` during a write
    await asyncio.wait_for(caller.done.wait(), PATIENCE_S)
    assert caller.taken == TEXT


async def test_no_head_is_sent_for_a_body_that_does_not_match_its_coding() -> None:
    caller, provider = Caller(), Provider()
    it = decoding(caller, provider)
    it.feed(b"this is no gzip")
    assert (it.may_begin, type(caller.fault), provider.aborted) == (False, CodingError, True)


async def test_a_compressed_body_that_ends_too_early_is_an_error() -> None:
    caller = Caller()
    it = decoding(caller, Provider())
    it.feed(gzip.compress(TEXT)[:-20])
    it.end()
    for _ in range(20):
        await asyncio.sleep(0)
    assert isinstance(caller.fault, CodingError)
    assert not caller.done.is_set()


async def test_a_caller_that_resumes_reading_in_its_own_callback_gets_an_intact_response() -> None:
    """`resume` runs inside the transport's write. An abort at this point would make asyncio close the transport twice."""
    caller = Caller(pause_at=1)
    it = decoding(caller, Provider())
    coded = gzip.compress(TEXT[:1000])
    it.feed(coded[:-8])
    it.feed(b"no digest")
    assert it.paused
    it.resume()
    assert caller.fault is None
    for _ in range(5):
        await asyncio.sleep(0)
    assert isinstance(caller.fault, CodingError)


async def test_one_byte_parts_also_end_a_loop_iteration() -> None:
    """Two thousand gzip members of one byte take ten milliseconds, so decoding must pause."""
    caller = Caller()
    it = decoding(caller, Provider())
    it.feed(gzip.compress(b"a") * 2000)
    assert len(caller.taken) == STEP_BYTES // PART_BYTES
    it.end()
    async with asyncio.timeout(PATIENCE_S):
        await caller.done.wait()
    assert caller.taken == b"a" * 2000
