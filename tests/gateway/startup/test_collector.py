import gc
import subprocess
import sys

import pytest

from gateway.startup import collector

WORKER = """
import gc
from gateway.startup.collector import collect_rarely
collect_rarely()
before = sum(generation["collections"] for generation in gc.get_stats())
import gateway.worker
from gateway.startup.imports import skip_unused_modules
skip_unused_modules()
import gateway.server.serving_worker
print(sum(generation["collections"] for generation in gc.get_stats()) - before)
"""


def test_collector_does_not_run_while_a_worker_imports_its_modules() -> None:
    ran = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("0\n", "")


COMMAND = """
import gc, sys
from gateway.__main__ import main
gc.collect()
before = sum(generation["collections"] for generation in gc.get_stats())
sys.argv = ["gateway", "keys", "--help"]
try:
    main()
finally:
    print(sum(generation["collections"] for generation in gc.get_stats()) - before, file=sys.stderr)
"""


def test_collector_does_not_run_while_a_command_is_imported() -> None:
    ran = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, check=False, timeout=60)
    assert ran.stderr == "0\n"


def test_modules_are_exempt_from_collections_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[object]()
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "set_threshold", lambda *numbers: calls.append(numbers))
    collector.freeze_modules()
    collector.collect_as_usual()
    frozen, (later, *_), frozen_again, usual = calls
    assert (frozen, frozen_again) == ("freeze", "freeze")
    assert usual == collector.USUAL_THRESHOLDS
    assert later > 20 * usual[0]
