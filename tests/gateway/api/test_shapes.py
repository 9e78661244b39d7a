"""The fields that several request bodies of the API share."""

import re
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from gateway.api.shapes import EMAIL, EndUserBody
from gateway.catalog import value
from tests.fakes.scaling import linear_fault


@pytest.mark.parametrize("piece", [".", "a.", "@.", "@", "a@a."])
@pytest.mark.parametrize("end", ["", " ", "@"])
def test_an_email_address_of_any_length_costs_time_in_proportion_to_it(piece: str, end: str) -> None:
    def validated(size: int) -> Callable[[], object]:
        given = {"id": "u1", "email": "a@" + piece * (size // len(piece)) + end}

        def work() -> None:
            with pytest.raises(ValidationError):
                EndUserBody.model_validate(given)

        return work

    assert linear_fault(validated, 1 << 20) == ""


@pytest.mark.parametrize("pattern", [EMAIL, value.EMAIL])
@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("ada@example.com", True),
        ("a@b.c", True),
        ("a@..c", True),
        ("a.b+c@sub.example.com", True),
        ("a@b..", True),
        ("a@b.", False),
        ("a@.b", False),
        ("a@b", False),
        ("@b.c", False),
        ("a@b@c.d", False),
        ("a b@c.d", False),
        ("a@c.d ", False),
        ("", False),
    ],
)
def test_what_is_an_email_address(pattern: re.Pattern[str], text: str, fits: bool) -> None:
    assert bool(pattern.fullmatch(text)) is fits
