"""Facts become entries; corrections are kept when the entries are generated again."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.catalog.load_catalog import load_catalog
from gateway.catalog.provider import Provider
from tools.catalog_from_facts.__main__ import GENERATED_LINE, catalog_texts, is_generated, main
from tools.catalog_from_facts.corrections import Corrections, load_corrections
from tools.catalog_from_facts.yaml_text import GROUPS, entry_text

KEY: dict[str, Any] = {
    "name": "mail-api", "display_name": "Mail API", "categories": ["email"], "auth_mode": "API_KEY",
    "homepage": "https://guessed.example.com", "docs": "https://docs.example.com", "derived": ["homepage"],
    "proxy": {
        "base_url": "https://api.example.com", "headers": {"x-api-key": "${apiKey}"},
        "retry": {"after": ["retry-after"], "at": ["x-reset"]},
        "verification": {"method": "GET", "endpoint": "/me"},
    },
    "sources": ["curated"],
}  # fmt: skip
GRANT: dict[str, Any] = {
    "name": "tracker", "display_name": "Tracker", "categories": ["ticketing"], "auth_mode": "OAUTH2",
    "authorization_url": "https://${connectionConfig.subdomain}.example.com/authorize",
    "token_url": "https://${connectionConfig.subdomain}.example.com/token", "pkce": False, "scope_separator": "+",
    "authorization_params": {"session": False}, "token_request_auth_method": "basic", "token_request_format": "json",
    "authorization_param_renames": {"client_id=": "clientId="}, "callback_metadata": ["realmId"],
    "connection_configuration": [
        {
            "name": "subdomain", "title": "Subdomain", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$", "example": "acme",
            "required": True,
        },
        {"name": "region", "title": "Region", "enum": ["eu", "us"], "default": "eu", "required": False},
    ],
    "proxy": {
        "base_url": "https://${connectionConfig.subdomain}.example.com",
        "headers": {"authorization": "Bearer ${accessToken}"},
    },
    "sources": ["allauth"],
}  # fmt: skip
NOTHING = Corrections({}, {}, {}, {})


def entries_from(facts: list[dict[str, Any]], corrections: Corrections = NOTHING) -> dict[str, Any]:
    return {name: yaml.safe_load(text) for name, text in catalog_texts(facts, corrections, {}).items()}


def test_the_key_is_placed_as_the_facts_say_without_guesses() -> None:
    entry = entries_from([KEY])["mail-api"]
    assert "homepage" not in entry
    assert entry["docs"] == "https://docs.example.com"
    assert entry["credentials"] == {"apiKey": {"secret": True}}
    assert entry["proxy"]["headers"] == {"x-api-key": "${apiKey}"}
    assert entry["proxy"]["retry"] == {"at": "x-reset"}
    assert entry["proxy"]["verification"] == {"endpoints": ["/me"]}
    assert entry["evidence"]["addresses"] == {"level": "unconfirmed"}
    assert not {"provenance", "sources"} & set(entry)


def test_an_oauth_entry_has_the_field_names_of_the_catalog() -> None:
    entry = entries_from([GRANT])["tracker"]
    assert entry["disable_pkce"] is True
    assert "scope_separator" not in entry
    assert entry["authorization_params"] == {"session": "false"}
    assert entry["authorization_param_renames"] == {"client_id": "clientId"}
    assert entry["redirect_uri_metadata"] == ["realmId"]
    assert (entry["token_request_auth_method"], entry["body_format"]) == ("basic", "json")
    assert entry["evidence"]["client"]["level"] == "assumed"


def test_a_setting_has_a_description_and_its_format() -> None:
    forms = entries_from([GRANT])["tracker"]["connection_config"]
    assert forms["subdomain"] == {
        "description": "The part of your Tracker address before .example.com.",
        "pattern": "[A-Za-z0-9][A-Za-z0-9-]*",
        "example": "acme",
        "suffix": ".example.com",
    }
    assert forms["region"] == {
        "description": "Where your Tracker account is kept.",
        "enum": ["eu", "us"],
        "default_value": "eu",
    }


def test_corrections_are_merged_and_null_removes_a_field() -> None:
    correction = {
        "docs": None,
        "proxy": {"retry": None},
        "sources+": ["https://docs.example.com/x"],
    }
    entry = entries_from(
        [KEY], Corrections({"mail-api": correction}, {}, {"mail-api": "/whoami"}, {"mail-api": "Mail"})
    )["mail-api"]
    assert "docs" not in entry
    assert "retry" not in entry["proxy"]
    assert entry["display_name"] == "Mail"
    assert entry["proxy"]["verification"] == {"endpoints": ["/whoami"]}
    assert entry["sources"] == ["https://docs.example.com/x"]


def test_providers_that_are_left_out_are_not_generated_and_unknown_ones_are_refused() -> None:
    assert list(entries_from([KEY, GRANT], Corrections({}, {"tracker": "closed"}, {}, {}))) == ["mail-api"]
    with pytest.raises(SystemExit, match="nobody"):
        entries_from([KEY], Corrections({"nobody": {}}, {}, {}, {}))


def test_generated_yaml_is_a_valid_entry(tmp_path: Path) -> None:
    for name, text in catalog_texts([KEY, GRANT], NOTHING, {}).items():
        (tmp_path / f"{name}.yaml").write_text(text)
    assert set(load_catalog([tmp_path]).providers) == {"mail-api", "tracker"}


def test_an_entry_of_a_family_has_only_its_own_fields() -> None:
    head = {**GRANT, "name": "google", "display_name": "Google", "docs": "https://docs.example.com"}
    member = {**GRANT, "name": "google-x", "display_name": "X", "family": "google", "categories": ["email"]}
    entries = entries_from(
        [head, member], Corrections({"google": {"token_url": "https://new.example.com/token"}}, {}, {}, {})
    )
    assert entries["google"]["token_url"] == "https://new.example.com/token"
    assert entries["google-x"]["alias"] == "google"
    assert "token_url" not in entries["google-x"]
    assert "authorization_url" not in entries["google-x"]


def test_comments_are_written_beside_or_above_their_line() -> None:
    text = entry_text(
        {"token_url": "https://a", "token_url#": "why", "default_scopes": ["x"], "default_scopes#": "y" * 120}, ""
    )
    assert text == f"token_url: https://a # why\n# {'y' * 120}\ndefault_scopes: [x]\n"


@pytest.mark.parametrize(
    "value",
    [
        "no",
        "2022-06-28",
        "1.0",
        "${a}",
        "a: b",
        "a # b",
        "",
        " x",
        "@odata.nextLink",
        "'x'",
        'a "b"',
        "[a]",
        "null",
        "ü…",
        "-1.id",
    ],
)
def test_every_text_is_read_back_unchanged(value: str, tmp_path: Path) -> None:
    from gateway.catalog.yaml_file import read_yaml

    path = tmp_path / "x.yaml"
    path.write_text(entry_text({"docs": value, "categories": [value], "refresh": {"requires_scope": value}}, ""))
    assert read_yaml(path).value == {"docs": value, "categories": [value], "refresh": {"requires_scope": value}}


def test_the_generator_changes_and_removes_only_generated_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, corrections, facts = tmp_path / "catalog", tmp_path / "corrections", tmp_path / "facts.json"
    catalog.mkdir()
    corrections.mkdir()
    (corrections / "_left_out.yaml").write_text("{}\n")
    (catalog / "tracker.yaml").write_text("display_name: By hand\n")
    facts.write_text(json.dumps([KEY, GRANT]))
    monkeypatch.setattr(
        "sys.argv", ["x", str(facts), "--catalog", str(catalog), "--corrections", str(corrections), "--check"]
    )
    assert main() == 1
    monkeypatch.setattr("sys.argv", ["x", str(facts), "--catalog", str(catalog), "--corrections", str(corrections)])
    assert main() == 0
    assert (catalog / "tracker.yaml").read_text() == "display_name: By hand\n"
    assert is_generated(catalog / "mail-api.yaml")
    facts.write_text(json.dumps([GRANT]))
    assert main() == 0
    assert [path.name for path in catalog.iterdir()] == ["tracker.yaml"]


def test_the_shipped_corrections_belong_to_generated_entries() -> None:
    root = Path(__file__).parents[2]
    corrections = load_corrections(root / "tools" / "corrections")
    for name in {*corrections.entries, *corrections.verifications, *corrections.names}:
        assert GENERATED_LINE in (root / "catalog" / f"{name}.yaml").read_text(), name
    for name in corrections.left_out:
        assert not (root / "catalog" / f"{name}.yaml").exists(), name


def test_each_field_of_an_entry_has_its_place_in_the_file() -> None:
    """Without a place, a correction that sets the field would stop the generator, and the next run would remove the
    field from the file.
    """
    assert {key for group in GROUPS for key in group} == set(Provider.model_fields) - {"name", "logo_url"}
