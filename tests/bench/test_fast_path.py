"""``python -m bench.fast_path`` measures only requests that take the fast path."""

import argparse
import sys
from pathlib import Path

import pytest

from bench import fast_path
from gateway.secret import digest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")


async def test_bytecodes_of_a_minted_key_are_those_of_the_fast_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The change feed can drop a new key from memory, and read it again in the background."""
    measure_stage, print_bytecodes = fast_path.measure_stage, fast_path.print_bytecodes

    def drop_key(stage: fast_path.Stage) -> None:
        stage.runtime.minted.forget(digest(stage.agent_key))

    async def measure(stage: fast_path.Stage, options: argparse.Namespace) -> None:
        drop_key(stage)
        await measure_stage(stage, options)

    async def print_after_drop(stage: fast_path.Stage, shape: str) -> None:
        drop_key(stage)
        await print_bytecodes(stage, shape)

    monkeypatch.setattr(fast_path, "measure_stage", measure)
    monkeypatch.setattr(fast_path, "print_bytecodes", print_after_drop)
    options = argparse.Namespace(shape="minted", beside=None, bytecodes=True, profile=False, requests=1)
    await fast_path.running_stage(tmp_path, options)
    assert "of fast_path.FastPath._begin" in capsys.readouterr().out
