"""API operations of providers: their files, the search, and the scopes that they need."""

from pathlib import Path

import pytest

from gateway import resources
from gateway.catalog.api_operations import (
    ApiOperation,
    ProviderOperations,
    api_operation_json,
    read_operations,
    scopes_json,
    scopes_needed,
)
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.catalog.yaml_file import UnreadableFile
from tests.gateway.catalog.folders import MAIL, SCRIPTS, SHIPPED, folder

FILE = """\
# source: the vendor's document
# version: 1
# date: 2026-01-02
# licence: MIT
# base_url: https://api.example.com/v1
# scope_prefix: mail.
id\tmethod\tpath\trisk\tmarks\tscopes\tquery\tsummary
list_mails\tGET\t/mails\tread\tstarter\tread all\tfrom to\tList mails
get_mail\tGET\t/mails/{mailId}\tread
send_mail\tPOST\t/mails\twrite\t\tsend
drop_mail\tDELETE\t/mails/{mailId}\tdelete\tdeprecated body
upload\tPUT\thttps://up.example.com/mails\twrite\tbodiless
"""


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    return load_catalog([SHIPPED], scripts=SCRIPTS)


def write_files(path: Path, **files: str) -> Path:
    place = path / "operations"
    place.mkdir(exist_ok=True)
    for name, text in files.items():
        (place / f"{name}.tsv").write_text(text, encoding="utf-8")
    return path


def mail_operations(*operations: ApiOperation, mode: str = "any") -> ProviderOperations:
    return ProviderOperations("mail", "mail", "", {"scopes_mode": mode}, operations)


def test_left_out_columns_have_default_values(tmp_path: Path) -> None:
    known = read_operations([write_files(tmp_path, mail=FILE)], "mail")
    assert known is not None
    first, second, third, fourth, fifth = known.operations
    assert first == ApiOperation(
        "list_mails", "GET", "/mails", "read", "List mails", ("mail.read", "mail.all"), ("from", "to"), starter=True
    )
    assert (second.path, second.summary, second.body, second.starter) == ("/mails/{mailId}", "", False, False)
    assert (third.body, fourth.body, fourth.deprecated, fifth.body) == (True, True, True, False)
    assert (fifth.origin, fifth.path) == ("https://up.example.com", "/mails")
    assert known.header["licence"] == "MIT"


def test_same_as_uses_the_operations_of_another_entry_below_its_own_prefix(tmp_path: Path) -> None:
    own = "# same_as: mail\n# base_url: https://api.example.com/v1\n# prefix: /v1\n"
    known = read_operations([write_files(tmp_path, mail=FILE, mail_eu=own)], "mail_eu")
    assert known is not None
    assert (known.listed_for, len(known.operations), known.header["source"]) == ("mail", 5, "the vendor's document")
    assert api_operation_json(known.operations[1], known.prefix)["path"] == "/v1/mails/{mailId}"
    assert api_operation_json(known.operations[4], known.prefix)["path"] == "/mails"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# colour: red\n", ":1: must be '# key: value'"),
        ("id\tmethod\n", ":1: must name the columns"),
        (FILE.replace("\tread\n", "\trisky\n"), ":9: has the unknown risk 'risky'"),
        (FILE + "one\tGET\n", ":13: must have 4 to 8 fields"),
        ("# same_as: other\n", ":1: same_as names 'other'"),
    ],
)
def test_unreadable_file_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UnreadableFile) as caught:
        read_operations([write_files(tmp_path, mail=text)], "mail")
    assert message in str(caught.value.fault)


def test_file_of_a_windows_editor_is_read(tmp_path: Path) -> None:
    """A byte order mark and CR LF are not part of the text."""
    expected = read_operations([write_files(tmp_path, mail=FILE)], "mail")
    path = write_files(tmp_path) / "operations" / "mail.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode())
    assert read_operations([tmp_path], "mail") == expected


def test_find_filters_by_words_risk_scope_and_starter(tmp_path: Path) -> None:
    known = read_operations([write_files(tmp_path, mail=FILE)], "mail")
    assert known is not None
    assert [item.id for item in known.find("MAIL list")] == ["list_mails"]
    assert [item.id for item in known.find(risk="write")] == ["send_mail", "upload"]
    assert [item.id for item in known.find(scope="mail.send")] == ["send_mail"]
    assert [item.id for item in known.find(starter=True)] == ["list_mails"]
    assert known.find("mails", "admin") == []


def test_an_operators_file_is_read_before_the_shipped_one(tmp_path: Path) -> None:
    at = folder(write_files(tmp_path, github=FILE), github=MAIL, mail=MAIL)
    catalog = load_catalog([SHIPPED, at], scripts=SCRIPTS)
    own = catalog.operations("github")
    assert own is not None
    assert len(own.operations) == 5
    assert catalog.operations("mail") is None
    assert catalog.operations("jira") is not None
    assert catalog.operations("nobody") is None


def test_every_shipped_file_of_operations_loads(shipped: Catalog) -> None:
    names = [path.stem for path in (SHIPPED / "operations").iterdir()]
    known = [one for name in names if (one := shipped.operations(name)) is not None]
    assert len(known) == len(names)
    own = [entry for entry in known if entry.listed_for == entry.provider]
    assert len(own) >= 130
    assert sum(len(item.operations) for item in own) >= 15_000
    size = sum(path.stat().st_size for path in (SHIPPED / "operations").iterdir())
    assert size / sum(len(item.operations) for item in own) <= 122
    assert resources.folder("catalog") == SHIPPED


def test_operations_that_run_statements_are_not_reads(shipped: Catalog) -> None:
    """Operations that run any statement are not reads, although their names suggest it."""
    for name, operation in (("google-bigquery", "query"), ("snowflake", "execute_statement")):
        known = shipped.operations(name)
        assert known is not None
        assert next(item for item in known.operations if item.id == operation).risk == "write"


def test_scopes_that_all_operations_need_and_those_of_which_one_suffices() -> None:
    one = ApiOperation("a", "GET", "/a", "read", scopes=("x",))
    two = ApiOperation("b", "GET", "/b", "read", scopes=("y", "z"))
    three = ApiOperation("c", "GET", "/c", "read", scopes=("x", "z"))
    four = ApiOperation("d", "GET", "/d", "read", scopes=("w", "y", "z"))
    five = ApiOperation("e", "GET", "/e", "read")
    every = (one, two, three, four, five)
    needed = scopes_needed(mail_operations(*every), every)
    assert (needed.all_of, needed.any_of, needed.unstated) == (("x",), (("y", "z"),), ("e",))
    assert needed.missing(["x"]) == (("y", "z"),)
    assert needed.missing(["z"]) == (("x",),)
    assert needed.missing(["x", "y"]) == ()
    assert needed.unneeded_scopes(["x", "y", "offline_access"]) == ("offline_access",)
    every_one = scopes_needed(mail_operations(*every, mode="all"), every)
    assert (every_one.all_of, every_one.any_of) == (("w", "x", "y", "z"), ())


def test_granted_scopes_are_compared_with_spaces_or_commas_between() -> None:
    operation = ApiOperation("a", "GET", "/a", "read", scopes=("x",))
    shown = scopes_json(mail_operations(operation), [operation], "w,y v")
    assert shown == {"all_of": ["x"], "any_of": [], "unstated": 0, "missing": [["x"]], "unneeded": ["w", "y", "v"]}
    assert "missing" not in scopes_json(mail_operations(operation), [operation])


def test_graphql_operations_are_requests_to_the_endpoint(shipped: Catalog) -> None:
    known = shipped.operations("linear")
    assert known is not None
    assert known.is_graphql
    assert {(operation.method, operation.path, operation.body) for operation in known.operations} == {
        ("POST", "/graphql", True)
    }
    assert api_operation_json(known.find("agentActivityCreate")[0], "")["field"] == "agentActivityCreate"


def test_operations_are_not_read_at_startup(shipped: Catalog) -> None:
    """Operations stay on the disk until they are requested: the catalog in a worker's memory does not contain them."""
    size = sum(len(content) for content in shipped.providers.contents.values())
    assert not any(b"get_issue" in content for content in shipped.providers.contents.values())
    assert size < 4_000_000
