"""A rule that names operations is stored as a snapshot: which rules are valid, and that the snapshot does not change."""

from pathlib import Path

import pytest

from gateway.access.freeze_operations import MAX_REPEATED, freeze_limits, host_and_path, rule_path, snapshot
from gateway.access.key_policy import Breach, Policy, SentRequest
from gateway.access.operation_rules import operation_set
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.errors import InvalidRequest
from gateway.records.access import KeyLimits
from tests.fakes.scaling import cpu_s
from tests.gateway.catalog.folders import MAIL, SCRIPTS, SHIPPED, folder
from tests.gateway.catalog.test_api_operations import FILE, write_files


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog([SHIPPED], scripts=SCRIPTS)


def names(rule: str, catalog: Catalog) -> list[str]:
    return [item.name for item in operation_set(rule, snapshot(rule, catalog)).rules]


def test_operation_matches_one_term_with_all_its_words(catalog: Catalog) -> None:
    assert names("operations jira get_issue,add_comment", catalog) == ["get_issue", "add_comment"]
    starters = names("operations jira starter", catalog)
    assert len(starters) == 12
    reads = names("operations jira starter+read", catalog)
    assert set(reads) < set(starters)
    assert names("operations jira read", catalog)[: len(reads)] == reads  # operations of the starter set come first
    assert set(names("operations jira starter+read,add_comment", catalog)) == {*reads, "add_comment"}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("operations jira", "is not a valid rule for operations: write 'operations PROVIDER WHAT'"),
        ("operations jira read write", "is not a valid rule for operations"),
        ("operations jirra read", "names the provider 'jirra', which the catalog does not have; did you mean 'jira'?"),
        ("operations workday read", "without operations in the catalog; write rules with methods and paths instead"),
        ("operations linear read", "names a GraphQL API"),
        ("operations jira get_isue", "names 'get_isue', which is not an operation of jira; did you mean 'get_issue'?"),
        ("operations jira get_issue+write", "matches no operation of jira"),
        ("operations jira " + "read," * 200, "is longer than 512 characters"),
    ],
)
def test_invalid_operation_rule_is_refused_with_a_hint(catalog: Catalog, rule: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        freeze_limits(KeyLimits(rules=("GET /a", rule)), catalog)
    (issue,) = caught.value.errors or ()
    assert message in issue.message
    assert issue.path == ("limits", "rules", "1")


def test_rules_of_one_key_that_name_the_same_operations_are_frozen_together(catalog: Catalog) -> None:
    """A key can have 200 rules. If several rules name the same set of operations, the set is frozen only once."""
    same = tuple(f"operations github {'read,' * n}write" for n in range(1, 11))
    cpu_one_rule = cpu_s(lambda: freeze_limits(KeyLimits(rules=same[:1]), catalog))
    assert cpu_s(lambda: freeze_limits(KeyLimits(rules=same), catalog)) <= 6 * cpu_one_rule
    assert len(set(freeze_limits(KeyLimits(rules=same), catalog).operations.values())) == 1
    for rule, text in freeze_limits(KeyLimits(rules=("operations jira read", *same)), catalog).operations.items():
        assert text == snapshot(rule, catalog)


def test_rules_of_one_key_may_repeat_only_few_operations(catalog: Catalog) -> None:
    rules = tuple(f"operations github {'read,' * n}write" for n in range(1, 61))
    with pytest.raises(InvalidRequest, match="repeats operations of the key's other rules") as caught:
        freeze_limits(KeyLimits(rules=rules), catalog)
    each = len(operation_set(rules[0], snapshot(rules[0], catalog)).rules)
    assert len(rules) - len(caught.value.errors or ()) == MAX_REPEATED // each + 1


def test_operation_at_another_host_is_not_in_an_operation_rule(tmp_path: Path) -> None:
    own = load_catalog([folder(write_files(tmp_path, mail=FILE), mail=MAIL)])
    assert names("operations mail write", own) == ["send_mail"]
    with pytest.raises(ValueError, match=r"which is at https://up\.example\.com"):
        snapshot("operations mail upload", own)


def test_a_later_catalog_neither_widens_nor_narrows_a_key(tmp_path: Path) -> None:
    own = load_catalog([folder(write_files(tmp_path, mail=FILE), mail=MAIL)])
    rule = "operations mail read"
    key = Policy(("environment:proxy",), (freeze_limits(KeyLimits(rules=(rule,)), own),))
    write_files(tmp_path, mail=FILE.replace("get_mail\t", "get_other\t") + "list_users\tGET\t/users\tread\n")
    assert "list_users" in names(rule, own)

    def is_allowed(path: str) -> bool:
        return not isinstance(key.decision(SentRequest("GET", "api.example.com", path, "", ())), Breach)

    assert (is_allowed("/v1/mails"), is_allowed("/v1/mails/7"), is_allowed("/v1/users")) == (True, True, False)


def test_a_key_is_shown_with_the_number_of_its_operations_and_stored_with_all(catalog: Catalog) -> None:
    limits = freeze_limits(KeyLimits(rules=("operations jira starter",)), catalog)
    assert limits.as_json() == {"rules": ["operations jira starter"], "operations": {"operations jira starter": 12}}
    assert KeyLimits.from_json(limits.as_stored()) == limits


@pytest.mark.parametrize(
    ("path", "written_as"),
    [
        ("/issue/{issueIdOrKey}", "/issue/{issue_id_or_key}"),
        ("/a/{id}/b/{id}", "/a/{id}/b/{id_2}"),
        ("/a/{query}", "/a/{query_2}"),
        ("/a/{content-id}:run", "/a/{content_id}:run"),
        ("/a/{3d}", "/a/{part_3d}"),
        ("/plain", "/plain"),
    ],
)
def test_path_placeholders_get_names_that_are_valid_in_rules(path: str, written_as: str) -> None:
    assert rule_path(path) == written_as


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("jira", ("api.atlassian.com", "")),
        ("datadog", ("api.*", "/api")),
        ("adyen", ("*-*.adyen.com", "")),
        ("salesforce", ("*", "")),
        ("bamboohr", ("api.bamboohr.com", "/api/gateway.php/${connectionConfig.subdomain}")),
    ],
)
def test_host_and_path_are_read_from_the_base_url_of_an_entry(
    catalog: Catalog, name: str, place: tuple[str, str]
) -> None:
    provider = catalog.get(name)
    assert provider is not None
    assert host_and_path(provider) == place
