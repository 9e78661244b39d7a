"""``make selftest``: kills gateways at every step of a refresh and at random moments, and prints what was lost."""

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.selftest.crash import ALL, Outcome, crash

PROVIDERS = {False: "revokes on reuse", True: "has a grace time"}


async def main(kills: int, seed: int) -> int:
    """The exit code: 1 where anything was lost silently, or a database was not sound."""
    print(f"{'killed':<36} {'provider':<18} {'requests':>8}  outcome")
    worst = 0
    for forgiving in PROVIDERS:
        for point in ALL:
            worst = max(worst, _told(point, forgiving, await _one(point, forgiving)))
    dice, lost, bad = random.Random(seed), 0, 0
    for number in range(kills):
        after_s = dice.uniform(0, 0.12)
        seen = await _one("never", False, after_s)
        lost, bad = lost + seen.lost, bad + (seen.silent or not seen.sound)
        if seen.lost or not seen.sound:
            _told(f"at random, {after_s * 1000:.0f} ms in (no. {number + 1})", False, seen)
    if kills:
        print(f"{kills} kills at random moments: {lost} rotations lost and told, {bad} lost silently or unsound")
    return 1 if worst or bad else 0


async def _one(point: str, forgiving: bool, after_s: float | None = None) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return await crash(point, Path(folder), forgiving=forgiving, after_s=after_s)


def _told(point: str, forgiving: bool, seen: Outcome) -> int:
    what = "nothing lost" if not seen.lost else f"lost, told as {seen.reason}"
    if seen.silent or not seen.sound or not seen.killed:
        what = f"WRONG: {seen}"
    print(f"{point:<36} {PROVIDERS[forgiving]:<18} {seen.requests:>8}  {what}", flush=True)
    return int(what.startswith("WRONG"))


if __name__ == "__main__":
    words = argparse.ArgumentParser(prog="make selftest", description=__doc__)
    words.add_argument("--kills", type=int, default=200, help="kills at random moments (200)")
    words.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    given = words.parse_args()
    print(f"seed {given.seed}")
    sys.exit(asyncio.run(main(given.kills, given.seed)))
