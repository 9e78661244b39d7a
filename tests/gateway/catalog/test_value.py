"""Values of settings: limits, patterns, formats, and the names under which templates find them."""

from typing import Any

import pytest

from gateway.catalog.provider_parts import Setting
from gateway.catalog.value import BadValue, check_value, flat_values, is_hostname, is_web_url, setting_values


def fault(value: str, **setting: Any) -> str | None:
    """Return the rule that `value` breaks, or None if it breaks none."""
    try:
        check_value("site", value, Setting(**setting))
    except BadValue as bad:
        return bad.why
    return None


@pytest.mark.parametrize(
    ("value", "setting", "why"),
    [
        ("a" * 255, {}, None),
        ("a" * 256, {}, "is longer than 255 characters"),
        ("a" * 8192, {"secret": True}, None),
        ("a" * 8193, {"secret": True}, "is longer than 8192 characters"),
        # a pattern is applied to at most 255 characters
        ("a" * 256, {"secret": True, "pattern": "a+"}, "is longer than 255 characters"),
        ("line\nbreak", {}, "contains a control character"),
        ("eu", {"enum": ["eu", "us"]}, None),
        ("ru", {"enum": ["eu", "us"]}, "must be one of eu, us"),
        ("acme-1", {"pattern": "[a-z]+"}, "must match the pattern [a-z]+"),
        ("acme-1", {"pattern": "[a-z]+", "example": "acme"}, "must match the pattern [a-z]+, for example acme"),
        ("API.example.com", {"format": "hostname"}, None),
        ("a b", {"format": "hostname"}, "must be a host name"),
        ("5f2a7c10-3b7e-4c57-9d0b-6a1f0c5e8d11", {"format": "uuid"}, None),
        ("5f2a7c10", {"format": "uuid"}, "must be a UUID"),
        ("ada@example.com", {"format": "email"}, None),
        ("ada@localhost", {"format": "email"}, "must be an e-mail address"),
        ("https://example.com/x", {"format": "uri"}, None),
        ("https://ada@example.com", {"format": "uri"}, "must be a URL"),
    ],
)
def test_a_value_that_breaks_a_rule_of_its_setting_names_the_rule(
    value: str, setting: dict[str, Any], why: str | None
) -> None:
    assert fault(value, **setting) == why


def test_a_fault_names_the_setting_and_never_the_value() -> None:
    with pytest.raises(BadValue, match="must match the pattern") as bad:
        check_value("site", "s3cret!", Setting(pattern="[a-z]+"))
    assert "s3cret" not in str(bad.value)


def test_host_with_a_non_ascii_character_is_refused() -> None:
    why = fault("аpple.com", format="hostname")
    assert why is not None
    assert "U+0430, CYRILLIC SMALL LETTER A" in why


@pytest.mark.parametrize("text", ["example.com", "a", "127.0.0.1", "1.example.com", "x" * 63])
def test_labels_and_plain_ipv4_addresses_are_host_names(text: str) -> None:
    assert is_hostname(text)


@pytest.mark.parametrize(
    "text", ["", "Example.com", "-a.com", "a..b", "127.1", "0x7f000001", "2130706433", "1.2.3.256", "x" * 64, "a" * 254]
)
def test_other_spellings_of_addresses_are_not_host_names(text: str) -> None:
    assert not is_hostname(text)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("http://[::1]:8080/", True),
        ("https://[fe80::1%25eth0]/", False),
        ("https://example.com:99999/", False),
        ("ftp://example.com/", False),
        ("https:///path", False),
        ("https://exämple.com/", False),
        ("https://example.com/a b", False),
    ],
)
def test_a_web_address_is_http_or_https_in_visible_ascii(text: str, good: bool) -> None:
    assert is_web_url(text) is good


def test_settings_have_their_defaults_where_they_are_unset_or_empty() -> None:
    settings = {"region": Setting(default_value="eu"), "team": Setting(), "site": Setting(default_value="a")}
    found = setting_values({"region": "", "team": {"id": 7, "open": True}, "site": "b"}, settings)
    assert found == {
        "connectionConfig.region": "eu",
        "connectionConfig.team.id": "7",
        "connectionConfig.site": "b",
    }


def test_a_nested_value_wins_over_a_dotted_name() -> None:
    assert flat_values({"a": {"b": "inner"}, "a.b": "dotted", "n": 1.5, "list": [1]}) == {"a.b": "inner", "n": "1.5"}
