"""Faults of an entry are reported with their lines, all together, and never crash the loader."""

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.catalog import folder
from gateway.catalog.load_catalog import load_catalog
from gateway.catalog.yaml_file import CatalogDocument, CatalogFaults, read_yaml
from tests.gateway.catalog.folders import MAIL, SCRIPTS, TRACKER

PLAIN = dedent(MAIL)
OAUTH = dedent(TRACKER)


def faults(tmp_path: Path, text: str | bytes, name: str = "entry.yaml") -> list[str]:
    """Return ``line: message`` for each fault; nothing if the entry loads."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        load_catalog([tmp_path], scripts=SCRIPTS)
    except CatalogFaults as raised:
        return [str(fault).removeprefix(f"{path}:") for fault in raised.faults]
    return []


FORM = "connection_config:\n  site:\n"

CASES = [
    # shape
    (PLAIN + "proxxy: 1\n", "9: unknown key 'proxxy'; did you mean 'proxy'?"),
    (PLAIN + "docs: https://b.example.com\n", "9: 'docs' is given twice, first in line 3; keep one"),
    (PLAIN.replace("display_name: Mail API\n", ""), "1: display_name is missing; every entry needs display_name, "),
    (PLAIN.replace("categories: [email]\n", ""), "1: categories is missing"),
    (PLAIN.replace("auth_mode: API_KEY\n", ""), "1: auth_mode is missing"),
    (
        PLAIN.replace("base_url: https://api.example.com/v1", "base_urls: x"),
        "5: proxy.base_url is missing; every entry",
    ),
    (PLAIN.replace("[email]", "[]"), "2: categories must not be empty"),
    (PLAIN.replace("[email]", "email"), "2: categories must be a list, such as [a, b]"),
    (PLAIN.replace("Mail API", "12"), "1: display_name must be text, and this reads as a number; put it in quotes"),
    (PLAIN.replace("Mail API", ""), "1: display_name must be text"),
    (PLAIN.replace("decompress: true", "decompress: perhaps"), "8: proxy.decompress must be true or false"),
    (
        PLAIN.replace("decompress: true", "decompresss: true"),
        "8: unknown key 'decompresss'; did you mean 'decompress'?",
    ),
    (
        PLAIN.replace("${apiKey}", "5").replace('"5"', "5"),
        "7: proxy.headers.x-api-key must be text, and this reads as a number; put it in quotes",
    ),
    (PLAIN + "name: other\n", "9: the file's name says 'entry'; leave `name` out or make them equal"),
    (PLAIN + "token_request_auth_method: both\n", "9: token_request_auth_method must be 'basic', 'body', "),
    (PLAIN + "credentials: [apiKey]\n", "9: credentials must be a mapping: `key: value` lines"),
    (PLAIN + "  paginate: {type: pages}\n", "9: proxy.paginate.type must be 'cursor', 'link', 'offset' or 'graphql'"),
    ("- a\n- b\n", "1: an entry must be a mapping: `key: value` lines"),
    ("just text\n", "1: an entry must be a mapping: `key: value` lines"),
    (PLAIN + "<<: {docs: x}\n", "9: unknown key '<<'; merge keys are not supported, write the values out"),
    # names that are valid in another place or under another spelling
    (PLAIN.replace("API_KEY", "APIKEY"), "4: there is no auth mode 'APIKEY'; did you mean 'API_KEY'?"),
    (PLAIN.replace("API_KEY", "TOKEN"), "4: there is no auth mode 'TOKEN'; use one of API_KEY, "),
    (PLAIN + "client_secret: x\n", "9: unknown key 'client_secret'; it belongs to an integration in gateway.yaml"),
    ("acme:\n  display_name: Acme\n", "1: unknown key 'acme'; the fields of an entry begin at the top level. `gateway"),
    (
        OAUTH.replace("jira_post_connection", "jira_post"),
        "10: there is no script 'jira_post'; use one of jira_post_con",
    ),
    (OAUTH.replace("token_url:", "refresh_url:"), "1: token_url is missing; auth_mode OAUTH2 needs it"),
    # URLs
    (
        PLAIN.replace("https://api.example.com/v1", "ftp://api.example.com"),
        "6: proxy.base_url: a URL must begin with https://",
    ),
    (PLAIN.replace("https://api.example.com/v1", "https://"), "6: proxy.base_url: the URL has no host"),
    (PLAIN.replace("https://api.example.com/v1", "https://a@b.example.com"), "6: proxy.base_url: user information"),
    (
        PLAIN.replace("https://api.example.com/v1", "https://api.example.com/#x"),
        "6: proxy.base_url: '#' is not allowed in a URL",
    ),
    (
        PLAIN.replace("https://api.example.com/v1", "https://a\\b.example.com"),
        "6: proxy.base_url: '\\\\' is not allowed in a URL",
    ),
    (PLAIN.replace("https://api.example.com/v1", "https://api.example.com?a=1"), "6: a base URL has no query"),
    (
        PLAIN.replace("https://api.example.com/v1", "https://a_.example.com"),
        "6: proxy.base_url: 'a_.example.com' is not a host name",
    ),
    (
        PLAIN.replace("https://api.example.com/v1", "https://a.example.com:99999"),
        "6: proxy.base_url: '99999' is not a port",
    ),
    (
        PLAIN.replace("https://api.example.com/v1", "https://${now}.example.com"),
        "6: proxy.base_url: functions, ${now} and ${random}",
    ),
    (PLAIN.replace("com/v1", "com/v1/../v2"), "6: proxy.base_url has a segment '.' or '..' in its path"),
    (PLAIN.replace("com/v1", "com/v1/%2E%2e%2fv2"), "6: proxy.base_url has a segment '.' or '..' in its path"),
    (PLAIN + "  verification: {endpoints: [/a/..;x/b]}\n", "9: proxy.verification.endpoints[0] has a segment"),
    (PLAIN.replace("docs: https://docs.example.com", "docs: see the wiki"), "3: docs must be a URL such as"),
    (PLAIN + "homepage: javascript:alert(1)\n", "9: homepage must be a URL"),
    (PLAIN + "  allowed_origins: [https://a.example.com/path]\n", "9: an allowed origin is scheme, host and port only"),
    (PLAIN + "  verification: {endpoints: [me]}\n", "9: an endpoint must be a path below the base URL"),
    (PLAIN + "  allowed_origins: ['https://*.com']\n", "9: '*' stands for one label below a domain of the provider"),
    (
        PLAIN + "  allowed_origins: ['https://a.*.example.com']\n",
        "9: proxy.allowed_origins[0]: 'a.*.example.com' is not a",
    ),
    (
        PLAIN.replace("https://api.ex", "https://*.ex"),
        "6: proxy.base_url has a '*' in its host, which only proxy.allowed_",
    ),
    (PLAIN + "account: {endpoint: me}\n", "9: account.endpoint: a URL must begin with https://"),
    (PLAIN + "account: {endpoint: '/me/${'}\n", "9: account.endpoint: '${' is not closed"),
    (PLAIN + "account: {endpoint: /a/../me}\n", "9: account.endpoint has a segment '.' or '..'"),
    (
        PLAIN + "account: {endpoint: /me, settings: {host: h}}\n",
        "9: there is no setting 'host'; add it to connection_config",
    ),
    (PLAIN + "sunset: {what: ends, source: s, date: soon}\n", "9: sunset.date must match"),
    (PLAIN + "sunset: {what: ends, source: s, date: 2026-02-30}\n", "9: sunset.date: must be a date such as"),
    (PLAIN + "sunset: {what: ends, source: s, date: on 2026-02-03}\n", "9: sunset.date must match"),
    (PLAIN + "evidence: {paging: {level: sourced, date: 2026-13-01}}\n", "9: evidence.paging.date: must be a date"),
    # templates
    (
        PLAIN.replace("${apiKey}", "${callback.state}"),
        "7: ${callback.state} is only available when a callback's code is",
    ),
    (
        OAUTH + "additional_steps: [{url: 'https://a.example.com'}]\ntoken_params: {x: '${step1.x}'}\n",
        "15: ${step1.x} is not known here",
    ),
    (OAUTH + "  headers: {x: '${step1.x}'}\n", "14: ${step1.x} is not known here"),
    (PLAIN.replace("${apiKey}", "${apiKey"), "7: proxy.headers.x-api-key: '${' is not closed; end it with '}'"),
    (
        PLAIN.replace("${apiKey}", "${base64(${apiKey}"),
        "7: proxy.headers.x-api-key: '${base64(' is not closed; end it with ')}'",
    ),
    (
        PLAIN.replace("${apiKey}", "${rot13(${apiKey})}"),
        "7: proxy.headers.x-api-key: unknown function 'rot13'; use one of base64, ",
    ),
    (PLAIN.replace("${apiKey}", "${api key}"), "7: proxy.headers.x-api-key: '${api key}' is not a placeholder"),
    (PLAIN.replace("${apiKey}", "${env.HOME}"), "7: proxy.headers.x-api-key: '${env.HOME}': unknown name 'env'"),
    (
        PLAIN.replace("${apiKey}", "${now+1:fortnight}"),
        "7: proxy.headers.x-api-key: '${now+1:fortnight}': 'fortnight' is not a unit",
    ),
    (
        PLAIN.replace("${apiKey}", "${now+999999:weeks}"),
        "7: proxy.headers.x-api-key: '${now+999999:weeks}' shifts the time by more than 100 years",
    ),
    (
        PLAIN.replace("${apiKey}", "${hmacSha1Hex(${apiKey})}"),
        "7: proxy.headers.x-api-key: hmacSha1Hex takes two arguments",
    ),
    (
        PLAIN.replace("${apiKey}", "${apikey}"),
        "7: ${apikey} is not available in auth_mode API_KEY; this mode has ${apiKey}",
    ),
    (
        PLAIN.replace("${apiKey}", "${apiSecret}"),
        "7: ${apiSecret} is not available in auth_mode API_KEY; this mode has ${apiKey}, or add 'apiSecret' to credentials",
    ),
    (
        PLAIN.replace("${apiKey}", "${credentials.secret}"),
        "7: ${credentials.secret} is not available in auth_mode API_KEY; this mode has ${apiKey}, or add 'secret' to credentials",
    ),
    (PLAIN.replace("${apiKey}", "${body}"), "7: ${body} is not available, so a whole body cannot be signed; ${body"),
    (PLAIN.replace("${apiKey}", "${password}"), "7: ${password} is not available in auth_mode API_KEY"),
    (PLAIN.replace("${apiKey}", "${connectionConfig.x}"), "7: ${connectionConfig.x} has no setting; add 'x'"),
    (PLAIN.replace("${apiKey}", "${apiKey} || ${apiKey}"), "7: templates have no '||'; give the setting a default"),
    (PLAIN.replace("${apiKey}", "a\\nb"), "7: contains a line break"),
    (OAUTH.replace("//auth.example", "//${connectionConfig.x}.example", 1), "5: ${connectionConfig.x} has no setting"),
    # header fields
    (PLAIN.replace("x-api-key", "x api key"), "7: 'x api key' is not a valid name of a header field"),
    (PLAIN.replace("x-api-key", "Host"), "7: Host cannot be set by an entry"),
    (PLAIN.replace('"}', '", X-Api-Key: b}').replace('${apiKey", X-', '${apiKey}", X-'), "7: X-Api-Key is given twice"),
    # settings
    (PLAIN + FORM + "    pattern: '['\n", "11: the pattern is not a regular expression"),
    (PLAIN + FORM + "    pattern: '[a-z]+'\n    default_value: A1\n", "12: default_value does not fit its own setting"),
    (PLAIN + FORM + "    format: hostname\n    example: a b\n", "12: example does not fit its own setting"),
    (PLAIN + FORM + "    enum: []\n", "11: an enum without values allows nothing"),
    (PLAIN + FORM + "    optoinal: true\n", "11: unknown key 'optoinal'; did you mean 'optional'?"),
    (PLAIN + "connection_config: {'a b': {}}\n", "9: 'a b' cannot name a setting"),
    (PLAIN + "connection_configuration: [a, a]\n", "9: 'a' is given twice"),
    (PLAIN + "  retry: {error_code: [often]}\n", "9: 'often' is not a status; write 429, 5xx or 500-502"),
    # not YAML
    ("display_name: [a\n", "1: not YAML: the [ is not closed; write ]"),
    ("categories: [${X}]\n", "1: not YAML: quote ${…} inside [ ] and { }"),
    ("a: b: c\n", "1: not YAML: a second ': ' in one line"),
    ("a: *b\n", "1: an alias to an undefined anchor"),
    ("a: 1\n---\nb: 2\n", "2: a second YAML document"),
    ("a: \x01\n", "1: a control character, which YAML does not allow"),
    ("a: !!python/object/apply:os.system [id]\n", "1: a tag, which is not allowed here"),
    ("a: !secret x\n", "1: a tag, which is not allowed here; quote a value that begins with !"),
    ("? [a, b]\n: c\n", "1: a key must be plain text"),
    ("a: &a [*a]\n", "1: an alias to a value that contains the alias"),
    ("", "1: is empty; write display_name"),
    ("# only a comment\n", "1: is empty; write display_name"),
    (PLAIN.encode() + b"homepage: \xff\n", "9: not UTF-8; save the file in that encoding"),
    (b"#" * 300_000, "1: is larger than 256 KiB"),
]


@pytest.mark.parametrize(("text", "result"), CASES)
def test_a_fault_is_reported_with_its_line(tmp_path: Path, text: str | bytes, result: str) -> None:
    found = faults(tmp_path, text)
    assert any(fault.startswith(result) for fault in found), found


def test_yaml_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert "more than 20,000 values once aliases are filled in" in faults(tmp_path, text)[0]


def test_deeply_nested_yaml_aliases_are_refused(tmp_path: Path) -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 100))
    assert faults(tmp_path, text)[0].endswith("nested more than 64 levels deep")


@pytest.mark.parametrize(("written", "value"), [("no", "no"), ("On", "On"), ("true", True), ("0123", "0123"), ("7", 7)])
def test_yaml_1_1_words_stay_text(tmp_path: Path, written: str, value: object) -> None:
    (tmp_path / "a.yaml").write_text(f"a: {written}\n<<: b\n")
    assert read_yaml(tmp_path / "a.yaml").value == {"a": value, "<<": "b"}


def test_a_name_that_is_not_valid_in_a_url_is_refused(tmp_path: Path) -> None:
    assert "cannot name a provider" in faults(tmp_path, PLAIN, "my tracker.yaml")[0]


def test_faults_of_one_file_are_in_the_order_of_lines(tmp_path: Path) -> None:
    text = PLAIN.replace("API_KEY", "APIKEY").replace("docs: https://docs.example.com", "docs: no").replace("/v1", "#")
    assert [fault.partition(":")[0] for fault in faults(tmp_path, text)] == ["3", "4", "6"]


def test_words_that_yaml_1_1_converts_stay_text(tmp_path: Path) -> None:
    text = PLAIN.replace('{x-api-key: "${apiKey}"}', "{x-api-key: '${apiKey}', x-version: 2022-06-28, x-ads: no}")
    assert faults(tmp_path, text) == []
    provider = load_catalog([tmp_path]).get("entry")
    assert provider is not None
    assert provider.proxy.headers["x-version"] == "2022-06-28"
    assert provider.proxy.headers["x-ads"] == "no"


def test_json_a_byte_order_mark_and_numeric_statuses_are_accepted(tmp_path: Path) -> None:
    text = (
        '\ufeff{"display_name": "J", "categories": ["crm"], "docs": "https://d.example.com", "auth_mode": "BASIC",'
        ' "proxy": {"base_url": "http://127.0.0.1:9900", "retry": {"error_code": [429, "5xx"]}}}'
    )
    assert faults(tmp_path, text) == []
    provider = load_catalog([tmp_path]).get("entry")
    assert provider is not None
    assert provider.proxy.retry is not None
    assert provider.proxy.retry.error_code == ["429", "5xx"]


def test_nangos_script_names_are_accepted_and_shown_as_ours(tmp_path: Path) -> None:
    camel = OAUTH.replace("jira_post_connection", "jiraPostConnection")
    assert faults(tmp_path, camel.replace("jira_webhook_routing", "jiraWebhookRouting")) == []
    shown = load_catalog([tmp_path]).provider_json("entry", "")
    assert (shown["post_connection_script"], shown["webhook_routing_script"]) == (
        "jira_post_connection",
        "jira_webhook_routing",
    )


def test_values_captured_when_connecting_count_as_settings(tmp_path: Path) -> None:
    text = OAUTH.replace("//api.example.com", "//${connectionConfig.team.host}.example.com")
    assert "has no setting" in faults(tmp_path, text)[0]
    assert faults(tmp_path, text + "token_response_metadata: [team.host]\n") == []


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    line=st.integers(0, 12),
    junk=st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(["${", "&a *a", "!!x", "{[", "? :"]),
)
def test_random_text_in_a_file_does_not_crash_the_loader(tmp_path: Path, line: int, junk: str) -> None:
    lines = OAUTH.splitlines()
    lines.insert(line, junk)
    found = faults(tmp_path, "\n".join(lines))
    assert all(fault.partition(":")[0].isdigit() for fault in found), "each names its line"


def test_faults_of_shape_do_not_hide_those_of_placeholders(tmp_path: Path) -> None:
    text = PLAIN.replace("decompress: true", "decompress: perhaps").replace("${apiKey}", "${password}")
    found = faults(tmp_path, text.replace("docs:", "docs: []\n#"))
    assert [fault.partition(":")[0] for fault in found] == ["3", "8", "9"]
    assert found[1].startswith("8: ${password} is not available in auth_mode API_KEY")


def test_faulty_file_that_is_removed_while_it_is_read_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removing(path: Path) -> CatalogDocument:
        document = read_yaml(path)
        path.unlink()
        return document

    monkeypatch.setattr(folder, "read_yaml", removing)
    assert faults(tmp_path, PLAIN + "proxxy: 1\n") == ["1: cannot be read: No such file or directory"]


def test_a_misspelt_key_does_not_make_its_placeholders_look_wrong(tmp_path: Path) -> None:
    text = PLAIN.replace("${apiKey}", "${apiKey}${connectionConfig.x}") + "connection_confg: {x: {}}\n"
    assert len(faults(tmp_path, text)) == 1
