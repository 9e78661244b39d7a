"""All faults of a configuration are reported together, each with its line."""

from pathlib import Path

import pytest

from gateway.config import Faults, load, parse

KEY = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="
ENVIRON = {
    "KEY": KEY,
    "SECRET": "a-secret-key-of-dev",
    "SHORT": "tiny-secret",
    "EMPTY": "",
    "PORT": "eighty",
    "WIDE": "a b",
}
STORE = "store: {encryption_keys: ['${KEY}']}\n"


def faults(tmp_path: Path, text: str | bytes) -> list[str]:
    """Return the lines of all faults of `text`, without the folder."""
    file = tmp_path / "gateway.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Faults) as caught:
        load(file, environ=ENVIRON)
    lines = str(caught.value).split("\n")
    assert len(lines) == len(caught.value.faults), "a fault is one line"
    return [line.removeprefix(f"{tmp_path}/") for line in lines]


# The document after the store's line, the line of the fault, and a part of its message.
TABLE = [
    ("server: {prot: 1}", 2, "server.prot: is not a known key; did you mean 'port'?"),
    ("servers: {}", 2, "servers: is not a known key; did you mean 'server'?"),
    ("public_url: https://x.example", 2, "public_url: is not known here; it belongs under server"),
    ("nonsense: 1", 2, "known here: server, live, store, catalog, environments, egress"),
    ("server:\n  host: 127.0.0.1\n  publicUrl: x", 4, "did you mean 'public_url'?"),
    ("server: []", 2, "server: must be a mapping: `key: value` lines"),
    ("server: text", 2, "server: must be a mapping: `key: value` lines"),
    ("server:\n  port: 3003\n\thost: x", 4, "; indent with spaces, not tabs"),
    ("server:\n  port: eighty", 3, "server.port: must be a whole number, not 'eighty'"),
    ("server:\n  port: ${PORT}", 3, "server.port: must be a whole number (it came from ${PORT})"),
    ("server: {drain_s: 10s}", 2, "server.drain_s: must be a number of seconds, not '10s'"),
    ("server: {drain_s: -1}", 2, "server.drain_s: must be 0 or more, not -1"),
    ("server: {workers: 2.5}", 2, "server.workers: must be a whole number, not 2.5"),
    ("server: {port: 65536}", 2, "server.port: must be 65535 or less"),
    ("server: {port: -1}", 2, "server.port: must be 0 or more"),
    ("server: {port: 1.5}", 2, "server.port: must be a whole number"),
    ("server: {port: yes}", 2, "server.port: must be a number, and this is a boolean"),
    ("server: {port: [1]}", 2, "server.port: must be a whole number, not a list"),
    ("server: {port: {a: 1}}", 2, "server.port: must be a whole number, not a mapping"),
    ("console: {enabled: maybe}", 2, "console.enabled: must be true or false, not 'maybe'"),
    ("console: {enabled: []}", 2, "console.enabled: must be true or false, not a list"),
    ("server: {port: 99999999999999999999999}", 2, "server.port: must be"),
    ("server: {admin_port: 3003}", 2, "server.admin_port: is the same as server.port"),
    ("console: {port: 3003}", 2, "console.port: is the same as server.port"),
    ("console: {host: 127.0.0.1}", 2, "console.host: is where console.port listens"),
    (
        "console: {port: 3005, host: 0.0.0.0}",
        2,
        "console.public_url: is required since console.port listens on 0.0.0.0",
    ),
    ("server: {drain_s: .inf}", 2, "server.drain_s: must be"),
    ("server: {drain_s: soon}", 2, "server.drain_s: must be a number"),
    ("server: {workers: 0}", 2, "server.workers: must be 1 or more"),
    ("server: {host: 0.0.0.0}", 2, "server.public_url: is required since server.host (0.0.0.0) is not loopback"),
    ("server: {host: gw.internal}", 2, "server.public_url: is required"),
    ("server: {host: '[::1]'}", 2, "server.host: write an IPv6 address without brackets"),
    ("server: {host: 'http://x'}", 2, "server.host: must be a host name or an IP address"),
    ("server: {host: 127.0.0.999}", 2, "server.host: must be a host name or an IP address"),
    ("server: {host: ''}", 2, "server.host: must not be empty"),
    (
        "server: {public_url: 'http://gw.example.com'}",
        2,
        "server.public_url: must be https, unless its host is loopback",
    ),
    ("server: {public_url: gw.example.com}", 2, "such as https://host.example, with https:// at its beginning"),
    ("server: {public_url: 'ftp://gw.example.com'}", 2, "server.public_url: must be a URL such as"),
    (
        "server: {public_url: 'https://gw.example.com/?a=1'}",
        2,
        "server.public_url: must not have a query or a fragment",
    ),
    ("server: {public_url: 'https://gw.example.com/#x'}", 2, "server.public_url: must not have a query or a fragment"),
    ("server: {public_url: 'https://u:p@gw.example.com'}", 2, "server.public_url: must not hold a user name"),
    ("server: {public_url: 'https://gw.example.com/a/../b'}", 2, "server.public_url: has a path other than"),
    ("server: {public_url: 'https://gw.example.com:99999'}", 2, "server.public_url: must be a URL"),
    ("server: {public_url: 'https://'}", 2, "server.public_url: must be a URL"),
    ("server: {public_url: 'https://a b'}", 2, "server.public_url: must be a URL"),
    ("server: {websocket_path: ws}", 2, "server.websocket_path: must be a path"),
    ("live: {ttl_s: 0}", 2, "live.ttl_s: must be more than 0"),
    ("live: {max_connections: many}", 2, "live.max_connections: must be a whole number"),
    ("catalog: mine", 2, "catalog: must be a list"),
    ("catalog:\n  - nowhere", 3, "catalog[0]: there is no folder"),
    ("catalog: [gateway.yaml]", 2, "gateway.yaml is not a folder"),
    (f"catalog: [{'a' * 300}]", 2, "catalog[0]: there is no folder"),
    (f"branding: {{logo: {'a' * 300}.png}}", 2, "branding.logo: there is no file"),
    ("environments: [dev]", 2, "environments: must be a mapping: `key"),
    ("environments:\n  Dev: {}", 3, "environments.Dev: an environment's name is made of a-z"),
    ("environments: {dev: {secret_key: x}}", 2, "did you mean 'secret_keys'?"),
    ("environments: {dev: {secret_keys: x}}", 2, "environments.dev.secret_keys: must be a list"),
    (
        "environments:\n  dev:\n    secret_keys:\n      - '${SECRET}'\n      - short",
        6,
        "secret_keys[1]: is 5 characters",
    ),
    ("environments: {dev: {secret_keys: ['${SHORT}']}}", 2, "must be 16 or more; `openssl rand -hex 32` makes one"),
    ("environments: {dev: {secret_keys: ['0123456789 abcdef']}}", 2, "a character that a header cannot carry"),
    ("environments: {dev: {secret_keys: ['0123456789äabcdef']}}", 2, "a character that a header cannot carry"),
    ("environments: {dev: {secret_keys: [12345678901234567]}}", 2, "reads as a number; put it in quotes"),
    ("environments: {dev: {secret_keys: ['${EMPTY}']}}", 2, "secret_keys[0]: is empty; `openssl rand -hex 32` makes"),
    ("environments: {dev: {secret_keys: [on]}}", 2, "reads as a boolean; put it in quotes"),
    ("environments: {dev: {secret_keys: [{a: b}]}}", 2, "must be text, not a mapping"),
    (
        "environments:\n  dev: {secret_keys: ['${SECRET}']}\n  prod: {secret_keys: ['${SECRET}']}",
        4,
        "environments.prod.secret_keys[0]: is also a secret key of environment 'dev'",
    ),
    ("environments: {dev: {webhook_url: nowhere}}", 2, "webhook_url: must be a URL"),
    ("environments: {dev: {webhook_signing_key: short}}", 2, "webhook_signing_key: is 5 characters"),
    ("environments: {dev: {integrations: {'a/b': {}}}}", 2, "an integration's name is made of letters"),
    ("environments: {dev: {integrations: {a: {provider: 5}}}}", 2, "integrations.a.provider: must be text"),
    ("environments: {dev: {integrations: {a: {client_id: ''}}}}", 2, "client_id: must not be empty; leave the key out"),
    (
        'environments: {dev: {integrations: {a: {client_secret: "x\\n"}}}}',
        2,
        "client_secret: contains a line break, a space",
    ),
    ("environments: {dev: {integrations: {a: {scopes: a b}}}}", 2, "scopes: must be a list"),
    ("environments: {dev: {integrations: {a: {scopes: ['${WIDE}']}}}}", 2, "scopes[0]: is not one scope"),
    ("environments: {dev: {integrations: {a: {scope: [x]}}}}", 2, "did you mean 'scopes'?"),
    ("environments: {dev: {integrations: {a: {allowed_origins: ['https://x.example/p']}}}}", 2, "must be an origin"),
    ("environments: {dev: {integrations: {a: {allowed_origins: ['*']}}}}", 2, "must be a URL such as https://"),
    (
        "environments: {dev: {integrations: {a: {allowed_hosts: ['https://x.example']}}}}",
        2,
        "must be a host such as git.",
    ),
    ("environments: {dev: {integrations: {a: {allowed_hosts: [x.example/p]}}}}", 2, "must be a host such as git."),
    ("environments: {dev: {integrations: {a: {allowed_hosts: ['*']}}}}", 2, "must be a host such as git."),
    ("environments: {dev: {integrations: {a: {allowed_hosts: ['*.com']}}}}", 2, "a * that covers too much"),
    ("environments: {dev: {integrations: {a: {allowed_hosts: ['*.co.uk']}}}}", 2, "a * that covers too much"),
    ("environments: {dev: {integrations: {a: {forward_set_cookie: 2}}}}", 2, "must be true or false"),
    ("environments: {dev: {integrations: {a: {forward_set_cookie: 'yes'}}}}", 2, "must be true or false"),
    ("environments: {dev: {integrations: {a: {site_selection: pick}}}}", 2, "must be 'match' or 'ask'"),
    (
        "environments:\n  dev:\n    integrations:\n      jira: {}\n      jira: {}",
        6,
        "environments.dev.integrations: 'jira' is given twice, first in line 5; keep one",
    ),
    (
        "egress: {allow: [10.0.0.1/8]}",
        2,
        "egress.allow[0]: has bits set past its prefix; the network is 10.0.0.0/8, not '10.0.0.1/8'",
    ),
    (
        "egress: {allow: [localhost]}",
        2,
        "must be a network, CIDR or CIDR:port, such as 127.0.0.1/32:9900 or [::1/128]:9900, not 'localhost'",
    ),
    (
        "egress: {allow: ['127.0.0.1/32:0']}",
        2,
        "egress.allow[0]: must have a port from 1 to 65535, not '127.0.0.1/32:0'",
    ),
    ("egress: {allow: ['127.0.0.1/33']}", 2, "such as 127.0.0.1/32:9900, not '127.0.0.1/33'"),
    ("egress: {allow: ['::1:9900:']}", 2, "egress.allow[0]: must be a network"),
    ("console: {identity_headers: {trusted_proxies: [10.0.0.300]}}", 2, "such as 127.0.0.1/32:9900, not '10.0.0.300'"),
    ("egress: {allow: 127.0.0.1/32}", 2, "egress.allow: must be a list"),
    ("egress: {proxy: 'https://proxy:1'}", 2, "egress.proxy: must be a URL such as http://"),
    ("egress: {proxy: 'http://proxy'}", 2, "egress.proxy: must be http://host:port"),
    ("server:\n  host: ${NOT_SET}", 3, "server.host: ${NOT_SET} is not set in the environment; export NOT_SET"),
    ("server:\n  host: ${file:nothing}", 3, "server.host: ${file:nothing} cannot be read"),
    ("server:\n  host: ${file:.}", 3, "server.host: ${file:.} cannot be read"),
    ("server:\n  host: ${file:}", 3, "names no file"),
    ("server:\n  host: ${1X}", 3, "a ${…} of no known form; write ${NAME}"),
    ("server:\n  host: '${NAME'", 3, "a '${' without its '}'"),
    ("server:\n  host: '${A:-${B}}'", 3, "the default of ${A} contains another"),
]


@pytest.mark.parametrize(("text", "line", "message"), TABLE, ids=[text[:60].replace("\n", "⏎") for text, _, _ in TABLE])
def test_fault_is_reported_with_its_line_and_how_to_fix_it(tmp_path: Path, text: str, line: int, message: str) -> None:
    [messages] = faults(tmp_path, STORE + text)
    assert messages.startswith(f"gateway.yaml:{line}: ")
    assert message in messages


STORES = [
    ("{}", 1, "store.encryption_keys: is required"),
    ("store:\n", 1, "store.encryption_keys: is required"),
    ("server: {}\nstore:\n  encryption_keys: []", 3, "store.encryption_keys: is required"),
    ("store: {encryption_keys: ['${EMPTY:-}']}", 1, "store.encryption_keys: is required"),
    ("store: {encryption_keys: ['${EMPTY}']}", 1, "is 0 bytes once decoded and must be 32"),
    ("store: {encryption_keys: [c2hvcnQ]}", 1, "is 5 bytes once decoded and must be 32"),
    ("store: {encryption_keys: ['not base64!']}", 1, "store.encryption_keys[0]: is not base64"),
    ("store: {encryption_keys: '${KEY}'}", 1, "store.encryption_keys: must be a list"),
    ("store: {encryption_key: x}", 1, "did you mean 'encryption_keys'?"),
    ("store: {url: gateway.db, encryption_keys: ['${KEY}']}", 1, "store.url: must be sqlite:///gateway.db or"),
    ("store: {url: 'sqlite://gateway.db', encryption_keys: ['${KEY}']}", 1, "must have three slashes"),
    ("store: {url: 'sqlite://', encryption_keys: ['${KEY}']}", 1, "must have three slashes"),
    ("store: {url: 'sqlite:///:memory:', encryption_keys: ['${KEY}']}", 1, "names no file"),
    ("store: {url: 'sqlite:///a?mode=ro', encryption_keys: ['${KEY}']}", 1, "must be a plain path"),
    ("store: {url: 'postgres://h/d', encryption_keys: ['${KEY}']}", 1, "write postgresql://"),
    ("store: {url: 'postgresql://u:p@h', encryption_keys: ['${KEY}']}", 1, "names no database"),
]


@pytest.mark.parametrize(("text", "line", "message"), STORES)
def test_the_store_is_checked_before_it_is_opened(tmp_path: Path, text: str, line: int, message: str) -> None:
    messages = faults(tmp_path, text)
    assert any(item.startswith(f"gateway.yaml:{line}: ") and message in item for item in messages)


UNREADABLE = [
    (b"", "gateway.yaml:1: the file is empty"),
    (b"# only a comment\n", "gateway.yaml:1: the file is empty"),
    (b"- a\n- b\n", "gateway.yaml:1: a configuration is a mapping"),
    (b"text", "gateway.yaml:1: a configuration is a mapping"),
    (b"store:\n  url: [1\nlive: {}\n", "gateway.yaml:2: not YAML: the [ is not closed; write ], or a comma between"),
    (b"live: {ttl_s: 1\nstore: {}\n", "gateway.yaml:1: not YAML: the { is not closed; write }"),
    (b"store:\n  encryption_keys: [${KEY}]\n", "gateway.yaml:2: not YAML: quote ${…} inside [ ] and { }"),
    (b"live: {ttl_s: ${TTL}}\n", "gateway.yaml:1: not YAML: quote ${…} inside [ ] and { }"),
    (b"store:\n\turl: x\n", "gateway.yaml:2: not YAML: a tab; indent with spaces, not tabs"),
    (b"live:\n  ttl_s: 1\n\ttrust_s: 2\n", "gateway.yaml:3: not YAML: a tab; indent with spaces, not tabs"),
    (b"live:\n  ttl_s: @1\n", "gateway.yaml:2: not YAML: a value cannot begin with this character; quote a value"),
    (b"live:\n  ttl_s: 1\n trust_s: 2\n", "gateway.yaml:3: not YAML: the indentation matches no line above; the keys"),
    (b"live:\n  ttl_s: 1\n   trust_s: 2\n", "gateway.yaml:3: not YAML: the line is indented deeper than line 2, which"),
    (
        b"environments:\n  dev\n    secret_keys: [a]\n",
        "gateway.yaml:2: not YAML: the line is not 'key: value'; write a",
    ),
    (b"server:\n  port:3003\n  host: x\n", "gateway.yaml:2: not YAML: the line is not 'key: value'; write a colon and"),
    (b"server:\n  host: x\n  port:3003\nlive: {}\n", "gateway.yaml:3: not YAML: the line is not 'key: value'"),
    (b"branding:\n  name: Acme: CRM\n", "gateway.yaml:2: not YAML: a second ': ' in one line; quote a value"),
    (
        "server:\n  a:\n\u00a0   b: c\n    d: e\n".encode(),
        "gateway.yaml:3: not YAML: a character that only looks like a",
    ),
    (b"catalog:\n  - a\n  b: c\n", "gateway.yaml:3: not YAML: a key among the items of a list; begin the line with"),
    (b"live: {}\n- a\n", "gateway.yaml:2: not YAML: a list item among the keys of a mapping; indent the list"),
    (b'server:\n  host: "a" b\n', "gateway.yaml:2: not YAML: text after the end of a quoted value; quote the whole"),
    (b'server:\n  host: "a\\d"\n', "gateway.yaml:2: not YAML: an unknown \\ in double quotes; write"),
    (b"  live: {}\nstore: {}\n", "gateway.yaml:2: not YAML: text after the end of the document; check brackets"),
    (
        b"live: {}\ncatalog: [\n",
        "gateway.yaml:2: not YAML: a value is missing between commas, or a [ or { is not closed",
    ),
    (b"catalog: [a,, b]\n", "gateway.yaml:1: not YAML: a value is missing between commas"),
    (b"server: ]\n", "gateway.yaml:1: not YAML: a bracket or a comma at the beginning of a value; quote"),
    (b"live: {}\nstore: {url: 'x}\nserver: {}\n", "gateway.yaml:2: not YAML: the quote that opens here is not closed"),
    (b'live: {}\nstore: {url: "x}\nserver: {host: "::"}\n', "check the quote that opens in line 2"),
    (b'a: "x\nb: "y"\n', "not YAML: text after the end of a quoted value; check the quote that opens in line 1"),
    (b"live: {}\n---\nlive: {}\n", "gateway.yaml:2: a second YAML document"),
    (b"live: {}\nstore: \xff\n", "gateway.yaml:2: not UTF-8"),
    (b"live: {}\nstore: \x01\n", "gateway.yaml:2: a control character"),
    (b"live: *nothing\n", "gateway.yaml:1: an alias to an undefined anchor"),
    (b"live:\n  a: &a [*a]\n", "gateway.yaml:2: an alias to a value that contains the alias"),
    (b"live: !python/name:os.system x\n", "gateway.yaml:1: a tag, which is not allowed here"),
    (b"live:\n  a: !!set {b}\n", "gateway.yaml:2: a tag, which is not allowed here"),
    (b"a: " + b"[" * 5000, "gateway.yaml:1: nested more than 64 levels deep"),
    (b'{"a": ' + b"[" * 5000, "gateway.yaml:1: nested more than 64 levels deep"),
    (b'{"live": {"ttl_s": 1,}', "gateway.yaml:1: not YAML"),
    (b'{"server": {"host": "\\ud83d"}}', "a surrogate"),
    (b" " * (5 << 20), "gateway.yaml: is larger than 4 MiB"),
]


@pytest.mark.parametrize(("content", "message"), UNREADABLE, ids=[repr(content[:40]) for content, _ in UNREADABLE])
def test_unreadable_configuration_is_reported_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    [messages] = [line for line in faults(tmp_path, content) if "required" not in line]
    assert messages.startswith(message) or message in messages


def test_aliases_cannot_multiply_without_bound(tmp_path: Path) -> None:
    laughs = ["x-0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    laughs += [f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    [message] = faults(tmp_path, "\n".join(laughs))
    assert "more than 200,000 values once aliases are filled in" in message


def test_merged_aliases_cannot_multiply_without_bound(tmp_path: Path) -> None:
    laughs = ["x-0: &a0 {a: 1}"]
    laughs += [f"x-{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    [message] = faults(tmp_path, "\n".join(laughs))
    assert "values once aliases are filled in" in message


def test_missing_file_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(Faults, match=r"gateway\.yaml: there is no such file; `gateway init` writes one"):
        load(tmp_path / "gateway.yaml")


def test_a_folder_in_place_of_the_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Faults, match="this is a folder; name the file"):
        load(tmp_path)


def test_all_faults_are_reported_together_and_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
server:
  host: 0.0.0.0
  prot: 1
  port: ${NOT_SET}
store:
  encryption_keys: [short, "${KEY}"]
environments:
  dev:
    secret_keys: ["${SECRET}"]
    integrations:
      jira: {provider: 5, scopes: [a b]}
      jira: {}
  prod: {secret_keys: ["${SECRET}"], extra: 1}
egress:
  allow: [10.0.0.1/8]
"""
    message = faults(tmp_path, text)
    lines = [int(line.split(":")[1]) for line in message]
    assert lines == sorted(lines)
    assert sorted(set(lines)) == [1, 3, 4, 6, 11, 12, 13, 15]
    assert len(message) == 10


def test_each_fault_is_reported_once(tmp_path: Path) -> None:
    [message] = faults(tmp_path, "server: {host: 0.0.0.0, public_url: '${NOT_SET}'}\n" + STORE)
    assert "NOT_SET is not set" in message.replace("${", "").replace("}", "")


def test_no_fault_shows_a_secret(tmp_path: Path) -> None:
    hidden = "Sup3rS3cret"
    text = f"""\
server: {{port: {hidden}, host: "http://{hidden}", public_url: "http://{hidden}.example"}}
store: {{url: "postgres://u:{hidden}@h/d", encryption_keys: [{hidden}]}}
environments:
  dev:
    secret_keys: [{hidden}, "*{hidden} x"]
    integrations: {{a: {{client_secret: "{hidden}\\n", scopes: ["{hidden} x"], site_selection: {hidden}}}}}
egress: {{allow: [{hidden}], proxy: "socks://{hidden}"}}
"""
    message = faults(tmp_path, text)
    assert len(message) >= 10
    assert not [line for line in message if hidden in line]


def test_a_value_that_lost_its_colon_is_not_shown_as_a_key(tmp_path: Path) -> None:
    [message] = faults(
        tmp_path, STORE + "environments: {dev: {integrations: {a: {client_id: x,\n client_secret Sup3rS3cret}}}}"
    )
    assert (
        message
        == "gateway.yaml:3: environments.dev.integrations.a: has a key that is not a single word; is the ':' after it missing?"
    )


@pytest.mark.parametrize("value", ["*Sup3rS3cret", "!Sup3rS3cret", "'Sup3rS3cret", "@Sup3rS3cret", "a: Sup3rS3cret: b"])
def test_no_syntax_error_shows_a_secret(tmp_path: Path, value: str) -> None:
    assert "Sup3rS3cret" not in "\n".join(faults(tmp_path, f"server:\n  host: {value}\n"))


def test_faults_of_a_python_mapping_name_the_key() -> None:
    with pytest.raises(Faults) as caught:
        parse({"server": {"prot": 1}, "store": {"encryption_keys": [KEY]}}, base=Path("/"), environ={})
    assert str(caught.value) == "server.prot: is not a known key; did you mean 'port'?"


def test_mapping_that_contains_itself_is_refused() -> None:
    loop: dict[str, object] = {}
    loop["server"] = loop
    with pytest.raises(Faults, match="nested more than 64 levels"):
        parse(loop, base=Path("/"), environ={})
