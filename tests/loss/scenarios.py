"""The scenarios: what happens to the nodes during calls and refreshes."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from tests.fakes.tracker import Grant
from tests.loss import network
from tests.loss.cluster import Cluster, paused
from tests.loss.network import DATABASE, NODES, PROVIDER
from tests.loss.provider import StrictProvider

PAUSE_S: Final = 40.0
SHORT_CUT_S: Final = 12.0
"""TCP sends a reply again 0.2, 0.6, 1.4, 3, 6.2, 12.6 and 25.4 s after the first time. With this cut, a repetition
arrives before the token call ends.
"""
CUT_S: Final = 25.0  # TCP repeats the reply after 25.4 s, which may be too late for the token call (limit: 28 s)
LONG_CUT_S: Final = 45.0  # longer than a token call can take
SKEWED_S: Final = 30.0
BETWEEN_S: Final = 3.0
SKEWS_S: Final = (10, -10, 35, -35, 300, -300)


class Trial:
    """A running scenario.

    `may_be_lost`: grants with a reply that was in flight when a parent was killed or a network was cut. Such a reply
    can be lost.
    """

    def __init__(self, cluster: Cluster, provider: StrictProvider, dice: random.Random) -> None:
        self.cluster, self.provider, self.dice = cluster, provider, dice
        self.may_be_lost: list[Grant] = []

    def in_flight_may_be_lost(self, node: int, *, since: float | None = None) -> None:
        """Add the grants in flight of this node to `may_be_lost`.

        `since`: monotonic time at which the node was killed or cut off; later responses of the provider count too,
        because the provider may read a request after its sender has died.
        """
        self.may_be_lost += self.provider.in_flight(NODES[node], since=since)


Scenario = Callable[[Trial], Awaitable[None]]


async def do_nothing(_trial: Trial) -> None:
    await asyncio.sleep(10)


async def worker_killed(trial: Trial) -> None:
    for turn in range(9):
        number = turn % len(NODES)
        (worker,) = trial.cluster.node(number).workers()
        os.kill(worker, signal.SIGKILL)
        await trial.cluster.serves(number)
        await asyncio.sleep(trial.dice.uniform(0.5, 1.5) * BETWEEN_S)


async def parent_killed(trial: Trial) -> None:
    """Kill the parent of each node twice. When its workers have ended, start the parent again, as a supervisor does."""
    for turn in range(6):
        number = turn % len(NODES)
        trial.in_flight_may_be_lost(number)
        killed_at = time.monotonic()
        trial.cluster.node(number).signal(signal.SIGKILL)
        await trial.cluster.ended(number)
        trial.in_flight_may_be_lost(number, since=killed_at)
        await trial.cluster.start(number)
        await asyncio.sleep(trial.dice.uniform(0.5, 1.5) * BETWEEN_S)


async def machine_killed(trial: Trial) -> None:
    for turn in range(6):
        number = turn % len(NODES)
        trial.in_flight_may_be_lost(number)
        killed_at = time.monotonic()
        trial.cluster.node(number).kill_all()
        await trial.cluster.ended(number)
        trial.in_flight_may_be_lost(number, since=killed_at)
        await trial.cluster.start(number)
        await asyncio.sleep(trial.dice.uniform(0.5, 1.5) * BETWEEN_S)


async def worker_paused(trial: Trial) -> None:
    with paused(trial.cluster.node(1).workers()):
        await asyncio.sleep(PAUSE_S)


async def parent_paused(trial: Trial) -> None:
    with paused([trial.cluster.node(1).process.pid]):
        await asyncio.sleep(PAUSE_S)


async def node_paused(trial: Trial) -> None:
    node = trial.cluster.node(1)
    with paused([node.process.pid, *node.workers()]):
        await asyncio.sleep(PAUSE_S)


async def cut(trial: Trial, *, address: str, for_s: float) -> None:
    loses = address == PROVIDER and for_s > SHORT_CUT_S
    if loses:
        trial.in_flight_may_be_lost(1)
    begun_at = time.monotonic()
    with network.dropped_packets(1, address):
        await asyncio.sleep(for_s)
        if loses:
            # also requests that were sent just before the cut and arrived after it
            trial.in_flight_may_be_lost(1, since=begun_at)


async def skewed(trial: Trial, *, skew_s: int) -> None:
    """Set the clock of one node ahead, then correct it."""
    await trial.cluster.restart(1, skew_s=skew_s)
    await asyncio.sleep(SKEWED_S)
    await trial.cluster.restart(1)


SCENARIOS: Final[dict[str, Scenario]] = {
    "nothing happens": do_nothing,
    "workers killed, 9 times": worker_killed,
    "parents killed, 6 times": parent_killed,
    "parent and worker killed, 6 times": machine_killed,
    f"worker stopped for {PAUSE_S:g} s": worker_paused,
    f"parent stopped for {PAUSE_S:g} s": parent_paused,
    f"parent and worker stopped for {PAUSE_S:g} s": node_paused,
    f"node cut from PostgreSQL for {CUT_S:g} s": partial(cut, address=DATABASE, for_s=CUT_S),
    f"node cut from PostgreSQL for {LONG_CUT_S:g} s": partial(cut, address=DATABASE, for_s=LONG_CUT_S),
    f"node cut from the provider for {SHORT_CUT_S:g} s": partial(cut, address=PROVIDER, for_s=SHORT_CUT_S),
    f"node cut from the provider for {CUT_S:g} s": partial(cut, address=PROVIDER, for_s=CUT_S),
    f"node cut from the provider for {LONG_CUT_S:g} s": partial(cut, address=PROVIDER, for_s=LONG_CUT_S),
    **{f"clock of a node {skew_s:+d} s": partial(skewed, skew_s=skew_s) for skew_s in SKEWS_S},
}
