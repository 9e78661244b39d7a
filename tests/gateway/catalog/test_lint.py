"""Lint reports entries that load but could be better, with their lines."""

from pathlib import Path
from textwrap import dedent

import pytest

from gateway.catalog.lint import lint
from tests.gateway.catalog.folders import MAIL, TRACKER, folder

SOURCED = dedent(MAIL) + "  verification: {endpoints: [/me]}\nsources: [provider-docs]\n"
OAUTH = "sources: [provider-docs]\n" + dedent(TRACKER)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (
            SOURCED + "sunset: {date: '2026-08-31', what: v1 ends, source: a page, replaced_by: [v2, v3]}\n",
            "11: sunset on 2026-08-31: v1 ends (source: a page); use v2 or v3",
        ),
        (SOURCED.replace("${apiKey}", "${apiKey}${now:QQ}"), "7: 'QQ' in ${now:…} is not a token of a time format;"),
        (SOURCED.replace("${apiKey}", "${base64(${apiKey}${now:YYYYTHH})}"), "7: 'T' in ${now:…} is not a token"),
        (dedent(MAIL), "1: names no sources, so its reliability is unknown"),
        (SOURCED.replace("[email]", "[e-mail]"), "2: 'e-mail' is not a category of the vocabulary in docs/catalog.md"),
        (SOURCED.replace("https://api", "http://api"), "6: is plain http, which only networks in egress.allow may use"),
        (SOURCED.replace("https://docs", "http://docs"), "3: is plain http; use the page's https URL"),
        (SOURCED.replace("${apiKey}", "x"), "5: does not send the key; add a field with ${apiKey} to proxy.headers"),
        (
            dedent(MAIL) + "sources: [x]\n",
            "5: has no verification, so a wrong credential is found only when it is used",
        ),
        (
            SOURCED.replace("api.example.com", "api.${connectionConfig.tld}")
            + "connection_config: {tld: {hidden: true}}\n",
            "6: ${connectionConfig.tld} decides the end of the host; give the setting a pattern or an enum, or `any_host",
        ),
        (
            SOURCED + "connection_config: {s: {pattern: '(a+)+b', hidden: true}}\n",
            "11: repeats a repetition, which can take forever to match; write it without nesting",
        ),
        (
            SOURCED.replace("api.example.com", "${connectionConfig.h}.example.com")
            + "connection_config: {h: {pattern: '[a-z.]+', example: a.b, hidden: true}}\n",
            "6: cannot be built from the example of 'h': it must be one DNS label",
        ),
        (SOURCED + "connection_config: {s: {}}\n", "11: setting 's' has no description, so the end user must guess"),
        (
            SOURCED + "connection_config: {s: {secret: true}}\n",
            "11: setting 's' has no description, so the end user must guess",
        ),
        (
            OAUTH + "  paginate: {type: cursor, cursor_name_in_request: c}\n",
            "15: pagination of type cursor needs cursor_path_in_response",
        ),
        (
            SOURCED + "token_url: https://api.example.com/token\n",
            "11: auth_mode API_KEY does not read token_url, so it has no effect; remove it",
        ),
        (
            OAUTH.replace("OAUTH2", "MCP_OAUTH2_GENERIC") + "disable_pkce: true\n",
            "15: auth_mode MCP_OAUTH2_GENERIC does not read disable_pkce, so it has no effect; remove it",
        ),
        (
            OAUTH + "credentials: {secret: {description: d}}\n",
            "15: auth_mode OAUTH2 does not read credentials, so it has no effect; remove it",
        ),
        (
            SOURCED + "credentials: {secret: {description: d}}\n",
            "11: has no 'apiKey', which auth_mode API_KEY needs, so nobody can connect; add it",
        ),
        (
            SOURCED.replace("[/me]}", "[/me], expect: {a..b: true}}"),
            "9: 'a..b' is not a dotted path, such as user.id",
        ),
        (
            SOURCED.replace("[/me]}", "[/me], method: HEAD, expect: {ok: true}}"),
            "9: needs a body, which a response to HEAD does not have; use GET",
        ),
        (OAUTH + "account: {endpoint: /me, data: {query: q}}\n", "15: is a body, which only a POST has"),
        (
            OAUTH.replace("OAUTH2", "CUSTOM") + "installation_token_url: https://api.example.com/token\n",
            "15: is used without installation_access_url, so an end user can connect another customer's installation",
        ),
        (OAUTH + "refresh: {requires_scope: refresh}\n", "9: without 'refresh' among default_scopes, connections"),
    ],
)
def test_a_warning_names_its_line(tmp_path: Path, text: str, result: str) -> None:
    found = lint([folder(tmp_path, entry=text)])
    assert {warning.level for warning in found} == {"warning"}
    assert any(str(warning).startswith(f"{tmp_path}/entry.yaml:{result}") for warning in found), list(map(str, found))


def test_each_field_of_a_form_has_warnings_of_its_own(tmp_path: Path) -> None:
    fields = "connection_config:\n  site: {}\n  area: {secret: true}\ncredentials:\n  apiKey: {}\n  account: {}\n"
    found = [str(warning) for warning in lint([folder(tmp_path, entry=SOURCED + fields)])]
    undescribed = "has no description, so the end user must guess where to find it"
    assert [line for line in found if undescribed in line] == [
        f"{tmp_path}/entry.yaml:{line}: setting '{name}' {undescribed}"
        for line, name in ((12, "site"), (13, "area"), (15, "apiKey"), (16, "account"))
    ]


def test_a_fault_has_a_level_and_does_not_hide_warnings_of_other_files(tmp_path: Path) -> None:
    found = lint([folder(tmp_path, a=SOURCED.replace("docs:", "dosc:"), b=SOURCED.replace("[email]", "[e-mail]"))])
    assert [(each.level, each.where.rpartition("/")[2]) for each in found] == [
        ("fault", "a.yaml:3"),
        ("warning", "b.yaml:2"),
    ]


@pytest.mark.parametrize(("id_in_url", "is_fault"), [("7", True), ("${connectionConfig.installation_id}", False)])
def test_an_access_check_must_name_the_installation(tmp_path: Path, id_in_url: str, is_fault: bool) -> None:
    more = "installation_token_url: https://api.example.com/token\nredirect_uri_metadata: [installation_id]\n"
    more += f"installation_access_url: https://api.example.com/installations/{id_in_url}\n"
    found = lint([folder(tmp_path, entry=OAUTH.replace("OAUTH2", "CUSTOM") + more)])
    expected = "17: installation_access_url must contain ${connectionConfig.installation_id}"
    assert any(str(item).startswith(f"{tmp_path}/entry.yaml:{expected}") for item in found) is is_fault, found


def test_a_url_on_this_machine_may_be_plain_http(tmp_path: Path) -> None:
    assert lint([folder(tmp_path, entry=SOURCED.replace("https://api.example.com", "http://127.0.0.1:9900"))]) == []
