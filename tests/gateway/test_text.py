"""A name is suggested for a typo, and for nothing else."""

import pytest

from gateway.text import close_matches, did_you_mean, nearest, whole_number

KNOWN = ["jira", "github", "google-mail", "salesforce", "zoho-crm", "zoom", "hubspot", "OAUTH2"]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("jria", "jira"),
        ("jirra", "jira"),
        ("githbu", "github"),
        ("Google_Mail", "google-mail"),
        ("salesfroce", "salesforce"),
        ("hub-spot", "hubspot"),
        ("oauth2", "OAUTH2"),
    ],
)
def test_typo_gets_a_suggestion(value: str, meant: str) -> None:
    assert nearest(value, KNOWN) == meant
    assert did_you_mean(value, KNOWN) == f"; did you mean '{meant}'?"


@pytest.mark.parametrize("value", ["zzz", "mirage", "girl", "room-service", "force", "x", ""])
def test_unrelated_name_gets_no_suggestion(value: str) -> None:
    assert nearest(value, KNOWN) is None
    assert did_you_mean(value, KNOWN) == ""


def test_a_long_name_is_not_compared() -> None:
    assert nearest("jira" * 1000, ["jira" * 1000]) is None
    assert close_matches("jira" * 1000, ["jira" * 1000], 1) == []
    assert close_matches("jria", KNOWN, 1) == ["jira"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("017", 17),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("", None),
        ("-1", None),
        ("1.0", None),
        ("٣", None),
    ],
)
def test_a_whole_number_is_ascii_digits_and_not_too_many(text: str, number: int | None) -> None:
    assert whole_number(text) == number
