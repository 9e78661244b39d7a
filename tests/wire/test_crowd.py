"""Many concurrent callers: no caller gets another's response, no socket stays open, and memory does not grow.

The test suite sends few requests; `make crowd` sends 100,000 (WIRE_CROWD).
"""

import gc
import os
from contextlib import suppress
from pathlib import Path

import pytest

from tests.wire.bench import Bench
from tests.wire.crowd import crowd
from tests.wire.recorder import turns

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1200)]

TOTAL = int(os.environ.get("WIRE_CROWD", "3000"))
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
GROWTH_BYTES = 24 << 20


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def sockets() -> int:
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # this listing itself opens a descriptor, which is closed now
            count += str(entry.readlink()).startswith("socket:")
    return count


@pytest.mark.heavy
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
async def test_concurrent_callers_with_random_aborts_get_their_own_responses(bench: Bench) -> None:
    recorder = bench.recorder
    outside = sockets() - 2 * len(recorder.open)
    await crowd(bench, TOTAL // 4, seed=1)  # so that pools, caches and allocators reach their final size
    before = resident_bytes()
    tally = await crowd(bench, TOTAL, seed=2)
    await turns(500)
    grown = resident_bytes() - before
    print(f"{tally.done} done, {tally.left} left, grown by {grown >> 10} KiB, {recorder.dialled} dialled")
    assert tally.foreign == []
    assert not tally.odd
    assert recorder.faults == []
    assert tally.done + tally.left == TOTAL
    assert tally.left > 0
    assert sockets() <= outside + 2 * len(recorder.open)  # both ends of an idle connection are in this process
    assert len(recorder.open) <= 2 * 50
    assert grown < GROWTH_BYTES
