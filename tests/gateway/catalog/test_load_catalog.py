"""Folders are merged into a catalog; entries of later folders win."""

from pathlib import Path

import pytest

from gateway.catalog.load_catalog import load_catalog
from gateway.catalog.yaml_file import CatalogFaults
from tests.fakes.scaling import MAX_RATIO, cpu_s
from tests.gateway.catalog.folders import MAIL, SCRIPTS, SHIPPED, TRACKER, folder


def test_the_smallest_forms_load_and_are_shown_in_full(tmp_path: Path) -> None:
    catalog = load_catalog([folder(tmp_path, tracker=TRACKER, mail_api=MAIL)], scripts=SCRIPTS)
    assert catalog.provider_json("tracker", "https://gw.example.com") == {
        "name": "tracker",
        "display_name": "Tracker",
        "logo_url": "https://gw.example.com/images/template-logos/tracker.svg",
        "categories": ["ticketing"],
        "auth_mode": "OAUTH2",
        "authorization_url": "https://auth.example.com/authorize",
        "token_url": "https://auth.example.com/token",
        "connection_configuration": ["cloudId", "subdomain"],
        "post_connection_script": "jira_post_connection",
        "webhook_routing_script": "jira_webhook_routing",
        "proxy": {"base_url": "https://api.example.com"},
        "docs": "https://docs.example.com/oauth",
        "token_request_auth_method": "basic",
        "default_scopes": ["offline_access"],
    }
    assert catalog.provider_json("mail-api", "https://gw.example.com")["proxy"] == {
        "base_url": "https://api.example.com/v1",
        "headers": {"x-api-key": "${apiKey}"},
        "decompress": True,
    }


def test_a_later_folder_adds_entries_and_replaces_whole_ones(tmp_path: Path) -> None:
    catalog = load_catalog([SHIPPED, folder(tmp_path, openai=MAIL, mail_api=MAIL)])
    openai = catalog.get("openai")
    assert openai is not None
    assert openai.display_name == "Mail API"
    assert openai.webhook_signature is None
    assert {"jira", "mail-api"} <= set(catalog.providers)
    assert catalog.file_and_line("openai", "docs") == f"{tmp_path}/openai.yaml:3"


def test_providers_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    catalog = load_catalog([folder(tmp_path, zeta=MAIL, alpha=MAIL), SHIPPED])
    assert list(catalog.providers) == sorted(catalog.providers)


def test_an_empty_folder_is_an_empty_catalog(tmp_path: Path) -> None:
    assert dict(load_catalog([tmp_path]).providers) == {}
    assert load_catalog([]).get("jira") is None


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogFaults, match="missing: the catalog folder cannot be read: No such file"):
        load_catalog([tmp_path / "missing"])


def test_files_that_are_not_entries_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "_schema.json").write_text("{")
    (tmp_path / "_draft.yaml").write_text("{")
    (tmp_path / ".hidden.yaml").write_text("{")
    (tmp_path / "README.md").write_text("# notes")
    assert dict(load_catalog([tmp_path]).providers) == {}


def test_one_provider_in_two_files_is_a_fault(tmp_path: Path) -> None:
    folder(tmp_path, mail=MAIL)
    (tmp_path / "mail.yml").write_text((tmp_path / "mail.yaml").read_text(encoding="utf-8"))
    with pytest.raises(CatalogFaults, match=r"mail\.yml:1: 'mail' has two files"):
        load_catalog([tmp_path])


def test_the_faults_of_all_files_are_reported_together(tmp_path: Path) -> None:
    folder(tmp_path, a=MAIL.replace("docs:", "dosc:"), b=MAIL.replace("API_KEY", "APIKEY"), c=MAIL)
    with pytest.raises(CatalogFaults) as raised:
        load_catalog([tmp_path])
    assert [fault.where.rpartition("/")[2] for fault in raised.value.faults] == ["a.yaml:3", "b.yaml:4"]
    assert str(raised.value).count("\n") == 1


def test_an_entry_of_a_large_folder_costs_no_more_than_one_of_a_small_folder(tmp_path: Path) -> None:
    jira = (SHIPPED / "jira.yaml").read_text(encoding="utf-8")
    small, large = (tmp_path / name for name in ("small", "large"))
    for path, size in ((small, 50), (large, 200)):
        path.mkdir()
        folder(path, **{f"p{number}": jira for number in range(size)})
        assert len(load_catalog([path]).providers) == size
    assert cpu_s(lambda: load_catalog([large])) < MAX_RATIO * cpu_s(lambda: load_catalog([small]))


def test_location_of_a_value_is_known_after_its_file_was_removed(tmp_path: Path) -> None:
    catalog = load_catalog([folder(tmp_path, mail=MAIL)])
    assert catalog.file_and_line("mail", "proxy", "headers", "x-api-key").endswith("mail.yaml:7")
    assert catalog.file_and_line("mail", "proxy", "retry").endswith("mail.yaml:5")
    (tmp_path / "mail.yaml").unlink()
    assert catalog.file_and_line("mail", "docs").endswith("mail.yaml:1")


def test_path_to_a_file_loads_only_that_entry(tmp_path: Path) -> None:
    folder(tmp_path, mail=MAIL, broken="{")
    assert list(load_catalog([tmp_path / "mail.yaml"]).providers) == ["mail"]


def test_unreadable_file_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CatalogFaults) as raised:
        load_catalog([tmp_path])
    assert [fault.message for fault in raised.value.faults] == [
        "cannot be read: Is a directory",
        "cannot be read: No such file or directory",
    ]


def test_files_below_the_current_folder_are_shown_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my-catalog").mkdir()
    monkeypatch.chdir(tmp_path)
    catalog = load_catalog([folder(tmp_path / "my-catalog", mail=MAIL)])
    assert catalog.file_and_line("mail", "docs") == "my-catalog/mail.yaml:3"
