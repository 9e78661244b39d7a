"""A valid configuration: its defaults, the formats of its values, and its paths."""

import base64
from dataclasses import MISSING, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from gateway.config import AllowedNetwork, Config, Faults, load, parse
from gateway.config.config_shape import IntegrationShape
from gateway.records.integration import Integration
from gateway.secret import Secret

RAW = bytes(range(200, 232))
KEY = base64.b64encode(RAW).decode()
URL_SAFE = base64.urlsafe_b64encode(RAW).decode()


def config(**sections: Any) -> Config:
    return parse({"store": {"encryption_keys": [KEY]}, **sections}, base=Path("/srv/gateway"), environ={})


def test_configuration_needs_only_an_encryption_key() -> None:
    loaded = config()
    assert (loaded.server.host, loaded.server.port, loaded.server.workers) == ("127.0.0.1", 3003, 1)
    assert loaded.server.public_url == "http://127.0.0.1:3003"
    assert loaded.callback_url == "http://127.0.0.1:3003/oauth/callback"
    assert loaded.store.url == "sqlite:////srv/gateway/gateway.db"
    assert loaded.live.ttl_s == 300
    assert (loaded.catalog, dict(loaded.environments), loaded.egress.allow, loaded.egress.proxy) == ((), {}, (), None)
    assert loaded.path is None


def test_relative_paths_start_from_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf" / "mine").mkdir(parents=True)
    (tmp_path / "conf" / "key").write_text(KEY + "\n")
    text = "store: {encryption_keys: ['${file:key}'], url: 'sqlite:///data/x.db'}\ncatalog: [mine, ../conf/mine]\n"
    (tmp_path / "conf" / "gateway.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    loaded = load(Path("conf/gateway.yaml"), environ={})
    assert loaded.store.url == f"sqlite:///{tmp_path}/conf/data/x.db"
    assert loaded.catalog == (tmp_path / "conf" / "mine",) * 2
    assert loaded.path == tmp_path / "conf" / "gateway.yaml"
    assert loaded.file_and_line("catalog", "0") == "conf/gateway.yaml:2"


@pytest.mark.parametrize("null", [None, {}, {"secret_keys": None, "integrations": None}])
def test_key_without_a_value_has_its_default(null: Any) -> None:
    loaded = config(environments={"dev": null}, server=None, catalog=None, egress={"allow": None})
    assert loaded.environments["dev"].secret_keys == ()
    assert loaded.environments["dev"].integrations == {}


@pytest.mark.parametrize(
    "spelled",
    [KEY, KEY.rstrip("="), URL_SAFE, URL_SAFE.rstrip("="), f" {KEY}\n"],
)
def test_encryption_key_may_be_in_any_variant_of_base64(spelled: str) -> None:
    assert config(store={"encryption_keys": [spelled]}).store.encryption_keys == (Secret(KEY),)


def test_secrets_are_hidden_wherever_a_configuration_is_shown() -> None:
    loaded = config(
        store={"encryption_keys": [KEY], "url": "postgresql://u:database-password@h/d"},
        environments={
            "dev": {
                "secret_keys": ["a-secret-key-of-dev"],
                "webhook_signing_key": "a-webhook-signing-key",
                "integrations": {"jira": {"client_id": "id", "client_secret": "client-secret"}},
            }
        },
        egress={"proxy": "http://u:proxy-password@proxy:8080"},
    )
    for secret in (KEY, "database-password", "a-secret-key", "a-webhook", "client-secret", "proxy-password"):
        assert secret not in repr(loaded)
    client_secret = loaded.environments["dev"].integrations["jira"].client_secret
    assert client_secret == Secret("client-secret")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://gw.example.com", "https://gw.example.com"),
        ("https://gw.example.com/", "https://gw.example.com"),
        ("HTTPS://GW.Example.com:8443/gateway/", "https://gw.example.com:8443/gateway"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ("http://127.0.0.1:65535/", "http://127.0.0.1:65535"),
        ("http://localhost:3003", "http://localhost:3003"),
        ("http://app.localhost", "http://app.localhost"),
        ("http://[::1]:3003", "http://[::1]:3003"),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_public_url_is_https_or_loopback(value: str, expected: str, host: str) -> None:
    assert config(server={"host": host, "public_url": value}).server.public_url == expected


@pytest.mark.parametrize(
    ("host", "url"),
    [("localhost", "http://localhost:8"), ("::1", "http://[::1]:8"), ("127.1.2.3", "http://127.1.2.3:8")],
)
def test_a_loopback_host_is_its_own_public_url(host: str, url: str) -> None:
    assert config(server={"host": host, "port": 8}).server.public_url == url


def test_port_0_is_replaced_by_the_port_that_the_system_chose() -> None:
    assert config(server={"port": 0}).at_port(4711).server.public_url == "http://127.0.0.1:4711"
    loaded = config(server={"port": 0, "public_url": "https://gw.example.com"}).at_port(4711)
    assert (loaded.server.port, loaded.server.public_url) == (4711, "https://gw.example.com")


@pytest.mark.parametrize(
    ("text", "network", "port"),
    [
        ("10.0.0.0/8", "10.0.0.0/8", None),
        ("127.0.0.1/32:9900", "127.0.0.1/32", 9900),
        ("127.0.0.1", "127.0.0.1/32", None),
        ("127.0.0.1:9900", "127.0.0.1/32", 9900),
        ("::1", "::1/128", None),
        ("::1/128", "::1/128", None),
        ("::1/128:9900", "::1/128", 9900),
        ("[::1/128]:9900", "::1/128", 9900),
        ("[::1]:9900", "::1/128", 9900),
        ("fd00::/8", "fd00::/8", None),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1/128", None),
    ],
)
def test_a_network_may_be_allowed_with_or_without_a_port(text: str, network: str, port: int | None) -> None:
    assert config(egress={"allow": [text]}).egress.allow == (AllowedNetwork(ip_network(network), port),)


@pytest.mark.parametrize("text", ["::1:9900:", "[::1", "::1]", "[10.0.0.0/8", "10.0.0.0/8/8", "1::2::3", ""])
def test_ambiguous_network_is_refused(text: str) -> None:
    with pytest.raises(Exception, match=r"egress\.allow\[0\]"):
        config(egress={"allow": [text]})


def test_an_allowed_host_is_in_lower_case_and_has_no_default_port() -> None:
    hosts = ["GIT.example.com", "git.example.com:443", "git.example.com:8443", "*.Example.com", "[::1]:99"]
    loaded = config(environments={"dev": {"integrations": {"a": {"allowed_hosts": hosts}}}})
    expected = ("git.example.com", "git.example.com:8443", "*.example.com", "[::1]:99")
    assert loaded.environments["dev"].integrations["a"].allowed_hosts == expected


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://API.example.com", "https://api.example.com:443"),
        ("https://api.example.com/", "https://api.example.com:443"),
        ("https://api.example.com:8443", "https://api.example.com:8443"),
        ("http://127.0.0.1:9900", "http://127.0.0.1:9900"),
        ("http://[::1]", "http://[::1]:80"),
    ],
)
def test_an_allowed_origin_spells_out_its_port(text: str, origin: str) -> None:
    loaded = config(environments={"dev": {"integrations": {"a": {"allowed_origins": [text]}}}})
    assert loaded.environments["dev"].integrations["a"].allowed_origins == (origin,)


def test_provider_defaults_to_the_name_of_the_integration() -> None:
    loaded = config(environments={"dev": {"integrations": {"openai": {}, "mine": {"provider": "jira"}}}})
    assert {key: it.provider for key, it in loaded.environments["dev"].integrations.items()} == {
        "openai": "openai",
        "mine": "jira",
    }


@pytest.mark.parametrize(("value", "expected"), [(None, None), ([], ()), (["a", "b"], ("a", "b"))])
def test_empty_scopes_differ_from_absent_scopes(value: Any, expected: Any) -> None:
    loaded = config(environments={"dev": {"integrations": {"jira": {"scopes": value}}}})
    assert loaded.environments["dev"].integrations["jira"].scopes == expected


def test_references_may_be_numbers_booleans_and_null(tmp_path: Path) -> None:
    text = """\
server: {port: "${PORT:-3003}", drain_s: "${DRAIN}", admin_port: "${ADMIN:-}"}
store: {encryption_keys: ["${NEW}", "${OLD:-}"]}
environments: {dev: {integrations: {jira: {forward_set_cookie: "${COOKIES}", client_id: "${ID:-}"}}}}
"""
    (tmp_path / "gateway.yaml").write_text(text)
    loaded = load(tmp_path / "gateway.yaml", environ={"DRAIN": "1.5", "NEW": KEY, "COOKIES": "true"})
    assert (loaded.server.port, loaded.server.drain_s, loaded.server.admin_port) == (3003, 1.5, None)
    assert loaded.store.encryption_keys == (Secret(KEY),)
    jira = loaded.environments["dev"].integrations["jira"]
    assert (jira.forward_set_cookie, jira.client_id) == (True, None)


def test_json_syntax_and_a_byte_order_mark_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "gateway.json").write_bytes(b'\xef\xbb\xbf{"store": {"encryption_keys": ["' + KEY.encode() + b'"]}}')
    assert load(tmp_path / "gateway.json", environ={}).server.port == 3003


def test_top_level_keys_with_x_are_ignored_and_can_define_anchors(tmp_path: Path) -> None:
    text = "x-jira: &jira {provider: jira, client_id: '${ID}'}\nenvironments:\n"
    text += "  dev: {integrations: {jira: *jira}}\n  prod: {integrations: {jira: {<<: *jira, display_name: Tracker}}}\n"
    (tmp_path / "gateway.yaml").write_text(text + f"store: {{encryption_keys: [{KEY}]}}\n")
    loaded = load(tmp_path / "gateway.yaml", environ={"ID": "abc"})
    assert loaded.environments["prod"].integrations["jira"].display_name == "Tracker"
    assert loaded.environments["dev"].integrations["jira"].client_id == "abc"


def test_a_configuration_from_python_can_contain_paths_tuples_and_secrets(tmp_path: Path) -> None:
    loaded = parse({"store": {"encryption_keys": (Secret(KEY),)}, "catalog": (tmp_path,)}, base=Path.cwd(), environ={})
    assert loaded.catalog == (tmp_path,)
    assert loaded.store.encryption_keys == (Secret(KEY),)


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        ({"server": {"port": 10**5000}}, "server.port: must be 65535 or less"),
        ({"server": {10**5000: 1}}, "configuration: has a number of more than 4,300 digits as a key"),
    ],
)
def test_number_too_long_for_a_text_is_a_fault(sections: dict[str, Any], fault: str) -> None:
    with pytest.raises(Faults) as found:
        config(**sections)
    assert str(found.value) == fault


def test_parsed_mapping_is_not_modified() -> None:
    values = {"store": {"encryption_keys": ["${KEY}"]}, "server": None}
    parse(values, base=Path("/"), environ={"KEY": KEY})
    assert values == {"store": {"encryption_keys": ["${KEY}"]}, "server": None}


def test_integration_shape_has_the_keys_and_defaults_of_the_record() -> None:
    written = IntegrationShape.model_fields
    record = {field.name: field.default for field in fields(Integration)}
    of_the_gateway = {"environment", "integration_id", "custom", "managed_row"}
    assert set(written) == set(record) - of_the_gateway
    defaults = {name: tuple(key.default) if key.default == [] else key.default for name, key in written.items()}
    assert {**defaults, "provider": MISSING} == {name: record[name] for name in written}


def test_console_url_is_the_public_url_or_that_of_the_consoles_own_port() -> None:
    public = {"host": "0.0.0.0", "public_url": "https://gw.example.com"}
    assert config(server=public).console_url == "https://gw.example.com"
    own = config(server={"port": 0}, console={"port": 0})
    assert own.at_port(4711, 4712).console_url == "http://127.0.0.1:4712"
    loaded = config(server=public, console={"port": 3005, "public_url": "https://console.example.com"})
    assert (loaded.console_url, loaded.console_host) == ("https://console.example.com", "0.0.0.0")
    local = config(server=public, console={"port": 3005, "host": "127.0.0.1"})
    assert local.console_url == "http://127.0.0.1:3005"


@pytest.mark.parametrize("reference", ["${file:encryption_key}", "${NOT_SET}"])
def test_missing_encryption_key_with_an_existing_database_advises_to_restore_it(tmp_path: Path, reference: str) -> None:
    values = {"store": {"encryption_keys": [reference]}}
    advice = f"{tmp_path}/gateway.db cannot be read without its encryption key: restore the key"
    with pytest.raises(Faults) as before:
        parse(values, base=tmp_path, environ={})
    assert "cannot be read without" not in str(before.value)
    (tmp_path / "gateway.db").touch()
    with pytest.raises(Faults) as after:
        parse(values, base=tmp_path, environ={})
    assert str(after.value) == f"{before.value}; {advice}"


def test_client_secret_whose_file_is_empty_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("\n")
    integration = {"client_secret": "${file:secret}", "webhook_secret": "${file:secret}"}
    values = {"store": {"encryption_keys": [KEY]}, "environments": {"dev": {"integrations": {"a": integration}}}}
    with pytest.raises(Faults) as refusal:
        parse(values, base=tmp_path, environ={})
    assert str(refusal.value) == (
        "environments.dev.integrations.a.client_secret: is empty; write the secret into the file, or leave the key out "
        "(it came from ${file:secret})"
    )


@pytest.mark.parametrize(
    ("former", "result"),
    [
        ({}, (False, 3, None)),
        ({"enabled": None, "keep_days": None, "max_rows": None}, (False, 3, None)),
        ({"enabled": True}, (True, 3, None)),
        ({"keep_days": 2}, (False, 2, None)),
        ({"max_rows": 1000}, (False, 3, 1000)),
    ],
)
def test_key_of_the_former_section_request_log_wins_over_call_log(
    former: dict[str, Any], result: tuple[bool, float, int | None]
) -> None:
    section = {"enabled": False, "keep_days": 3, "max_bytes": 32 << 20, "sample": 0.5}
    loaded = config(call_log=section, request_log=former).call_log
    assert (loaded.enabled, loaded.keep_days, loaded.max_rows) == result
    assert (loaded.max_bytes, loaded.sample) == (32 << 20, 0.5)


def test_checkpoint_file_is_relative_to_the_configuration() -> None:
    assert config(audit={"checkpoint_file": "../audit.jsonl"}).audit.checkpoint_file == Path("/srv/audit.jsonl")
    assert config().audit.checkpoint_file is None
