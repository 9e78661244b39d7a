"""``make loss``: what three nodes on PostgreSQL lose behind nginx and behind HAProxy, scenario by scenario.

Each node is in its own network namespace; balancer, database and provider share another. 30 connections with 6-s tokens
are refreshed all the time. The provider accepts each refresh token once, revokes a grant when it receives one twice,
and sends its response up to 1.5 s after the rotation. At the end of each scenario, every connection is checked by a
call and a forced refresh.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from tests.fakes.fronts import HOST, Balancer, program, start_balancer
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.postgres import PASSWORD, SETTINGS, PostgresServer
from tests.fakes.tracker import Grant
from tests.loss.cluster import Cluster, faketime
from tests.loss.network import DATABASE, HUB, NETWORK, NODES, PROVIDER, inside, missing, network
from tests.loss.provider import StrictProvider
from tests.loss.scenario_result import ScenarioResult
from tests.loss.scenarios import SCENARIOS, Trial

BALANCERS: Final = ("nginx", "haproxy")
CONNECTIONS: Final = 30
TOKEN_S: Final = 6.0
PER_S: Final = 40.0  # calls per second
CLIENT_TIMEOUT_S: Final = 100.0  # longer than the 40 s for which a node is paused
FINAL_STATE_S: Final = 200.0  # after this time, leases and back-off have ended
KEY: Final = {"Authorization": f"Bearer {SECRET_KEY}"}


class Resolver(aiohttp.abc.AbstractResolver):
    """Resolves every host name to 127.0.0.1, where the balancer listens."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[Any]:
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 0, "flags": 0}]

    async def close(self) -> None: ...


class Clients:
    """Calls at a constant rate, which do not wait for earlier calls. `calls`: number of calls by status."""

    def __init__(self, balancer: Balancer, names: list[str], dice: random.Random) -> None:
        self.calls = Counter[str]()
        self._names, self._dice = names, dice
        connector = aiohttp.TCPConnector(ssl=balancer.tls, resolver=Resolver(), limit=0)
        self._http = aiohttp.ClientSession(
            f"https://{HOST}:{balancer.ports.https}",
            headers=KEY,
            connector=connector,
            timeout=aiohttp.ClientTimeout(CLIENT_TIMEOUT_S),
        )
        self._in_flight = set[asyncio.Task[None]]()
        self._running = asyncio.create_task(self._run())

    async def finish(self) -> None:
        """Start no more calls, and wait for the calls in flight."""
        self._running.cancel()
        await asyncio.gather(*self._in_flight)

    async def close(self) -> None:
        for task in (self._running, *self._in_flight):
            task.cancel()
        await self._http.close()

    async def _run(self) -> None:
        while True:
            task = asyncio.create_task(self._call(self._dice.choice(self._names)))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)
            await asyncio.sleep(1 / PER_S)

    async def _call(self, name: str) -> None:
        names = {"Provider-Config-Key": "tracker", "Connection-Id": name}
        try:
            async with self._http.get("/proxy/x", headers=names) as response:
                await response.read()
                self.calls[str(response.status)] += 1
        except (aiohttp.ClientError, TimeoutError) as error:
            self.calls[type(error).__name__] += 1


class Session:
    """All scenarios behind one load balancer."""

    def __init__(self, cluster: Cluster, provider: StrictProvider, balancer: Balancer, seed: int) -> None:
        self._cluster, self._provider, self._balancer, self._seed = cluster, provider, balancer, seed
        self._made = 0

    async def play(self, name: str) -> ScenarioResult:
        dice = random.Random(f"{self._seed} {self._balancer.name} {name}")
        grants = await self._import_connections()
        requests_before = self._provider.calls["refresh_token"]
        trial = Trial(self._cluster, self._provider, dice)
        clients = Clients(self._balancer, list(grants), dice)
        try:
            # in this time, each connection is refreshed once, so the gateway learns that tokens rotate
            await asyncio.sleep(TOKEN_S)
            await SCENARIOS[name](trial)
            await asyncio.sleep(TOKEN_S)
            await clients.finish()
        finally:
            await clients.close()
        result = ScenarioResult(name, calls=clients.calls)
        final_states = await asyncio.gather(*(self._final_state(n, name) for n, name in enumerate(grants)))
        result.refreshes = self._provider.calls["refresh_token"] - requests_before
        for connection_id, (status, reason) in zip(grants, final_states, strict=True):
            result.add(
                connection_id,
                status,
                reason,
                may_be_lost=any(grants[connection_id] is grant for grant in trial.may_be_lost),
            )
        await self._delete_connections(list(grants))
        return result

    async def _import_connections(self) -> dict[str, Grant]:
        """Import connections with expired tokens. Return the connections with their grants."""
        grants = dict[str, Grant]()
        async with self._node(0) as http:
            for _ in range(CONNECTIONS):
                name = f"c{self._made}"
                self._made += 1
                tokens = {part: text for part, text in self._provider.grant().items() if part.endswith("_token")}
                credentials = {"type": "OAUTH2", **tokens, "expires_at": "2020-01-01T00:00:00Z"}
                body = {"provider_config_key": "tracker", "connection_id": name, "credentials": credentials}
                async with http.post("/connections", json=body) as response:
                    assert response.status == 201, await response.text()
                grants[name] = self._provider.grants[-1]
        return grants

    async def _delete_connections(self, names: list[str]) -> None:
        """Delete the connections, so that the next scenario does not refresh them."""
        async with self._node(0) as http:
            for name in names:
                url = f"/connections/{name}?provider_config_key=tracker&revoke=false"
                async with http.delete(url) as response:
                    assert response.status == 200, await response.text()

    async def _final_state(self, number: int, name: str) -> tuple[int, str | None]:
        """Return the status after a call through one node and a forced refresh through another node, and the reason of
        the state.

        Repeat call and refresh until the status is 200 or 424, for at most `FINAL_STATE_S`.
        """
        path = f"/connections/{name}?provider_config_key=tracker"
        status, end = 0, time.monotonic() + FINAL_STATE_S
        names = {"Provider-Config-Key": "tracker", "Connection-Id": name}
        async with self._node(number) as first, self._node(number + 1) as second:
            while status not in (200, 424) and time.monotonic() < end:
                async with first.get("/proxy/x", headers=names) as response:
                    status = response.status
                if status == 200:
                    async with second.get(f"{path}&force_refresh=true") as response:
                        status = 503 if "Gateway-Refresh-Failed" in response.headers else response.status
                if status not in (200, 424):
                    await asyncio.sleep(1)
            async with first.get(f"{path}&include=history") as response:
                body = await response.json()
                connection = body if response.status == 200 else body["error"]["payload"]["connection"]
                return status, connection["history"][-1]["reason"]

    @asynccontextmanager
    async def _node(self, number: int) -> AsyncIterator[aiohttp.ClientSession]:
        address = self._cluster.addresses[number % len(NODES)]
        async with aiohttp.ClientSession(f"http://{address}", headers=KEY) as http:
            yield http


@asynccontextmanager
async def database(folder: Path) -> AsyncIterator[str]:
    """Yield the URL of an empty database at DATABASE."""
    rules = folder / "pg_hba.conf"
    rules.write_text(f"host all all 127.0.0.1/32 scram-sha-256\nhost all all {NETWORK} scram-sha-256\n")
    rules.chmod(0o644)
    server = PostgresServer((*SETTINGS, "listen_addresses=*", f"hba_file={rules}"))
    try:
        server.launch()
        await server.responses()
        name = (await server.make_database()).rpartition("/")[2]
        yield f"postgresql://gateway:{PASSWORD}@{DATABASE}:{server.port}/{name}"
    finally:
        server.remove()


async def run(balancers: list[str], names: list[str], seed: int, logs: Path | None) -> int:
    bad = 0
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loss-")))
        folder.chmod(0o755)
        url = await stack.enter_async_context(database(folder))
        provider = StrictProvider(ttl_s=TOKEN_S, refusal=401, expires=True, dice=random.Random(seed))
        runner = web.AppRunner(provider.app())
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, PROVIDER, 0).start()
        cluster = Cluster(folder, runner.addresses[0][1], url)
        stack.callback(cluster.kill_all)
        for number in range(len(NODES)):  # the first node creates the tables
            await cluster.start(number)
        for name in balancers:
            place = folder / name
            place.mkdir()
            async with start_balancer(name, place, cluster.addresses) as balancer:
                session = Session(cluster, provider, balancer, seed)
                for scenario in names:
                    result = await session.play(scenario)
                    bad += not result.fine
                    load = os.getloadavg()[0]
                    print(f"{name:<8} {result} (load {load:.1f})", flush=True)
                    if logs is not None:
                        (logs / f"{name} {scenario}.log").write_text(cluster.log())
                if logs is not None:
                    (logs / f"{name}.log").write_text(balancer.log)
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make loss",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name}" for name in SCENARIOS),
    )
    parser.add_argument("--balancer", action="append", choices=BALANCERS, help="only this one; may be repeated")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="only scenarios whose name contains TEXT; may be repeated"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="write the logs of nodes and balancers to FOLDER")
    options = parser.parse_args()
    if options.logs is not None:
        options.logs.mkdir(parents=True, exist_ok=True)
    reason_to_skip = missing()
    if reason_to_skip is not None:
        print(f"skipped: {reason_to_skip}")
        return 0
    names = [name for name in SCENARIOS if not options.only or any(text in name for text in options.only)]
    if faketime() is None:
        print("libfaketime is missing, so no clock is changed: apt-get install faketime")
        names = [name for name in names if "clock" not in name]
    balancers = [name for name in options.balancer or BALANCERS if program(name) is not None]
    for name in set(options.balancer or BALANCERS) - set(balancers):
        print(f"{name} is missing: apt-get install {name}")
    if os.environ.get("GATEWAY_LOSS") != HUB:
        with network():
            command = [sys.executable, "-m", "tests.loss", *sys.argv[1:]]
            return os.spawnvpe(os.P_WAIT, "ip", inside(HUB, command), {**os.environ, "GATEWAY_LOSS": HUB})
    print(f"seed {options.seed}", flush=True)
    return asyncio.run(run(balancers, names, options.seed, options.logs))


if __name__ == "__main__":
    sys.exit(main())
