"""Languages of the connect page, and how it shows scopes and patterns."""

import re
from pathlib import Path
from string import Formatter

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway import resources
from gateway.catalog.provider_parts import Setting
from gateway.errors import Forbidden
from gateway.pages.connect_cookie import check_own_form
from gateway.pages.connect_offer import describe_scope, describe_scopes
from gateway.pages.form_fields import browser_pattern
from gateway.pages.frame import LANGUAGES, PageWords, _read_words, accepted_language, logo_hash


def placeholder_names(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("lang", LANGUAGES[1:])
def test_every_language_has_all_texts_with_the_same_placeholders(lang: str) -> None:
    english, other = _read_words("en"), _read_words(lang)
    assert other.keys() == english.keys()
    # A language may omit a placeholder, but must not use an unknown one.
    assert {key: placeholder_names(other[key]) - placeholder_names(english[key]) for key in other} == {
        key: set() for key in other
    }


def test_every_text_that_templates_and_code_use_exists() -> None:
    sources = [*(resources.folder("templates") / "connect").glob("*.html"), *(resources.PACKAGE / "pages").glob("*.py")]
    asked = {
        name for path in sources for name in re.findall(r'\b(?:t|words)(?:\.plain)?\("([a-z_]+)"', path.read_text())
    }
    assert len(asked) > 40
    assert asked <= _read_words("en").keys()


@pytest.mark.parametrize(
    ("field", "lang"),
    [
        ("", "en"),
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("sv, fr;q=0.2, es;q=0.7", "es"),
        ("en;q=0, ja", "ja"),
        ("zh-Hant, *;q=0.1", "en"),
        ("de;q=x, fr", "fr"),
    ],
)
def test_the_language_is_the_preferred_one_of_the_browser(field: str, lang: str) -> None:
    assert accepted_language(field) == lang


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ("read:jira-work", "Read jira work"),
        ("write:jira-work", "Create and change jira work"),
        ("delete_repo", "Delete repo"),
        ("admin:org", "Manage org"),
        ("offline_access", "Keep this access while you are away"),
        ("https://www.googleapis.com/auth/calendar.readonly", "Read calendar"),
        ("channels:read", "Read channels"),
        ("gist", "Access: gist"),
        ("read", "Access: read"),
    ],
)
def test_a_scope_is_described_in_plain_words(scope: str, said: str) -> None:
    assert describe_scope(scope, PageWords("en")) == said


def test_scopes_with_the_same_description_are_listed_once() -> None:
    assert describe_scopes(["offline_access", "offline", "gist"], PageWords("en")) == [
        ("Keep this access while you are away", ("offline_access", "offline")),
        ("Access: gist", ("gist",)),
    ]


@pytest.mark.parametrize(
    ("pattern", "in_browser"),
    [
        ("[A-Za-z0-9][A-Za-z0-9.-]*", r"[A-Za-z0-9][A-Za-z0-9.\-]*"),
        ("[-a-z]+", r"[\-a-z]+"),
        ("[^-/]+", r"[^\-\/]+"),
        (r"[\w-]+(\.example\.com)?", r"[\w\-]+(\.example\.com)?"),
        ("[a-z(){}|]", r"[a-z\(\)\{\}\|]"),
        ("[0-9a-fA-F]{8}(-[0-9a-f]{4}){3}", "[0-9a-fA-F]{8}(-[0-9a-f]{4}){3}"),
        (None, None),
    ],
)
def test_a_pattern_is_written_as_browsers_read_it(pattern: str | None, in_browser: str | None) -> None:
    assert browser_pattern(Setting(), pattern) == in_browser


def test_only_the_server_checks_the_pattern_of_a_field_with_a_prefix() -> None:
    assert browser_pattern(Setting(suffix=".example.com"), "[a-z]+") is None


@pytest.mark.parametrize("url", ["https://gw.example", "https://gw.example:443", "https://gw.example:443/base"])
def test_the_gateways_own_form_is_accepted_if_the_public_url_states_the_default_port(url: str) -> None:
    """Browsers omit the default port of the scheme in ``Origin``."""
    check_own_form(make_mocked_request("POST", "/connect", {"Origin": "https://gw.example"}), url)
    for other in ("https://gw.example:8443", "http://gw.example", "https://gw.example.evil.example"):
        with pytest.raises(Forbidden):
            check_own_form(make_mocked_request("POST", "/connect", {"Origin": other}), url)


def test_logo_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """Each page used to fail with 500, if the file was there but could not be read."""
    logo = tmp_path / "logo.svg"
    assert logo_hash(logo) is None
    logo.mkdir()
    assert logo_hash(logo) is None
