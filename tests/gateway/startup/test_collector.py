import gc

import pytest

from gateway.startup import collector


def test_collector_runs_rarely_during_the_start_and_as_usual_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds = list[tuple[int, ...]]()
    monkeypatch.setattr(gc, "set_threshold", lambda *numbers: thresholds.append(numbers))
    collector.collect_rarely()
    collector.collect_as_usual()
    (rare, *_), usual = thresholds
    assert usual == collector.USUAL_THRESHOLDS
    assert rare > 20 * usual[0]
