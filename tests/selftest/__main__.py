"""``make selftest``: kills, cuts, stalls, full disks and restarts, and a table of what was lost by them."""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.fakes.postgres import PostgresServer
from tests.selftest.crash import ALL, REFRESH_S, Outcome, crash
from tests.selftest.cuts import CUTS, cut
from tests.selftest.full_disk import full_disk
from tests.selftest.restart import postgres_restart
from tests.selftest.seen import Seen
from tests.selftest.stall import stalled_holder
from tests.selftest.writes import Tally, kills_during_writes

PROVIDERS = {False: "revokes on reuse", True: "has a grace time"}
LOST_AT_MOST = 0.01  # of the kills at random moments of a refresh

Trial = Callable[[int, random.Random], AsyncIterator[Seen]]


async def steps(_kills: int, _dice: random.Random) -> AsyncIterator[Seen]:
    """kill -9 at every step of a refresh"""
    for forgiving, provider in PROVIDERS.items():
        for point in ALL:
            with tempfile.TemporaryDirectory() as folder:
                seen = await crash(point, Path(folder), forgiving=forgiving)
            yield Seen(f"killed {point} ({provider})", _told(seen), int(seen.lost), _fine(seen) and seen.killed)


async def refreshes(kills: int, dice: random.Random) -> AsyncIterator[Seen]:
    """kill -9 at random moments of refreshes"""
    lost = bad = 0
    for number in range(kills):
        after_s = dice.uniform(0, REFRESH_S)
        with tempfile.TemporaryDirectory() as folder:
            seen = await crash("never", Path(folder), after_s=after_s)
        lost, bad = lost + seen.lost, bad + (not _fine(seen))
        tell(f"refreshes: {number + 1} of {kills} kills, {lost} rotations lost and told, {bad} silently")
        if seen.lost or not _fine(seen):
            what = f"no. {number + 1}, killed {after_s * 1000:.0f} ms into a refresh"
            yield Seen(what, _told(seen), int(seen.lost), _fine(seen))
    told = f"{lost} rotations lost and told, {bad} lost silently or unsound"
    yield Seen(f"{kills} kills during refreshes", told, lost, not bad and lost <= max(1, kills * LOST_AT_MOST))


async def writes(kills: int, dice: random.Random) -> AsyncIterator[Seen]:
    """kill -9 at random moments of imports, changes and deletes"""
    with tempfile.TemporaryDirectory() as folder:

        def step(done: Tally) -> None:
            tell(f"writes: {done.kills} of {kills} kills; {done.seen().outcome}")

        yield (await kills_during_writes(Path(folder), kills, dice, step=step)).seen()


async def network(_kills: int, _dice: random.Random) -> AsyncIterator[Seen]:
    """the network to the provider cut during a refresh"""
    for forgiving in PROVIDERS:
        for place in CUTS:
            with tempfile.TemporaryDirectory() as folder:
                yield await cut(place, Path(folder), forgiving=forgiving)


async def stall(_kills: int, _dice: random.Random) -> AsyncIterator[Seen]:
    """the holder of a lease stalled past it"""
    for parent in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            yield await stalled_holder(Path(folder), parent=parent)


async def disk(_kills: int, _dice: random.Random) -> AsyncIterator[Seen]:
    """a full disk"""
    with tempfile.TemporaryDirectory() as folder:
        yield await full_disk(Path(folder))


async def postgres(_kills: int, _dice: random.Random) -> AsyncIterator[Seen]:
    """PostgreSQL restarted under load"""
    server = await asyncio.to_thread(PostgresServer)
    server.launch()  # not in a thread: it ends with the thread that has started it
    await server.answers()
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield await postgres_restart(Path(folder), server, seconds=10.0)
    finally:
        server.remove()


TRIALS: dict[str, Trial] = {
    "steps": steps,
    "network": network,
    "stall": stall,
    "disk": disk,
    "writes": writes,
    "refreshes": refreshes,
    "postgres": postgres,
}


def _fine(seen: Outcome) -> bool:
    return seen.sound and not seen.silent


def _told(seen: Outcome) -> str:
    return f"{f'lost, told as {seen.reason}' if seen.lost else 'nothing lost'}; {seen.requests} token requests"


def tell(line: str) -> None:
    """How far it has come, on stderr."""
    print(line, file=sys.stderr, flush=True)


async def main(names: list[str], kills: int, seed: int, as_json: bool) -> int:
    """The exit code: 1 where anything was lost silently, or is otherwise not as it must be."""
    dice, found = random.Random(seed), list[Seen]()
    for name in names:
        async for seen in TRIALS[name](kills, dice):
            found.append(seen)
            if not as_json:
                print(f"{'ok  ' if seen.fine else 'BAD '} {seen.trial:<66} {seen.outcome}", flush=True)
    bad = sum(not seen.fine for seen in found)
    if as_json:
        print(json.dumps({"seed": seed, "ok": not bad, "trials": [seen.as_json() for seen in found]}, indent=2))
    else:
        print(f"{len(found)} trials: {sum(seen.lost for seen in found)} lost, {bad} not as they must be")
    return 1 if bad else 0


if __name__ == "__main__":
    words = argparse.ArgumentParser(
        prog="make selftest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:<10} {trial.__doc__}" for name, trial in TRIALS.items()),
    )
    words.add_argument("--kills", type=int, default=200, help="kills at random moments (200)")
    words.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    words.add_argument(
        "--only", action="append", choices=TRIALS, metavar="NAME", help="one of those below; may be repeated"
    )
    words.add_argument("--postgres", action="store_true", help="restart a PostgreSQL server of its own too")
    words.add_argument("--json", action="store_true", help="print JSON at the end instead of lines")
    given = words.parse_args()
    wanted = given.only or [name for name in TRIALS if name != "postgres" or given.postgres]
    if not given.json:
        print(f"seed {given.seed}")
    sys.exit(asyncio.run(main(wanted, given.kills, given.seed, given.json)))
