"""Rules that name operations: which requests their snapshots match, for every shipped provider."""

import base64
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.ambiguous_requests import path_ambiguity
from gateway.access.freeze_operations import snapshot
from gateway.access.key_policy import Breach, Policy, SentRequest
from gateway.access.key_rule import parse_rule
from gateway.access.operation_rules import (
    OperationSet,
    _parse_line,
    _unpack_snapshot,
    fits_shape,
    operation_set,
    pack_snapshot,
)
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.records.access import KeyLimits
from tests.gateway.catalog.folders import SCRIPTS, SHIPPED

RULE = "operations acme read"
_PLACE = re.compile(r"\{[^{}]*\}|\*")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog([SHIPPED], scripts=SCRIPTS)


def policy(rule: str, catalog: Catalog) -> Policy:
    return Policy(("environment:proxy",), (KeyLimits(rules=(rule,), operations={rule: snapshot(rule, catalog)}),))


def request(method: str, path: str, host: str = "api.atlassian.com") -> SentRequest:
    return SentRequest(method, host, path, "", ())


def operation_set_of(*lines: str, others: tuple[str, ...] = (), host: str = "api.example.com") -> OperationSet:
    return OperationSet("acme", host, "", [_parse_line(RULE, "", line) for line in lines], others)


def test_rule_matches_the_chosen_operations_of_every_provider_and_no_others(catalog: Catalog) -> None:
    """Each chosen operation matches with ordinary values in its path. The same operation written as a plain rule
    matches too.
    """
    providers = operations = 0
    for name in catalog.providers:
        known = catalog.operations(name)
        if known is None or known.is_graphql:
            continue
        providers += 1
        rule = f"operations {name} read"
        found = operation_set(rule, snapshot(rule, catalog))
        host = found.host.replace("*", "x")
        reads = {item.id for item in known.operations if item.risk == "read" and not item.origin}
        assert {item.name for item in found.rules} == reads
        before = re.sub(r"\$\{[^{}]*\}", "s-1", found.rules[0].path_prefix)
        for operation in known.operations:
            path = before + _PLACE.sub("v-1", operation.path)
            fitting = found.matching_operation(operation.method, host, path)
            assert (fitting is not None) is (operation.id in reads), (name, operation)
            if fitting is not None:
                assert parse_rule(f"{fitting.method} {fitting.path_pattern} as x").matches(operation.method, path)
            operations += 1
        assert found.matching_operation("GET", f"not-{host}.example", before) is None or found.host == "*"
    assert providers >= 130
    assert operations >= 15_000


def test_call_allowed_by_an_operation_rule_returns_the_operation(catalog: Catalog) -> None:
    key = policy("operations jira read,add_comment", catalog)
    issue = "/ex/jira/4f1c/rest/api/3/issue/A-1"
    assert key.decision(request("GET", issue)) == "operations jira read,add_comment: get_issue"
    assert key.decision(request("POST", f"{issue}/comment")) == "operations jira read,add_comment: add_comment"
    for method, path in (
        ("PUT", issue),
        ("DELETE", issue),
        ("HEAD", issue),
        ("GET", f"{issue}/"),
        ("GET", "/ex/jira/4f1c/rest/api/3/issue/"),
        ("GET", "/rest/api/3/issue/A-1"),
        ("POST", issue),
    ):
        assert isinstance(key.decision(request(method, path)), Breach), (method, path)
    assert isinstance(key.decision(request("GET", issue, "api.atlassian.com.example.com")), Breach)
    assert isinstance(key.decision(request("GET", f"{issue}%2F..")), Breach)
    breach = key.decision(request("PUT", issue))
    assert isinstance(breach, Breach)
    assert breach.allowed == ("operations jira read,add_comment",)


def test_left_out_operation_is_refused_although_the_path_of_another_matches(catalog: Catalog) -> None:
    """At Zoho, PUT /{module}/{id} is in the group `write`, but PUT /Contacts/roles changes roles and is not."""
    key = policy("operations zoho-crm write", catalog)
    host = "www.zohoapis.eu"
    assert key.decision(request("PUT", "/crm/v8/Contacts/77", host)) != ""
    assert not isinstance(key.decision(request("PUT", "/crm/v8/Contacts/77", host)), Breach)
    assert isinstance(key.decision(request("PUT", "/crm/v8/Contacts/roles", host)), Breach)
    assert isinstance(key.decision(request("PUT", "/crm/v8/settings/roles/1", host)), Breach)


def test_left_out_operation_is_refused_also_with_a_format_suffix() -> None:
    """A server with Rails treats ``/items/secret.json`` as ``/items/secret``."""
    lines = ("r GET /items/{id} get_item", "r GET /items/list.csv list_items", "r GET /items/{id}.xml get_xml")
    items = operation_set_of(*lines, others=("GET /items/secret", "GET /items/list", "GET /items/*/*"))
    matched = {
        segment: None
        if (found := items.matching_operation("GET", "api.example.com", f"/items/{segment}")) is None
        else found.name
        for segment in ("secret", "secret.json", "Secret.JSON", "a.json", "list.csv", "list.json", "a.xml", ".json")
    }
    assert matched == {
        "secret": None,
        "secret.json": None,
        "Secret.JSON": None,
        "a.json": "get_item",
        "list.csv": "list_items",  # an operation names this path itself
        "list.json": None,
        "a.xml": "get_xml",
        ".json": "get_item",
    }


def test_key_may_have_plain_rules_and_operation_rules(catalog: Catalog) -> None:
    rules = ("GET /v1/extra", "operations github read", "operations jira get_issue")
    snapshots = {rule: snapshot(rule, catalog) for rule in rules[1:]}
    key = Policy(("environment:proxy",), (KeyLimits(rules=rules, operations=snapshots),))
    assert key.decision(request("GET", "/v1/extra", "api.github.com")) == "GET /v1/extra"
    assert str(key.decision(request("GET", "/repos/a/b", "api.github.com"))).startswith("operations github read: ")
    assert isinstance(key.decision(request("GET", "/repos/a/b")), Breach)  # the default host of `request` is Jira's
    assert isinstance(key.decision(request("DELETE", "/repos/a/b", "api.github.com")), Breach)
    assert len(key.rules[-1]) == 1 + len(key.operation_sets["operations github read"].rules) + 1


def test_call_must_be_allowed_by_the_key_and_all_its_ancestors(catalog: Catalog) -> None:
    own, above = "operations jira read,write", "operations jira read"
    limits = [KeyLimits(rules=(rule,), operations={rule: snapshot(rule, catalog)}) for rule in (own, above)]
    key = Policy(("environment:proxy",), limits)
    assert key.decision(request("GET", "/ex/jira/1/rest/api/3/issue/A-1")) == "operations jira read: get_issue"
    assert isinstance(key.decision(request("PUT", "/ex/jira/1/rest/api/3/issue/A-1")), Breach)
    assert {rule.text for rule in key.rules[-1]} == {own}


@pytest.mark.parametrize("stored", ["", "3:", "3:!!", "3:AAAA", "1:eJyrrgUAAXUA+Q=="])
def test_a_snapshot_that_is_missing_or_unreadable_allows_nothing(stored: str) -> None:
    key = Policy(("environment:proxy",), (KeyLimits(rules=(RULE,), operations={RULE: stored} if stored else {}),))
    assert isinstance(key.decision(request("GET", "/mails", "api.example.com")), Breach)


def test_keys_with_the_same_snapshot_share_it(catalog: Catalog) -> None:
    rule = "operations jira read"
    text = snapshot(rule, catalog)
    assert len(text) < 4000
    assert operation_set(rule, text) is operation_set(rule, "".join(list(text)))


def test_the_most_exact_operation_decides() -> None:
    found = operation_set_of("r GET /a/{x} get_x", "r GET /a/me get_me", others=("GET /a/{x}.json", "GET /b/{y}"))
    assert [
        getattr(found.matching_operation("GET", "api.example.com", path), "name", None)
        for path in ("/a/1", "/a/me", "/a/1.json", "/b/1", "/a/", "/a/1/2")
    ] == ["get_x", "get_me", None, None, None, None]


def test_excluded_operation_wins_over_an_equally_exact_one() -> None:
    found = operation_set_of("w POST /a/{x}/b do_b", others=("POST /a/c/{y}",))
    assert found.matching_operation("POST", "api.example.com", "/a/c/b") is None
    assert found.matching_operation("POST", "api.example.com", "/a/d/b") is not None


def test_excluded_operation_cannot_be_reached_in_another_case() -> None:
    found = operation_set_of(
        "w PUT /{module}/{id} update", "w PUT /a/Own own", others=("PUT /Contacts/roles", "PUT /a/own")
    )
    paths = ("/contacts/ROLES", "/CONTACTS/roles", "/Contacts/7", "/a/Own", "/A/Own")
    fitting = [found.matching_operation("PUT", "api.example.com", path) for path in paths]
    assert [item and item.name for item in fitting] == [None, None, "update", "own", "update"]


def test_placeholder_in_a_host_matches_any_text_and_the_rest_exactly() -> None:
    found = operation_set_of("r GET /a get_a", host="*.zendesk.com")
    assert found.matching_operation("GET", "Acme.zendesk.com", "/a") is not None
    assert found.matching_operation("GET", "zendesk.com", "/a") is None
    assert found.matching_operation("GET", "acme.zendesk.com.example", "/a") is None


_SEGMENT = st.sampled_from(["a", "b", "{x}", "{y}.json", "a{z}", "v{p}-{q}"])
_PATHS = st.lists(_SEGMENT, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))


@given(
    st.lists(_PATHS, min_size=1, max_size=6, unique=True),
    st.lists(_PATHS, max_size=3),
    st.lists(st.sampled_from(["a", "b", "ab", "x.json", ".json", "v1-2", "v--", "", "a.json"]), min_size=1, max_size=3),
)
def test_path_tree_matches_like_the_single_paths(allowed: list[str], left_out: list[str], segments: list[str]) -> None:
    lines = [f"r GET {path} op_{n}" for n, path in enumerate(allowed)]
    path = "/" + "/".join(segments)
    without_suffix = path.rpartition(".")[0] if "." in segments[-1] else path  # as Rails reads ``/items/secret.json``

    def fits(template: str, path: str = path) -> bool:
        pattern = "".join(
            "[^/]+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w\})", template)
        )
        return re.fullmatch(pattern, path) is not None

    alone = operation_set_of(*lines).matching_operation("GET", "api.example.com", path)
    assert (alone is not None) is any(map(fits, allowed))
    assert alone is None or fits(alone.path_pattern)
    narrowed = operation_set_of(*lines, others=tuple(f"GET {item}" for item in left_out)).matching_operation(
        "GET", "api.example.com", path
    )
    assert narrowed is None or fits(narrowed.path_pattern)
    if not any(fits(item) or fits(item, without_suffix) for item in left_out if item not in allowed):
        assert (narrowed is None) is (alone is None)
    if alone is not None and path_ambiguity(path) is None:
        assert parse_rule(f"GET {_PLACE.sub('*', alone.path_pattern)}").matches("GET", path)


@given(st.lists(st.text("ab", max_size=2), min_size=2, max_size=4), st.text("abc", max_size=8))
def test_segment_shape_matches_like_its_pattern(shape: list[str], text: str) -> None:
    assert fits_shape(shape, text) is (re.fullmatch(".+".join(map(re.escape, shape)), text) is not None)


def test_snapshot_that_is_cut_off_allows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left-out operations are the last lines of a snapshot. Without these lines, the rule would allow more than it
    names.
    """
    text = pack_snapshot(
        "acme", "api.example.com", "", "", ["r GET /items/* get_item"], [f"GET /items/{n}" for n in range(9)]
    )
    whole = operation_set(RULE, text)
    assert whole.matching_operation("GET", "api.example.com", "/items/x") is not None
    assert whole.matching_operation("GET", "api.example.com", "/items/8") is None
    size = len(zlib.decompress(base64.b64decode(text.partition(":")[2])))
    monkeypatch.setattr("gateway.access.operation_rules.MAX_SNAPSHOT_BYTES", size - len("- GET /items/8") - 1)
    cut = _unpack_snapshot(RULE, text)
    assert cut.matching_operation("GET", "api.example.com", "/items/8") is None
    assert cut.rules == ()


def test_rule_for_too_many_operations_is_refused() -> None:
    with pytest.raises(ValueError, match="stands for 60,000 operations, too many for one key; name fewer"):
        pack_snapshot("acme", "api.example.com", "", "", [f"r GET /items/{n}/parts get_{n}" for n in range(60_000)], [])
