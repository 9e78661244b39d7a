"""What a worker's parent makes of a wish to read the file again."""

import os
import signal
import socket
from pathlib import Path

import pytest
import yaml

from gateway import config as configuration
from gateway.app import create_app
from gateway.server.terminal import Terminal
from gateway.server.worker import Worker
from gateway.server.workers import ASKED
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


def test_a_worker_that_misses_a_key_is_no_terminal_that_closes(parent: Worker) -> None:
    assert parent.reload() == "stop"
    assert parent.read_again() == "taken"


def test_a_worker_does_not_ask_as_a_terminal_would(parent: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *told: sent.append(told))
    parent.made_by = os.getppid()
    parent._ask_parent()
    assert sent == [(os.getppid(), ASKED)]
    assert ASKED != signal.SIGHUP
