"""An entry can inherit from another one and contain only the differences."""

import json
from pathlib import Path
from textwrap import dedent

import pytest

from gateway.catalog.folder import CannotInherit, InheritedEntries, merge
from gateway.catalog.lint import lint
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.catalog.yaml_file import CatalogFaults
from tests.gateway.catalog.folders import MAIL, SHIPPED, folder

BASE = """\
    display_name: Tracker
    categories: [ticketing]
    auth_mode: OAUTH2
    authorization_url: https://auth.example.com/authorize
    authorization_params: {audience: api, prompt: consent}
    token_url: https://auth.example.com/token
    connection_config:
      site: {description: Which site., pattern: "[a-z]+", optional: true}
    proxy:
      base_url: https://api.example.com
      headers: {authorization: "Bearer ${accessToken}", accept: application/json}
    sources: [provider-docs]
"""


def faults(*folders: Path) -> list[str]:
    with pytest.raises(CatalogFaults) as raised:
        load_catalog(folders)
    return [str(fault).rpartition("/")[2] for fault in raised.value.faults]


def values(catalog: Catalog, name: str) -> dict[str, object]:
    entry: dict[str, object] = json.loads(catalog.providers.contents[name])
    return entry


def test_mappings_are_merged_deeply_and_other_values_are_replaced() -> None:
    base = {"a": {"b": 1, "c": {"d": [1, 2]}}, "e": "x"}
    assert merge(base, {"a": {"c": {"d": [3]}}, "f": 1}) == {"a": {"b": 1, "c": {"d": [3]}}, "e": "x", "f": 1}
    assert merge(base, {"a": "text"}) == {"a": "text", "e": "x"}
    assert base == {"a": {"b": 1, "c": {"d": [1, 2]}}, "e": "x"}


def test_null_removes_an_inherited_key() -> None:
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "d": None}) == {"a": {"c": 2}}
    assert merge({}, {"a": {"b": None}}) == {"a": {}}


def test_entry_inherits_fields_it_does_not_set(tmp_path: Path) -> None:
    heir = """\
        alias: base
        display_name: Tracker for shops
        authorization_params: {prompt: null, shop: "yes"}
        proxy: {headers: {accept: text/plain}}
    """
    catalog = load_catalog([folder(tmp_path, base=BASE, heir=heir)])
    provider = catalog.providers["heir"]
    assert provider.name == "heir"
    assert provider.display_name == "Tracker for shops"
    assert provider.authorization_params == {"audience": "api", "shop": "yes"}
    assert provider.proxy.base_url == "https://api.example.com"
    assert provider.proxy.headers == {"authorization": "Bearer ${accessToken}", "accept": "text/plain"}
    assert provider.connection_config["site"].pattern == "[a-z]+"
    assert "alias" not in catalog.provider_json("heir", "")


def test_chain_of_aliases_is_resolved_in_any_order_of_files(tmp_path: Path) -> None:
    catalog = load_catalog(
        [folder(tmp_path, a="alias: b\ndisplay_name: A\n", b="alias: c\ntoken_url: https://b.example.com/t\n", c=BASE)]
    )
    assert catalog.providers["a"].token_url == "https://b.example.com/t"
    assert catalog.providers["a"].display_name == "A"
    assert catalog.providers["b"].display_name == "Tracker"


def test_cycle_of_aliases_is_a_fault_in_each_of_its_entries(tmp_path: Path) -> None:
    folder(tmp_path, a="display_name: A\nalias: b\n", b="alias: c\n", c="alias: a\n", d=BASE)
    found = faults(tmp_path)
    assert [fault.partition(": ")[0] for fault in found] == ["a.yaml:2", "b.yaml:1", "c.yaml:1"]
    assert all("is a cycle of aliases" in fault for fault in found)
    assert "a ▸ b ▸ c ▸ a" in found[0]


def test_an_entry_cannot_inherit_only_from_itself(tmp_path: Path) -> None:
    assert faults(folder(tmp_path, a="alias: a\n"))[0].startswith(
        "a.yaml:1: alias: there is no entry 'a' to inherit from"
    )


def test_unknown_base_is_reported_with_the_closest_name(tmp_path: Path) -> None:
    message = faults(folder(tmp_path, tracker=BASE, shop="display_name: Shop\nalias: traker\n"))
    assert message == ["shop.yaml:2: alias: there is no entry 'traker' to inherit from; did you mean 'tracker'?"]
    assert "must be text" not in faults(folder(tmp_path, shop="alias: [tracker]\n"))[0]


def test_inherited_fault_is_reported_at_the_alias(tmp_path: Path) -> None:
    heir = "display_name: Heir\nalias: base\nauth_mode: APP_STORE\n"
    assert faults(folder(tmp_path, base=BASE, heir=heir))[0].startswith(
        "heir.yaml:3: there is no auth mode 'APP_STORE'"
    )
    heir = "display_name: Heir\nalias: base\nconnection_config: {site: null, other: {}}\nproxy: {base_url: 'https://a.b'}\n"
    changed = dedent(BASE).replace("api.example.com", "${connectionConfig.site}.example.com")
    message = faults(folder(tmp_path, base=changed, heir=heir.replace("proxy: {base_url: 'https://a.b'}\n", "")))
    assert message == ["heir.yaml:2: ${connectionConfig.site} has no setting; add 'site' to connection_config"]


def test_faulty_base_is_reported_once_per_inheriting_entry(tmp_path: Path) -> None:
    message = faults(folder(tmp_path, zbase=dedent(BASE).replace("token_url", "tokn_url"), heir="alias: zbase\n"))
    assert [line.partition(": ")[0] for line in message] == ["heir.yaml:1", "zbase.yaml:6"]
    assert message[0].endswith("the entry 'zbase', from which this entry inherits, also has faults")


def test_a_later_folder_inherits_from_an_earlier_one(tmp_path: Path) -> None:
    mine = folder(tmp_path, my_jira="alias: jira\ndisplay_name: Our Jira\ndefault_scopes: [read:me, offline_access]\n")
    catalog = load_catalog([SHIPPED, mine])
    ours, theirs = catalog.providers["my-jira"], catalog.providers["jira"]
    assert ours.default_scopes == ["read:me", "offline_access"]
    assert theirs.default_scopes == ["offline_access"]
    assert ours.token_url == theirs.token_url
    assert ours.post_connection_script == "jira_post_connection"


def test_entry_whose_alias_is_its_own_name_changes_the_shipped_entry(tmp_path: Path) -> None:
    mine = folder(tmp_path, jira="alias: jira\ntoken_expiration_buffer: 120\n")
    provider = load_catalog([SHIPPED, mine]).providers["jira"]
    assert provider.token_expiration_buffer == 120
    assert provider.authorization_url == "https://auth.atlassian.com/authorize"


def test_lint_of_a_folder_finds_base_entries_of_the_shipped_catalog(tmp_path: Path) -> None:
    mine = folder(tmp_path, my_jira="alias: jira\ndisplay_name: Our Jira\n", mail=MAIL)
    assert any("no entry 'jira'" in str(fault) for fault in lint([mine]))
    assert [fault for fault in lint([mine], base_folders=[SHIPPED]) if fault.level == "fault"] == []


def test_inheritance_works_without_files() -> None:
    heirs = InheritedEntries({"a": {"alias": "b", "x": 1}, "b": {"alias": "b", "y": 2}}, {"b": {"name": "b", "z": 3}})
    assert heirs.merged_values("a") == {"alias": "b", "x": 1, "y": 2, "z": 3}
    with pytest.raises(CannotInherit):
        InheritedEntries({"a": {"alias": 7}}, {}).merged_values("a")
