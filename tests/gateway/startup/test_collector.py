import gc

import pytest

from gateway.startup import collector


def test_a_start_collects_rarely_and_what_serves_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds = list[tuple[int, ...]]()
    monkeypatch.setattr(gc, "set_threshold", lambda *numbers: thresholds.append(numbers))
    collector.collect_rarely()
    collector.collect_as_usual()
    (rare, *_), usual = thresholds
    assert usual == collector.USUAL
    assert rare > 50 * usual[0]
