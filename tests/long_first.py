"""Starts the modules that take longest at the beginning of a run, in different processes.

`pytest -n` gives each process a part of the list of tests. A process without tests takes over tests from the end of
another part (`--dist worksteal`). So a module at the end of a part, with tests that wait for each other, would run
alone when all other processes have ended.
"""

import os
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent

# The modules that take more than 25 seconds, the longest first: see `pytest --durations`.
LONGEST: Final = (
    "selftest/test_crashes.py",
    "gateway/refresh/test_failover.py",
    "journeys/test_docs_page.py",
    "selftest/test_trouble.py",
    "journeys/test_django_oauth.py",
    "journeys/console/test_in_chromium.py",
    "gateway/process/test_serve.py",
    "journeys/test_clock_skew.py",
    "journeys/tutorial/test_tutorial.py",
    "gateway/test_nobody_waits.py",
    "gateway/server/test_under_load.py",
    "gateway/store/test_rotation.py",
    "gateway/process/test_parent.py",
    "journeys/test_demo.py",
    "gateway/refresh/test_model.py",
    "oauth_servers/test_oauth_servers.py",
    "journeys/connect_page/test_bound_to_people.py",
    "journeys/connect_page/test_connect_page.py",
    "deploy/test_rolling.py",
    "gateway/test_patterns.py",
    "journeys/wrong_person/test_in_chromium.py",
    "journeys/console/test_keyboard_and_reader.py",
    "bench/test_bench.py",
    "gateway/cli/test_run_command.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = _with_long_modules_first(items, processes)


def _with_long_modules_first(items: list[pytest.Item], parts: int) -> list[pytest.Item]:
    """Return the items in an order in which each of the `parts` equal parts begins with some of the longest modules."""
    rank = {ROOT / name: number for number, name in enumerate(LONGEST)}
    beginnings = defaultdict[int, list[pytest.Item]](list)
    others = []
    for item in sorted(items, key=lambda item: rank.get(item.path, len(rank))):
        if item.path in rank:
            beginnings[rank[item.path] % parts].append(item)
        else:
            others.append(item)
    ordered = list[pytest.Item]()
    for part in range(parts):
        size = (len(items) - len(ordered)) // (parts - part)
        count = max(size - len(beginnings[part]), 0)
        ordered += [*beginnings[part], *others[:count]]
        del others[:count]
    return ordered + others
