"""Complete responses are kept for their key, for minutes, within a memory limit."""

from time import process_time

from gateway.mcp.kept_responses import ENTRY_BYTES, KEPT_S, MAX_BYTES, SHARE_BYTES, KeptResponses
from tests.fakes.clock import Clock


def test_a_kept_response_is_returned_only_to_its_key_and_for_ten_minutes(clock: Clock) -> None:
    kept = KeptResponses()
    item = kept.keep("1", "acme/c1", "text/plain", b"x")
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
    other = kept.keep("other", "acme/c1", "", b"o")
    assert other is not None
    large = bytes(SHARE_BYTES // 2 - ENTRY_BYTES)
    first, second, third = [kept.keep("1", "acme/c1", "", large) for _ in range(3)]
    assert first is not None
    assert second is not None
    assert third is not None
    assert kept.get("1", first) is None
    assert kept.get("1", second) is not None
    assert kept.get("other", other) is not None
    for number in range(20):
        kept.keep(f"key {number}", "acme/c1", "", large)
    assert kept.size <= MAX_BYTES
    assert kept.get("other", other) is None


def test_a_response_larger_than_a_keys_share_is_not_kept() -> None:
    kept = KeptResponses()
    assert kept.keep("1", "acme/c1", "", bytes(SHARE_BYTES + 1)) is None
    assert kept.size == 0


def test_small_responses_are_limited_too(clock: Clock) -> None:
    kept = KeptResponses()
    other = kept.keep("other", "acme/c1", "", b"o")
    assert other is not None
    ids = [kept.keep("1", "acme/c1", "", b"x") for _ in range(SHARE_BYTES // ENTRY_BYTES + 1)]
    assert sum(item is not None and kept.get("1", item) is not None for item in ids) < SHARE_BYTES // ENTRY_BYTES
    assert kept.size <= SHARE_BYTES + 2 * ENTRY_BYTES
    assert kept.get("other", other) is not None


def test_cost_of_keeping_does_not_depend_on_the_number_of_kept_responses(clock: Clock) -> None:
    def cost_of_calls(kept: KeptResponses) -> float:
        started = process_time()
        for number in range(200):
            kept.keep(f"key {number % 5}", "acme/c1", "", b"x")
        return process_time() - started

    few = min(cost_of_calls(KeptResponses()) for _ in range(5))
    full = KeptResponses()
    for number in range(5_000):
        full.keep(f"key {number % 5}", "acme/c1", "", b"x")
    many = min(cost_of_calls(full) for _ in range(5))
    assert many < 10 * few, (few, many)
