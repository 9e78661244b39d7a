"""How a worker handles signals, and that a configuration is passed completely to the next worker."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gateway import config as configuration
from gateway.app.compose import create_app
from gateway.integrations.declared import catalog_of
from gateway.process.shared_memory import SharedMemory
from gateway.server import serving_worker
from gateway.server.serving_worker import STOP_SIGNALS, Worker
from tests.fakes.gateways import document, tracker_entry, write_entry


@pytest.fixture
def config(tmp_path: Path) -> configuration.Config:
    write_entry(tmp_path, "tracker", tracker_entry("http://127.0.0.1:9"))
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(document([])))
    return configuration.load(tmp_path / "gateway.yaml")


def test_configuration_is_passed_on_with_secrets_and_line_numbers(config: configuration.Config) -> None:
    memory = SharedMemory()
    descriptor = memory.configurations[0]
    serving_worker.write_configuration(descriptor, config, catalog_of(config))
    serving_worker.write_configuration(descriptor, config, catalog_of(config))  # over the previous content
    same, catalog = serving_worker.read_configuration(descriptor)
    assert same == config
    assert same.store.encryption_keys[0].reveal() == config.store.encryption_keys[0].reveal()
    assert same.file_and_line("store", "url") == config.file_and_line("store", "url")
    assert catalog.providers["tracker"].model_dump() == catalog_of(config).providers["tracker"].model_dump()
    assert len(catalog.providers) == len(catalog_of(config).providers)


@pytest.fixture
def ending_signals() -> Iterator[None]:
    """Restore the handlers of the signals that stop a worker."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_second_signal_never_kills_a_worker_that_handles_the_first(
    config: configuration.Config, monkeypatch: pytest.MonkeyPatch, ending_signals: None
) -> None:
    own_end, other_end = socket.socketpair()
    with socket.socket() as unused, other_end:
        worker = Worker(create_app(config), {}, [unused], {})
        await worker._channel.open(own_end)
        for number in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, worker._begin_drain)
        replace, replaced = signal.signal, list[object]()

        def record_and_replace(number: int, handler: signal.Handlers) -> object:
            replaced.append(signal.getsignal(number))
            return replace(number, handler)

        monkeypatch.setattr("gateway.server.serving_worker.signal.signal", record_and_replace)
        os.kill(os.getpid(), signal.SIGTERM)
        await worker._stop.wait()
        assert len(replaced) == len(STOP_SIGNALS)
        assert signal.SIG_DFL not in replaced
        assert {signal.getsignal(number) for number in STOP_SIGNALS} == {signal.SIG_IGN}
        await worker._channel.close()
