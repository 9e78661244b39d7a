"""The table of `make loss`: a loss is unexpected if it is not reported, or if the scenario does not allow it."""

from collections import Counter
from random import Random

import pytest

from tests.loss.provider import StrictProvider
from tests.loss.scenario_result import ScenarioResult


@pytest.mark.parametrize(
    ("status", "reason", "may_be_lost", "counts", "fine"),
    [
        (200, "authorized", False, (0, 0), True),
        (424, "rotation_lost", True, (1, 0), True),
        (424, "rotation_lost", False, (1, 0), False),
        (424, "invalid_grant", True, (0, 1), False),
        (503, "token_endpoint_unavailable", True, (0, 1), False),
    ],
)
def test_only_a_reported_loss_of_a_reply_in_flight_is_allowed(
    status: int, reason: str, may_be_lost: bool, counts: tuple[int, int], fine: bool
) -> None:
    result = ScenarioResult("x", calls=Counter({"200": 3, "503": 1}))
    result.add("c1", status, reason, may_be_lost=may_be_lost)
    assert (result.reported, result.silent) == counts
    assert result.fine is fine
    assert "4 calls, 1 failed (1 x 503)" in str(result)


def test_the_provider_revokes_a_grant_whose_token_is_sent_twice() -> None:
    provider = StrictProvider(dice=Random(1))
    first = provider.grant()["refresh_token"]
    assert provider.refreshed(first).status == 200
    second = provider.grants[0].refresh_token
    assert provider.refreshed(first).status == 400
    assert provider.grants[0].revoked
    assert provider.refreshed(second).status == 400
