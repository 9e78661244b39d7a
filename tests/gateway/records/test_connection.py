"""An invalid id is refused, and the error names the character that is not allowed."""

import pytest

from gateway.records.connection import CONNECTION_ID, PROVIDER_CONFIG_KEY, id_fault


@pytest.mark.parametrize(
    ("text", "pattern", "result"),
    [
        ("user 1/x@y.z", CONNECTION_ID, None),
        ("jira~:.@ _-", PROVIDER_CONFIG_KEY, None),
        (
            "müller",
            CONNECTION_ID,
            "contains 'ü'; allowed are A-Z a-z 0-9, spaces and , . ; : = + ~ [ ] | @ $ { } \" ' \\ / _ -",
        ),
        ("a/b", PROVIDER_CONFIG_KEY, "contains '/'; allowed are A-Z a-z 0-9, spaces and ~ : . @ _ -"),
        ("a\n", PROVIDER_CONFIG_KEY, "contains U+000A; allowed are A-Z a-z 0-9, spaces and ~ : . @ _ -"),
        ("a\udcff", PROVIDER_CONFIG_KEY, "contains U+DCFF; allowed are A-Z a-z 0-9, spaces and ~ : . @ _ -"),
        ("", CONNECTION_ID, "is empty"),
    ],
)
def test_error_names_the_wrong_character_and_the_allowed_ones(text: str, pattern: str, result: str | None) -> None:
    assert id_fault(text, pattern) == result
