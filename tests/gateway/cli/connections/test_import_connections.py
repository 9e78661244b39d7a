"""`gateway connections import`, interrupted by Ctrl-C."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.moving.importer import Importer

KEY = "JiURJZyxq9u8wNGbojb4XRaHcZEAUy+EK5yLz55SrSM="


def test_interrupted_import_says_how_many_were_imported_and_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, source = tmp_path / "gateway.yaml", tmp_path / "source.jsonl"
    environments = {"dev": {"integrations": {"openai": {"provider": "openai"}}}}
    store = {"url": f"sqlite:///{tmp_path / 'gateway.db'}", "encryption_keys": [KEY]}
    file.write_text(json.dumps({"store": store, "environments": environments}))
    credentials = {"type": "API_KEY", "apiKey": "k"}
    lines = [{"provider_config_key": "openai", "connection_id": name, "credentials": credentials} for name in "ab"]
    source.write_text("\n".join(map(json.dumps, lines)))
    command = ["connections", "import", str(source), "-c", str(file)]
    from_lines = Importer.from_lines

    async def import_then_interrupt(importer: Importer, *arguments: Any) -> None:
        await from_lines(importer, *arguments)
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(Importer, "from_lines", import_then_interrupt)
        done = CliRunner().invoke(main, command)  # in this process and its main thread, which gets the signal
    assert done.exit_code == 1
    assert "gateway: Interrupted. Before that, 2 connections were imported. To continue, run the command" in done.stderr
    again = CliRunner().invoke(main, [*command, "--json"])
    assert json.loads(again.stdout)["skipped"] == 2
