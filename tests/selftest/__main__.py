"""``make selftest``: kill processes, cut the network, stall, fill the disk, restart PostgreSQL, and print what was lost."""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.fakes.postgres import PostgresServer
from tests.selftest.crash import ALL, Outcome, crash
from tests.selftest.cuts import CUTS, cut
from tests.selftest.full_disk import full_disk
from tests.selftest.refreshes import RefreshTally, kills_during_refreshes
from tests.selftest.restart import postgres_restart
from tests.selftest.seen import Seen
from tests.selftest.stall import stalled_holder
from tests.selftest.writes import Tally, kills_during_writes

PROVIDERS = {False: "revokes on reuse", True: "has a grace time"}
PART: Final = 200  # number of kills after which a result is kept


@dataclass(frozen=True, slots=True)
class Plan:
    """`kept`: a file with results of parts of a trial, so that a later run continues."""

    kills: int
    seed: int
    kept: Path | None = None

    def dice(self, trial: str, part: int = 0) -> random.Random:
        return random.Random(f"{self.seed} {trial} {part}")


Trial = Callable[[Plan], AsyncIterator[Seen]]


async def steps(_plan: Plan) -> AsyncIterator[Seen]:
    """kill -9 at every step of a refresh"""
    for forgiving, provider in PROVIDERS.items():
        for point in ALL:
            with tempfile.TemporaryDirectory() as folder:
                seen = await crash(point, Path(folder), forgiving=forgiving)
            yield Seen(f"killed {point} ({provider})", _reported(seen), int(seen.lost), _fine(seen) and seen.killed)


async def refreshes(plan: Plan) -> AsyncIterator[Seen]:
    """kill -9 at random moments of refreshes: workers, parents, both"""
    yield await _refreshes(plan, "refreshes", "sqlite:///gateway.db")


async def refreshes_postgres(plan: Plan) -> AsyncIterator[Seen]:
    """the same on PostgreSQL"""
    async with _postgres() as server:
        yield await _refreshes(plan, "refreshes-postgres", await server.make_database())


async def _refreshes(plan: Plan, trial: str, url: str) -> Seen:
    total = RefreshTally()
    for part in range(-(-plan.kills // PART)):
        kills = min(PART, plan.kills - part * PART)
        named = {"trial": trial, "seed": plan.seed, "part": part, "kills": kills}
        done = _kept(plan.kept, named)
        if done is None:

            def step(so_far: RefreshTally, part: int = part) -> None:
                tell(f"{trial}: {part * PART + so_far.kills} of {plan.kills} kills; this part: {so_far}")

            with tempfile.TemporaryDirectory() as folder:
                done = await kills_during_refreshes(Path(folder), kills, plan.dice(trial, part), url=url, step=step)
            if plan.kept is not None:
                with plan.kept.open("a") as file:
                    file.write(json.dumps({**named, "result": asdict(done)}) + "\n")
        total.add(done)
    return total.seen(trial)


def _kept(file: Path | None, named: dict[str, object]) -> RefreshTally | None:
    """Return the result of a part that an earlier run has kept."""
    if file is None or not file.exists():
        return None
    for line in file.read_text().splitlines():
        kept = json.loads(line)
        if {**kept, **named} == kept:
            return RefreshTally.of_json(kept["result"])
    return None


async def writes(plan: Plan) -> AsyncIterator[Seen]:
    """kill -9 at random moments of imports, changes and deletes"""
    with tempfile.TemporaryDirectory() as folder:

        def step(done: Tally) -> None:
            tell(f"writes: {done.kills} of {plan.kills} kills; {done.seen().outcome}")

        yield (await kills_during_writes(Path(folder), plan.kills, plan.dice("writes"), step=step)).seen()


async def network(_plan: Plan) -> AsyncIterator[Seen]:
    """the network to the provider is cut during a refresh"""
    for forgiving in PROVIDERS:
        for place in CUTS:
            with tempfile.TemporaryDirectory() as folder:
                yield await cut(place, Path(folder), forgiving=forgiving)


async def stall(_plan: Plan) -> AsyncIterator[Seen]:
    """the lease holder stalls until its lease expires"""
    for parent in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            yield await stalled_holder(Path(folder), parent=parent)


async def disk(_plan: Plan) -> AsyncIterator[Seen]:
    """the disk is full"""
    with tempfile.TemporaryDirectory() as folder:
        yield await full_disk(Path(folder))


async def postgres(_plan: Plan) -> AsyncIterator[Seen]:
    """PostgreSQL restarts under load"""
    async with _postgres() as server:
        with tempfile.TemporaryDirectory() as folder:
            yield await postgres_restart(Path(folder), server, seconds=10.0)


@asynccontextmanager
async def _postgres() -> AsyncIterator[PostgresServer]:
    server = await asyncio.to_thread(PostgresServer)
    try:
        server.launch()  # not in a thread: the server ends with the thread that started it
        await server.responses()
        yield server
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
    "refreshes-postgres": refreshes_postgres,
}
ON_POSTGRES: Final = frozenset({"postgres", "refreshes-postgres"})


def _fine(seen: Outcome) -> bool:
    return seen.sound and not seen.silent


def _reported(seen: Outcome) -> str:
    return f"{f'lost, told as {seen.reason}' if seen.lost else 'nothing lost'}; {seen.requests} token requests"


def tell(line: str) -> None:
    """Print progress to stderr."""
    print(line, file=sys.stderr, flush=True)


async def main(names: list[str], plan: Plan, as_json: bool) -> int:
    """Return the exit code: 1 if anything was lost silently or is otherwise wrong."""
    found = list[Seen]()
    for name in names:
        async for seen in TRIALS[name](plan):
            found.append(seen)
            if not as_json:
                print(f"{'ok  ' if seen.fine else 'BAD '} {seen.trial:<66} {seen.outcome}", flush=True)
    bad = sum(not seen.fine for seen in found)
    if as_json:
        print(json.dumps({"seed": plan.seed, "ok": not bad, "trials": [seen.as_json() for seen in found]}, indent=2))
    else:
        print(f"{len(found)} trials: {sum(seen.lost for seen in found)} lost, {bad} not as they must be")
    return 1 if bad else 0


if __name__ == "__main__":
    words = argparse.ArgumentParser(
        prog="make selftest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:<18} {trial.__doc__}" for name, trial in TRIALS.items()),
    )
    words.add_argument("--kills", type=int, default=200, help="kills at random moments (200)")
    words.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    words.add_argument(
        "--only", action="append", choices=TRIALS, metavar="NAME", help="one of those below; may be repeated"
    )
    words.add_argument("--postgres", action="store_true", help="also those on a PostgreSQL server of its own")
    words.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help=f"keep results of {PART} kills during refreshes there, and go on from them with the same --seed",
    )
    words.add_argument("--json", action="store_true", help="print JSON at the end instead of lines")
    given = words.parse_args()
    wanted = given.only or [name for name in TRIALS if name not in ON_POSTGRES or given.postgres]
    if not given.json:
        print(f"seed {given.seed}")
    sys.exit(asyncio.run(main(wanted, Plan(given.kills, given.seed, given.keep), given.json)))
