"""What a worker's parent makes of a wish to read the file again, and how a worker takes signals to end."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gateway import clock, reloading
from gateway import config as configuration
from gateway.app import create_app
from gateway.server.terminal import Terminal
from gateway.server.worker import ENDING, Worker
from gateway.server.workers import ASKED
from gateway.store.missing_keys import Pauses
from tests.fakes.gateways import document


class Closed(Terminal):
    def gone(self) -> bool:
        return True


@pytest.fixture
def parent(tmp_path: Path) -> Worker:
    """Of workers, on a terminal that was closed."""
    told = document([])
    told["environments"]["dev"]["integrations"] = {}
    told["catalog"] = []
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(told))
    config = configuration.load(tmp_path / "gateway.yaml")
    with socket.socket() as unused:
        return Worker(create_app(config), config, unused, terminal=Closed())


@pytest.fixture(autouse=True)
def heard() -> Iterator[list[int]]:
    """Grows with each wish."""
    signals: list[int] = []
    before = signal.signal(ASKED, lambda number, _frame: signals.append(number))
    yield signals
    signal.signal(ASKED, before)


def test_a_worker_that_misses_a_key_is_no_terminal_that_closes(parent: Worker) -> None:
    assert parent.reload() == "stop"
    parent.asking.ask(os.getpid(), {"a"})
    assert parent.asked() == "taken"


def test_a_key_that_does_not_come_is_looked_for_once_however_many_workers_ask(
    parent: Worker, monkeypatch: pytest.MonkeyPatch, heard: list[int]
) -> None:
    now, read = 1000.0, list[float]()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    monkeypatch.setattr(reloading, "read_again", lambda config: read.append(now) or config)
    monkeypatch.setattr("gateway.server.worker.create_app", lambda _config: parent.app)
    workers = [Pauses() for _ in range(4)]
    for second in range(600):
        now = 1000.0 + second
        for place, pauses in enumerate(workers):
            if second % 4 == place and pauses.due({"a"}):
                parent.asking.ask(os.getpid(), {"a"})
                parent.asked()
    assert len(heard) > 3 * len(read)
    assert len([at for at in read if at >= 1300]) <= 300 / 48 + 1


def test_another_key_is_looked_for_at_once(parent: Worker) -> None:
    for asked, due in (({"a"}, ["a"]), ({"a"}, []), ({"b", "a"}, ["b"])):
        parent.asking.ask(os.getpid(), asked)
        assert parent.asking.due() == due
    assert parent.asking.due() == []


@pytest.fixture
def ending_signals() -> Iterator[None]:
    """The signals that end a worker, as they were before the test."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_no_moment_of_the_first_signal_lets_the_second_one_kill_a_worker(
    parent: Worker, monkeypatch: pytest.MonkeyPatch, ending_signals: None
) -> None:
    stop = asyncio.Event()
    for number in ENDING:
        asyncio.get_running_loop().add_signal_handler(number, parent._stop, stop)
    replace, replaced = signal.signal, list[object]()

    def noted(number: int, handler: signal.Handlers) -> object:
        replaced.append(signal.getsignal(number))
        return replace(number, handler)

    parent.made_by = os.getppid()  # as in a worker, whose parent tells it once more
    monkeypatch.setattr("gateway.server.worker.signal.signal", noted)
    os.kill(os.getpid(), signal.SIGTERM)
    await stop.wait()
    assert len(replaced) == len(ENDING)
    assert signal.SIG_DFL not in replaced
    assert {signal.getsignal(number) for number in ENDING} == {signal.SIG_IGN}
