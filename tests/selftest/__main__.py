"""``make selftest``: kill and stall processes, cut the network, fill the disk, restart PostgreSQL; print the losses."""

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
from tests.selftest.cuts import CUTS, refresh_and_cut
from tests.selftest.full_disk import full_disk
from tests.selftest.refreshes import RefreshTally, kills_during_refreshes
from tests.selftest.restart import postgres_restart
from tests.selftest.stall import stalled_holder
from tests.selftest.trial_result import TrialResult
from tests.selftest.writes import Tally, kills_during_writes

PROVIDERS = {False: "revokes on reuse", True: "has a grace period"}
PART: Final = 200  # number of kills that have one line in the file of `--keep`


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `kept`: a file with the results of parts of a trial. A later run continues from this file."""

    kills: int
    seed: int
    kept: Path | None = None

    def dice(self, trial: str, part: int = 0) -> random.Random:
        return random.Random(f"{self.seed} {trial} {part}")


Trial = Callable[[Plan], AsyncIterator[TrialResult]]


async def steps(_plan: Plan) -> AsyncIterator[TrialResult]:
    """kill -9 at every step of a refresh"""
    for forgiving, provider in PROVIDERS.items():
        for point in ALL:
            with tempfile.TemporaryDirectory() as folder:
                result = await crash(point, Path(folder), forgiving=forgiving)
            yield TrialResult(
                f"killed {point} ({provider})", _as_text(result), int(result.lost), _is_fine(result) and result.killed
            )


async def refreshes(plan: Plan) -> AsyncIterator[TrialResult]:
    """kill -9 at random moments of refreshes: workers, parents, both"""
    yield await _refreshes(plan, "refreshes", "sqlite:///gateway.db")


async def refreshes_postgres(plan: Plan) -> AsyncIterator[TrialResult]:
    """the same on PostgreSQL"""
    async with _postgres() as server:
        yield await _refreshes(plan, "refreshes-postgres", await server.make_database())


async def _refreshes(plan: Plan, trial: str, url: str) -> TrialResult:
    total = RefreshTally()
    for part in range(-(-plan.kills // PART)):
        kills = min(PART, plan.kills - part * PART)
        identity = {"trial": trial, "seed": plan.seed, "part": part, "kills": kills}
        done = _earlier_result(plan.kept, identity)
        if done is None:

            def step(so_far: RefreshTally, part: int = part) -> None:
                report_progress(f"{trial}: {part * PART + so_far.kills} of {plan.kills} kills; this part: {so_far}")

            with tempfile.TemporaryDirectory() as folder:
                done = await kills_during_refreshes(Path(folder), kills, plan.dice(trial, part), url=url, step=step)
            if plan.kept is not None:
                with plan.kept.open("a") as file:
                    file.write(json.dumps({**identity, "result": asdict(done)}) + "\n")
        total.add(done)
    return total.result(trial)


def _earlier_result(file: Path | None, identity: dict[str, object]) -> RefreshTally | None:
    """Return the result of a part that an earlier run has written to `file`. Return None if there is none."""
    if file is None or not file.exists():
        return None
    for line in file.read_text().splitlines():
        kept = json.loads(line)
        if {**kept, **identity} == kept:
            return RefreshTally.from_json(kept["result"])
    return None


async def writes(plan: Plan) -> AsyncIterator[TrialResult]:
    """kill -9 at random moments of imports, changes and deletes"""
    with tempfile.TemporaryDirectory() as folder:

        def step(tally: Tally) -> None:
            report_progress(f"writes: {tally.kills} of {plan.kills} kills; {tally.result().outcome}")

        yield (await kills_during_writes(Path(folder), plan.kills, plan.dice("writes"), step=step)).result()


async def network(_plan: Plan) -> AsyncIterator[TrialResult]:
    """the network to the provider is cut during a refresh"""
    for forgiving in PROVIDERS:
        for place in CUTS:
            with tempfile.TemporaryDirectory() as folder:
                yield await refresh_and_cut(place, Path(folder), forgiving=forgiving)


async def stall(_plan: Plan) -> AsyncIterator[TrialResult]:
    """the lease holder stalls until its lease expires"""
    for parent in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            yield await stalled_holder(Path(folder), parent=parent)


async def disk(_plan: Plan) -> AsyncIterator[TrialResult]:
    """the disk is full"""
    with tempfile.TemporaryDirectory() as folder:
        yield await full_disk(Path(folder))


async def postgres(_plan: Plan) -> AsyncIterator[TrialResult]:
    """PostgreSQL restarts under load"""
    async with _postgres() as server:
        with tempfile.TemporaryDirectory() as folder:
            yield await postgres_restart(Path(folder), server, seconds=10.0)


@asynccontextmanager
async def _postgres() -> AsyncIterator[PostgresServer]:
    server = await asyncio.to_thread(PostgresServer)
    try:
        server.launch()  # called here and not in a thread, because the server ends with the thread that starts it
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


def _is_fine(result: Outcome) -> bool:
    return result.sound and not result.silent


def _as_text(result: Outcome) -> str:
    return (
        f"{f'lost, reported as {result.reason}' if result.lost else 'nothing lost'}; {result.requests} token requests"
    )


def report_progress(line: str) -> None:
    """Print progress to stderr."""
    print(line, file=sys.stderr, flush=True)


async def main(names: list[str], plan: Plan, as_json: bool) -> int:
    """Print the results and return the exit code: 1 if a trial has an unexpected result, such as an unreported loss."""
    results = list[TrialResult]()
    for name in names:
        async for result in TRIALS[name](plan):
            results.append(result)
            if not as_json:
                print(f"{'ok  ' if result.fine else 'BAD '} {result.trial:<66} {result.outcome}", flush=True)
    bad = sum(not result.fine for result in results)
    if as_json:
        print(
            json.dumps({"seed": plan.seed, "ok": not bad, "trials": [result.as_json() for result in results]}, indent=2)
        )
    else:
        print(f"{len(results)} trials: {sum(result.lost for result in results)} lost, {bad} with an unexpected result")
    return 1 if bad else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="make selftest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:<18} {trial.__doc__}" for name, trial in TRIALS.items()),
    )
    parser.add_argument("--kills", type=int, default=200, help="kills at random moments (200)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument(
        "--only",
        action="append",
        choices=TRIALS,
        metavar="NAME",
        help="only the trial NAME, from the list below; may be repeated",
    )
    parser.add_argument(
        "--postgres", action="store_true", help="also the trials on PostgreSQL, on a server that this command starts"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help=f"write the result of every {PART} kills during refreshes to FILE; continue from it with the same --seed",
    )
    parser.add_argument("--json", action="store_true", help="print JSON at the end instead of lines")
    options = parser.parse_args()
    names = options.only or [name for name in TRIALS if name not in ON_POSTGRES or options.postgres]
    if not options.json:
        print(f"seed {options.seed}")
    sys.exit(asyncio.run(main(names, Plan(options.kills, options.seed, options.keep), options.json)))
