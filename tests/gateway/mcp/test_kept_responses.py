"""Complete responses are kept for their key, for minutes, within a memory limit."""

from gateway.mcp.kept_responses import KEPT_S, MAX_BYTES, SHARE_BYTES, KeptResponses
from tests.fakes.clock import Clock


def test_a_response_is_for_its_key_and_for_minutes(clock: Clock) -> None:
    kept = KeptResponses()
    item = kept.keep("1", "text/plain", b"x")
    assert item is not None
    assert kept.get("2", item) is None
    found = kept.get("1", item)
    assert found is not None
    assert found.body == b"x"
    clock.ahead_s = KEPT_S
    assert kept.get("1", item) is None
    assert kept.size == 0


def test_a_key_evicts_its_own_responses_first_and_the_total_is_limited(clock: Clock) -> None:
    kept = KeptResponses()
    other = kept.keep("other", "", b"o")
    assert other is not None
    large = bytes(SHARE_BYTES // 2)
    first, second, third = [kept.keep("1", "", large) for _ in range(3)]
    assert first is not None
    assert second is not None
    assert third is not None
    assert kept.get("1", first) is None
    assert kept.get("1", second) is not None
    assert kept.get("other", other) is not None
    for number in range(20):
        kept.keep(f"key {number}", "", large)
    assert kept.size <= MAX_BYTES
    assert kept.get("other", other) is None


def test_a_response_larger_than_a_keys_share_is_not_kept() -> None:
    kept = KeptResponses()
    assert kept.keep("1", "", bytes(SHARE_BYTES + 1)) is None
    assert kept.size == 0
