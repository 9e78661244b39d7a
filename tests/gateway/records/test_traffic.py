"""Quantiles from a histogram."""

import pytest

from gateway.records.traffic import TIMES_MS, quantile_ms


def counts(**classes: int) -> list[int]:
    found = [0] * (len(TIMES_MS) + 1)
    for name, number in classes.items():
        found[int(name.removeprefix("c"))] = number
    return found


@pytest.mark.parametrize(
    ("times", "share", "ms"),
    [
        (counts(), 0.5, None),
        (counts(c0=1), 0.5, 5),
        (counts(c0=50, c3=50), 0.5, 5),
        (counts(c0=49, c3=51), 0.5, 50),
        (counts(c0=94, c3=6), 0.95, 50),
        (counts(c0=1, c11=9), 0.95, None),  # above the last class
    ],
)
def test_a_quantile_is_the_upper_bound_of_its_class(times: list[int], share: float, ms: int | None) -> None:
    assert quantile_ms(times, share) == ms
