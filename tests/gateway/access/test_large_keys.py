"""Keys with many long rules: neither minting nor using such a key delays the requests of other callers."""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gateway import clock
from gateway.access.freeze_operations import snapshot
from gateway.access.key_policy import INLINE_CHARS, Policy, SentRequest, is_slow_to_compile
from gateway.access.key_rule import parse_rule
from gateway.catalog.load_catalog import Catalog
from gateway.records.access import KeyLimits
from gateway.secret import digest
from gateway.store.minted_keys import NewMintedKey
from tests.fakes.keyed import TwoConnectionGateway, two_connection_gateway
from tests.fakes.scaling import cpu_s
from tests.gateway.catalog.folders import SHIPPED

MINTS: dict[str, Any] = {"scopes": ["environment:proxy", "environment:api_keys:*"]}
MAX_HOLD_S = 0.05 if sys.gettrace() is None else 0.2  # coverage makes Python code several times slower


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[TwoConnectionGateway]:
    async with two_connection_gateway(tmp_path) as made:
        yield made


def long_rules(seed: int) -> list[str]:
    """Return 200 different rules. Each is as slow to compile as the rule of a new key can be."""
    random = Random(seed)
    return ["GET /" + "".join("*" + "".join(random.choices("abcdefgh", k=20)) for _ in range(20)) for _ in range(200)]


def long_body_rules(seed: int) -> list[str]:
    random = Random(seed)
    return [f"POST /{n} with tools " + ",".join(f"{random.choice('abc')}*{m}*" for m in range(70)) for n in range(200)]


@asynccontextmanager
async def longest_hold() -> AsyncIterator[list[float]]:
    """Yield a list with the longest time for which the event loop was blocked, in seconds of CPU time."""
    longest = [0.0]

    async def tick() -> None:
        at = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            longest[0] = max(longest[0], now - at)
            at = now

    gc.collect()
    gc.disable()  # garbage collection of other tests' objects would count too
    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    try:
        yield longest
    finally:
        ticking.cancel()
        gc.enable()


async def call(gateway: TwoConnectionGateway, key: str, path: str) -> int:
    headers = {"Authorization": f"Bearer {key}", "Provider-Config-Key": "acme", "Connection-Id": "c1"}
    async with gateway.running.http.get(f"{gateway.running.url}/proxy{path}", headers=headers) as response:
        return response.status


async def list_tools(gateway: TwoConnectionGateway, key: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    status, _, reply = await gateway.call_api("POST", "/mcp", key, json=message, headers=headers)
    assert (status, list(reply["result"])) == (200, ["tools"])


@pytest.mark.parametrize("rules_of", [long_rules, long_body_rules])
async def test_minting_and_first_use_of_a_large_key_delay_no_other_call(
    gateway: TwoConnectionGateway, rules_of: Callable[[int], list[str]]
) -> None:
    """The rules must not be compiled on the event loop: this took 0.25 s for a new key, 0.75 s with its ancestors."""
    key = (await gateway.key("warm", **MINTS))["secret"]
    assert await call(gateway, key, "/x") == 200
    await list_tools(gateway, key)
    of_others = Policy((), [KeyLimits(rules=tuple(rules_of(9)))])
    longest_hold_s = cpu_s(of_others.compile, times=1) / 3
    for depth in range(3):
        rules = rules_of(depth)
        async with longest_hold() as mint:
            key = (await gateway.key(str(depth), key=key, **MINTS, limits={"rules": rules}))["secret"]
        async with longest_hold() as first_use:
            assert await call(gateway, key, "/x") == 403
        assert max(*mint, *first_use) <= longest_hold_s, (depth, mint, first_use)
    async with longest_hold() as listing:
        await list_tools(gateway, key)
    integration = {"provider": "acme", "unique_key": "another"}
    await gateway.running.json("POST", "/integrations", json=integration, expect=200)
    async with longest_hold() as listing_after_a_change:
        await list_tools(gateway, key)
    assert max(*listing, *listing_after_a_change) <= longest_hold_s, (listing, listing_after_a_change)


async def test_minting_and_first_use_of_a_key_with_many_operations_delay_no_other_call(tmp_path: Path) -> None:
    """The operations of providers must not be read or unpacked on the event loop, neither at minting nor at the first
    use.
    """
    async with two_connection_gateway(tmp_path) as gateway:
        catalog = gateway.running.runtime.generation.catalog
        rules = [
            rule
            for name in sorted(path.stem for path in (SHIPPED / "operations").glob("*.tsv"))
            if (rule := f"operations {name} read,write,delete") and is_valid_operation_rule(rule, catalog)
        ][:150]
        key = (await gateway.key("warm", **MINTS))["secret"]
        assert await call(gateway, key, "/x") == 200
        await list_tools(gateway, key)
        async with longest_hold() as mint:
            key = (await gateway.key("operations", **MINTS, limits={"rules": rules}))["secret"]
        async with longest_hold() as first_use:
            assert await call(gateway, key, "/x") == 403
        async with longest_hold() as listing:
            await list_tools(gateway, key)
        assert max(*mint, *first_use, *listing) <= MAX_HOLD_S, (mint, first_use, listing)


async def test_a_key_with_many_rules_decides_like_a_key_with_few(gateway: TwoConnectionGateway) -> None:
    """The large keys include keys that were stored before the limit of 20 wildcards per rule."""
    rules = ("GET /" + "*a" * 240, *long_rules(1), "GET /proxied/*")
    new = NewMintedKey(
        digest=digest("gw_sk_x"), environment="dev", kind="key", name="early", last_four="four", created_by="tests",
        scopes=("environment:proxy",), limits=(KeyLimits(rules=rules),),
    )  # fmt: skip
    await gateway.running.runtime.store.keys.add(new, now=clock.now())
    assert is_slow_to_compile(new.limits)
    caller = await gateway.running.runtime.minted.caller(new.digest)
    assert caller is not None
    for path in ("/" + "a" * 240, "/proxied/x", "/proxied/x/y", "/other"):
        sent = SentRequest("GET", "h", path, "", ())
        decided = [Policy((), [KeyLimits(rules=(rule,))]).decision(sent) for rule in rules]
        allowing = next((item for item in decided if isinstance(item, str)), None)
        assert caller.policy.decision(sent) == allowing or (allowing is None and path in ("/proxied/x/y", "/other"))


async def test_a_key_that_ends_while_its_rules_are_compiled_is_refused(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await gateway.key("large", limits={"rules": long_rules(1)})

    async def revoked_meanwhile(share: str, work: Callable[..., Any], *arguments: Any) -> Any:
        await gateway.running.runtime.store.keys.revoke("dev", key["id"], now=clock.now())
        return work(*arguments)

    monkeypatch.setattr("gateway.access.known_keys.off_loop", revoked_meanwhile)
    assert await call(gateway, key["secret"], "/x") == 401


async def test_descendants_of_one_key_share_its_place_in_the_queue(
    gateway: TwoConnectionGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All keys below one key share its place in the queue. With a place for each, many large keys could delay all other
    callers.
    """
    shares: list[str] = []

    async def run_and_record(share: str, work: Callable[..., Any], *arguments: Any) -> Any:
        shares.append(share)
        return work(*arguments)

    monkeypatch.setattr("gateway.access.known_keys.off_loop", run_and_record)
    root = await gateway.key("root", **MINTS)
    child = await gateway.key("child", key=root["secret"], **MINTS, limits={"rules": long_rules(1)})
    below = await gateway.key("below", key=child["secret"], **MINTS)
    for key in (child, below):
        assert await call(gateway, key["secret"], "/x") == 403
    assert set(shares) == {str(root["id"])}


def test_small_keys_are_compiled_at_the_first_match() -> None:
    assert not is_slow_to_compile([KeyLimits(rules=("GET /a/*",) * 200)])
    assert is_slow_to_compile([KeyLimits(rules=tuple(long_rules(1)[:10]))])
    assert is_slow_to_compile([KeyLimits(operations={"operations x read": "1:" + "x" * 4 * (INLINE_CHARS + 1)})])
    rule = parse_rule("GET /a/*")
    assert (rule.matches("POST", "/a/b"), rule.matches("GET", "/a/b"), rule.matches("GET", "/a/b/c")) == (
        False,
        True,
        False,
    )


def is_valid_operation_rule(rule: str, catalog: Catalog) -> bool:
    try:
        snapshot(rule, catalog)
    except ValueError:
        return False
    return True
