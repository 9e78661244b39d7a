"""Faults that lint reports in files of API operations."""

from pathlib import Path

import pytest

from gateway.catalog.lint import lint
from tests.gateway.catalog.folders import MAIL, SCRIPTS, SHIPPED, folder
from tests.gateway.catalog.test_api_operations import FILE, write_files


def faults(path: Path) -> list[str]:
    """Return the faults, without warnings, that lint reports for the folder."""
    return [str(finding) for finding in lint([path]) if finding.level == "fault"]


def test_correct_file_has_no_faults(tmp_path: Path) -> None:
    assert faults(folder(write_files(tmp_path, mail=FILE), mail=MAIL)) == []


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("get_mail\t", "list_mails\t", "mail.tsv:9: there are two operations 'list_mails'"),
        ("get_mail\t", "read\t", "mail.tsv:9: 'read' is not an id"),
        ("get_mail\t", "getMail\t", "mail.tsv:9: 'getMail' is not an id"),
        ("get_mail\tGET\t/mails/{mailId}", "get_mail\tGET\t/mails", "mail.tsv:9: there are two operations GET /mails"),
        ("/mails/{mailId}\tread", "/mails/{mailId\tread", "mail.tsv:9: '/mails/{mailId' is not a path template"),
        ("/mails/{mailId}\tread", "/mails//x\tread", "mail.tsv:9: '/mails//x' is not a path template"),
        ("/mails/{mailId}\tread", "/../x\tread", "mail.tsv:9: '/../x' has a '.' or '..' segment"),
        ("https://up", "http://up", "mail.tsv:12: 'http://up.example.com/mails' is not a path template"),
        ("\tGET\t/mails/{mailId}", "\tget\t/mails/{mailId}", "mail.tsv:9: the method 'get' is not one of"),
        ("\tGET\t/mails/{mailId}", "\tquery\tmail", "mail.tsv:9: is a query, but the file has no graphql_endpoint"),
        ("{mailId}\tread", "{mailId}\twrite", "mail.tsv:9: a GET must have the risk read, not write"),
        ("{mailId}\tdelete", "{mailId}\twrite", "mail.tsv:11: a DELETE cannot have the risk write"),
        ("starter", "starters", "mail.tsv:8: the mark 'starters' is not one of"),
        ("List mails", "L" * 91, "mail.tsv:8: the summary has more than 90 characters"),
        ("# licence: MIT\n", "", "mail.tsv:1: does not say its licence"),
        ("api.example.com", "api.example.org", "mail.tsv:1: base_url has the host api.example.org"),
        ("com/v1", "com/v2", "mail.tsv:1: the entry's base URL and the prefix make the path /v1, base_url has /v2"),
        ("# scope_prefix", "# prefix: /x\n# scope_prefix", "make the path /v1/x, base_url has /v1"),
        ("# scope_prefix: mail.", "# scopes_mode: some", "mail.tsv:1: scopes_mode must be any or all"),
    ],
)
def test_each_fault_has_its_line(tmp_path: Path, old: str, new: str, result: str) -> None:
    assert old in FILE
    found = faults(folder(write_files(tmp_path, mail=FILE.replace(old, new, 1)), mail=MAIL))
    assert any(result in item for item in found), found


def test_operations_file_needs_its_entry_and_the_entry_of_same_as(tmp_path: Path) -> None:
    at = folder(
        write_files(tmp_path, nobody=FILE, mail="# same_as: gone\n# base_url: https://api.example.com/v1\n"), mail=MAIL
    )
    (at / "operations" / "notes.md").write_text("x")
    found = faults(at)
    assert any("nobody.tsv:1: the catalog has no entry 'nobody'" in item for item in found)
    assert any("mail.tsv:1: same_as names 'gone'" in item for item in found)
    assert any("notes.md: is not a file of operations" in item for item in found)


def test_too_many_starters_are_a_fault(tmp_path: Path) -> None:
    rows = "".join(f"get_{n}x\tGET\t/m/{n}\tread\tstarter\n" for n in range(13))
    assert any(
        "has more than 12 starters" in fault
        for fault in faults(folder(write_files(tmp_path, mail=FILE + rows), mail=MAIL))
    )


def test_the_shipped_files_have_no_faults() -> None:
    assert [finding for finding in lint([SHIPPED], scripts=SCRIPTS) if "/operations/" in finding.where] == []
