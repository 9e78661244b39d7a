"""The fields that several request bodies of the API share."""

import re
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from gateway.api.shapes import EMAIL_FORM, EndUserBody
from gateway.catalog import value
from tests.fakes.scaling import linear_fault


@pytest.mark.parametrize("piece", [".", "a.", "@.", "@", "a@a."])
@pytest.mark.parametrize("end", ["", " ", "@"])
def test_check_of_an_email_address_takes_linear_time(piece: str, end: str) -> None:
    def validation_of(size: int) -> Callable[[], object]:
        given = {"id": "u1", "email": "a@" + piece * (size // len(piece)) + end}

        def work() -> None:
            with pytest.raises(ValidationError):
                EndUserBody.model_validate(given)

        return work

    assert linear_fault(validation_of, 1 << 20) == ""


@pytest.mark.parametrize("pattern", [EMAIL_FORM, value.EMAIL])
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
def test_email_form_accepts_only_email_addresses(pattern: re.Pattern[str], text: str, fits: bool) -> None:
    assert bool(pattern.fullmatch(text)) is fits
