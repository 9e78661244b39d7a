"""Both call logs return records unchanged, for each filter, newest first, and within limits."""

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from gateway import clock
from gateway.records.filters import single_or_any_set
from gateway.records.operation import KINDS, Operation, OperationFilter, StoredOperation
from gateway.records.proxied_call import ExchangeRecord
from gateway.store import Store
from gateway.store.call_log import sqlite_call_log, sqlite_search
from gateway.store.call_log.call_log_store import CallLogBounds
from gateway.store.call_log.postgres_call_log import PostgresCallLog
from tests.fakes.postgres import waiting_for_lock

START = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(autouse=True)
def fix_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: START + timedelta(hours=1))


@pytest.fixture(params=[7, 10**9], ids=["sealed", "open"])
def small_segments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give SQLite small segments, most of which are full and indexed, or one large segment that is still written."""
    monkeypatch.setattr(sqlite_call_log, "SEGMENT_ROWS", request.param)


def operation(number: int = 0, **fields: Any) -> Operation:
    plain = Operation(
        kind="call",
        at=START + timedelta(seconds=number),
        request_id=f"r{number}",
        environment="dev",
        integration_id="jira",
        connection_id="u1",
        method="GET",
        host="api.example.com",
        path=f"/issues/{number}",
        status=200,
        duration_ms=12.5,
        gateway_ms=0.5,
        token_ms=0.0,
        upstream_ms=12.0,
        bytes_in=3,
        bytes_out=2**40,
        attempts=2,
    )
    return plain._replace(**fields)


async def operations_found(store: Store, **wanted: Any) -> list[Operation]:
    page = await store.call_log.find(OperationFilter("dev", **wanted))
    return [item.operation for item in page.operations]


async def test_stored_operation_is_found_completely(store: Store) -> None:
    full = operation(
        1, key_id=7, trace_id=TRACE, rule="GET /issues/*", error_code="cut", detail={"message": "Grüße", "final": True}
    )
    bare = Operation("refresh", START, "", "dev")
    await store.call_log.add_many([bare, full])
    await store.call_log.add_many([])
    assert await operations_found(store) == [full, bare]


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_a_search_continues_if_another_node_drops_a_day(store: Store, url: str) -> None:
    await store.call_log.add_many([operation(1), operation(2, at=START - timedelta(days=1))])
    other = await asyncpg.connect(url)
    async with other.transaction():
        await other.execute("DROP TABLE call_log_20260101")
        searching = asyncio.create_task(operations_found(store))
        await waiting_for_lock(url)
    assert [item.request_id for item in await searching] == ["r1"]
    await other.close()


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
@pytest.mark.parametrize("lost", ["call_log", "call_log_20260102"])
async def test_rows_are_stored_after_a_failover_to_a_standby_without_the_table(
    store: Store, url: str, lost: str
) -> None:
    await store.call_log.add_many([operation(1)])
    other = await asyncpg.connect(url)
    await other.execute(f"DROP TABLE {lost}")
    await other.close()
    await store.call_log.add_many([operation(2)])
    assert [one.request_id for one in await operations_found(store)] == ["r2"]


async def test_a_proxied_call_becomes_an_operation_with_its_trace(store: Store) -> None:
    exchange = ExchangeRecord(
        *(START, "r1", "dev", "jira", "u1", "GET", "api.example.com", "/x", 502, 12.5, 0, 7, "upstream_unreachable"),
        *(0.5, 0.0, 12.0, 7, f"00-{TRACE}-00f067aa0ba902b7-01", "GET /x", 3),
    )
    await store.call_log.add_many([exchange])
    assert await operations_found(store) == [
        Operation(
            *("call", START, "r1", "dev", "jira", "u1", "GET", "api.example.com", "/x", 502, "upstream_unreachable"),
            *(12.5, 0.5, 0.0, 12.0, 0, 7, 7, TRACE, "GET /x", 3),
        )
    ]


async def test_a_call_of_an_agent_is_found_by_its_tool(store: Store, small_segments: None) -> None:
    plain = ("dev", "jira", "u1", "GET", "api.example.com", "/x", 200, 12.5, 0, 7)
    calls = [
        ExchangeRecord(START + timedelta(seconds=n), f"r{n}", *plain, tool=tool)
        for n, tool in enumerate((None, "get_issue", "get_issues", 'a "b"', "get_issue"))
    ]
    await store.call_log.add_many([*calls, operation(9, detail={"message": "get_issue"}, kind="refresh")])
    assert [item.request_id for item in await operations_found(store, tool="get_issue")] == ["r4", "r1"]
    assert [item.detail for item in await operations_found(store, tool='a "b"')] == [{"tool": 'a "b"'}]
    assert await operations_found(store, tool="get") == []


CASES: list[dict[str, Any]] = [
    {},
    {"since": START + timedelta(seconds=40)},
    {"until": START + timedelta(seconds=40)},
    {"since": START + timedelta(seconds=10), "until": START + timedelta(seconds=90)},
    {"kind": "call"},
    {"kind": "refresh"},
    {"kind": "webhook"},
    {"integration_id": "jira"},
    {"integration_id": "nothing"},
    {"connection_id": "u1"},
    {"connection_id": "u2", "integration_id": "slack"},
    {"connections": frozenset({("jira", "u1"), ("slack", "u2")})},
    {"connections": frozenset()},
    {"connections": frozenset({("jira", "u1")}), "status": (500, 599)},
    {"key_ids": single_or_any_set(7)},
    {"key_ids": single_or_any_set(7), "status": (400, 499)},
    {"key_ids": frozenset({7, 8})},
    {"key_ids": frozenset({8, 9}), "connection_id": "u1", "error_codes": frozenset({"cut", "never"})},
    {"status": (404, 404)},
    {"status": (200, 299)},
    {"status": (403, 403)},
    {"failed": True},
    {"failed": False},
    {"error_codes": single_or_any_set("cut")},
    {"error_codes": single_or_any_set("cut"), "connection_id": "u1"},
    {"error_codes": single_or_any_set("never")},
    {"error_codes": frozenset({"cut", "left"})},
    {"excluded_codes": single_or_any_set("cut")},
    {"excluded_codes": frozenset({"cut", "left"}), "key_ids": single_or_any_set(7)},
    {"method": "POST"},
    {"path": "/issues/1"},
    {"text": "ISSUES/12"},
    {"text": "cut"},
    {"text": "words of the provider"},
    {"request_id": "r17"},
    {"request_id": "r17", "connection_id": "nobody"},
    {"trace_id": TRACE},
]


def fits(candidate: Operation, wanted: OperationFilter) -> bool:
    """Return whether an operation matches the filter. This is a second, simple implementation to compare with."""
    failed = candidate.error_code is not None or candidate.status >= 400
    text = f"{candidate.path} {candidate.error_code} {(candidate.detail or {}).get('message')}".lower()
    return all(
        (
            candidate.environment == wanted.environment,
            wanted.since is None or candidate.at >= wanted.since,
            wanted.until is None or candidate.at < wanted.until,
            wanted.kind in (None, candidate.kind),
            wanted.integration_id in (None, candidate.integration_id),
            wanted.connection_id in (None, candidate.connection_id),
            wanted.connections is None or (candidate.integration_id, candidate.connection_id) in wanted.connections,
            not wanted.key_ids or candidate.key_id in wanted.key_ids,
            wanted.status is None or wanted.status[0] <= candidate.status <= wanted.status[1],
            wanted.failed in (None, failed),
            not wanted.error_codes or candidate.error_code in wanted.error_codes,
            candidate.error_code not in wanted.excluded_codes,
            wanted.method in (None, candidate.method),
            wanted.path is None or candidate.path.startswith(wanted.path),
            wanted.text is None or wanted.text.lower() in text,
            wanted.request_id in (None, candidate.request_id),
            wanted.trace_id in (None, candidate.trace_id),
        )
    )


def generate_operations() -> list[Operation]:
    drawn = random.Random(5)
    made = []
    for number in range(120):
        status = drawn.choice((200, 200, 201, 404, 429, 500))
        made.append(
            operation(
                number,
                kind=drawn.choice((*KINDS[:2], "call", "call")),
                environment=drawn.choice(("dev", "dev", "prod")),
                integration_id=drawn.choice(("jira", "slack")),
                connection_id=drawn.choice(("u1", "u2", "u3")),
                key_id=drawn.choice((None, 7, 8)),
                method=drawn.choice(("GET", "POST")),
                status=status,
                error_code=drawn.choice(("cut", "cut", "left")) if drawn.random() < 0.3 else None,
                trace_id=TRACE if drawn.random() < 0.1 else None,
                detail={"message": "words of the provider"} if drawn.random() < 0.1 else None,
            )
        )
    return made


async def test_each_filter_finds_only_matches(store: Store, small_segments: None) -> None:
    made = generate_operations()
    for at in range(0, len(made), 5):
        await store.call_log.add_many(made[at : at + 5])
    for case in CASES:
        wanted = OperationFilter("dev", **case, limit=1000)
        page = await store.call_log.find(wanted)
        assert [item.operation for item in page.operations] == [item for item in made[::-1] if fits(item, wanted)], case
        assert not page.more
        few = await find_all_pages(store, replace(wanted, limit=3))
        assert few == page.operations, case


async def find_all_pages(store: Store, wanted: OperationFilter) -> list[StoredOperation]:
    """Return all matching operations. Read them page by page."""
    every: list[StoredOperation] = []
    while True:
        page = await store.call_log.find(wanted)
        every += page.operations
        if not page.more:
            return every
        assert len(page.operations) == wanted.limit
        wanted = replace(wanted, before=page.operations[-1].id)


async def test_following_finds_each_row_once_and_in_order(store: Store, small_segments: None) -> None:
    seen: list[Operation] = []
    after = 0
    for number in range(40):
        await store.call_log.add_many([operation(number)])
        page = await store.call_log.find(OperationFilter("dev", after=after))
        seen += [item.operation for item in page.operations[::-1]]
        after = max((item.id for item in page.operations), default=after)
    assert seen == [operation(number) for number in range(40)]


async def test_a_search_that_takes_too_long_says_how_far_it_came(
    store: Store, small_segments: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        await store.call_log.add_many([operation(number)])
    monkeypatch.setattr(sqlite_search, "SEARCH_S", -1.0)
    monkeypatch.setattr("gateway.store.call_log.postgres_call_log.SEARCH_S", -1.0)
    every: list[int] = []
    wanted = OperationFilter("dev", limit=100)
    for _ in range(50):
        page = await store.call_log.find(wanted)
        every += [int(item.operation.request_id[1:]) for item in page.operations]
        if page.searched_to is None:
            break
        assert page.more
        assert page.searched_until is not None
        assert page.searched_until <= START + timedelta(seconds=min(every))
        wanted = replace(wanted, before=page.searched_to)
    assert every == list(range(39, -1, -1))


async def test_a_text_search_stops_within_a_day_and_continues_there(
    store: Store, small_segments: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search reads only a limited number of rows, here of forty rows of one day. It reports how far it got."""
    rows = [operation(number, path=f"/{'even' if number % 2 == 0 else 'odd'}/{number}") for number in range(40)]
    await store.call_log.add_many(rows)
    monkeypatch.setattr(sqlite_search, "SEARCH_S", -1.0)
    monkeypatch.setattr("gateway.store.call_log.postgres_call_log.SEARCH_S", -1.0)
    monkeypatch.setattr("gateway.store.call_log.postgres_call_log.ROWS_PER_SLICE", 8)
    for asked in ({"text": "EVEN"}, {"path": "/even/"}):
        every, reached = list[str](), list[datetime]()
        wanted = OperationFilter("dev", limit=100, **asked)
        for _ in range(50):
            page = await store.call_log.find(wanted)
            every += [item.operation.request_id for item in page.operations]
            if page.searched_to is None:
                break
            assert page.searched_until is not None
            reached.append(page.searched_until)
            wanted = replace(wanted, before=page.searched_to)
        assert every == [f"r{number}" for number in range(38, -1, -2)]
        assert reached == sorted(reached, reverse=True)
        if isinstance(store.call_log, PostgresCallLog):
            assert len(reached) == 5


async def test_a_stopped_search_continues_after_a_day_without_rows(
    store: Store, small_segments: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.call_log.bounds = CallLogBounds(max_rows=24)
    await store.call_log.add_many([operation(0)])
    late = [operation(at=START + timedelta(hours=30), request_id="late")]
    monkeypatch.setattr(clock, "now", lambda: START + timedelta(hours=31))
    await store.call_log.add_many(late)
    if store.call_log.__class__.__name__ == "PostgresCallLog":
        await store.transactions.write(lambda db: db.exec_driver_sql("DELETE FROM call_log WHERE id > 1"))
    monkeypatch.setattr(sqlite_search, "SEARCH_S", -1.0)
    monkeypatch.setattr("gateway.store.call_log.postgres_call_log.SEARCH_S", -1.0)
    ids: list[str] = []
    wanted = OperationFilter("dev")
    for _ in range(4):
        page = await store.call_log.find(wanted)
        ids += [item.operation.request_id for item in page.operations]
        wanted = replace(wanted, before=page.searched_to)
        if page.searched_to is None:
            break
    assert ids[-1] == "r0"


async def test_old_operations_are_neither_found_nor_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.call_log.bounds = CallLogBounds(keep_days=2)
    old = operation(at=START - timedelta(days=3))
    await store.call_log.add_many([old])
    assert await operations_found(store) == []
    await store.call_log.add_many([operation(1)])
    await store.call_log.prune(clock.now())
    store.call_log.bounds = CallLogBounds(keep_days=365)
    assert await operations_found(store) == [operation(1)]


async def test_pruning_keeps_at_most_max_rows(store: Store) -> None:
    store.call_log.bounds = CallLogBounds(max_rows=24)
    for number in range(60):
        await store.call_log.add_many([operation(number)])
    await store.call_log.prune(clock.now())
    numbers = [int(item.request_id[1:]) for item in await operations_found(store)]
    assert numbers == list(range(59, 59 - len(numbers), -1))
    assert 20 <= len(numbers) <= 24
