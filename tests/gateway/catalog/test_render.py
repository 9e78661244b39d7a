"""Templates are filled in once; in a URL, the position of a value decides which values are allowed."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from hypothesis import given
from hypothesis import strategies as st

from gateway import clock
from gateway.catalog.provider_parts import Setting
from gateway.catalog.render import Moment, Unresolved, carries_credential, render_text, render_url
from gateway.catalog.template import TemplateError, placeholders
from gateway.catalog.value import BadValue, check_value, setting_values

AT = Moment(datetime(2026, 3, 4, 15, 6, 7, 89_000, tzinfo=UTC), "11111111-2222-4333-8444-555555555555")


# text


def test_placeholders_are_replaced_and_other_text_stays() -> None:
    assert render_text("Bearer ${accessToken}", {"accessToken": "t"}) == "Bearer t"
    assert render_text("$5 {x} $${a}", {"a": "b"}) == "$5 {x} $b"
    assert render_text("", {}) == ""


def test_inserted_values_are_not_expanded_again() -> None:
    assert render_text("${a}", {"a": "${b}", "b": "no"}) == "${b}"
    assert render_text("${base64(${a})}", {"a": "${b})}"}) == base64.b64encode(b"${b})}").decode()


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("${credentials.apiKey}", {"apiKey": "v"}),
        ("${credentials.apiKey}", {"credentials.apiKey": "v", "apiKey": "other"}),
        ("${access_token}", {"accessToken": "v"}),
        ("${credentials.access_token}", {"accessToken": "v"}),
        ("${metadata.team.id}", {"metadata.team.id": "v"}),
    ],
)
def test_all_aliases_of_a_value_work(template: str, values: dict[str, str]) -> None:
    assert render_text(template, values) == "v"


def test_every_missing_value_is_named_once() -> None:
    with pytest.raises(Unresolved) as raised:
        render_text("${a} ${connectionConfig.b} ${base64(${a}${c})} ${d}", {"d": ""})
    assert raised.value.names == ("a", "connectionConfig.b", "c")


def test_an_empty_value_is_a_value() -> None:
    header = render_text("Basic ${base64(${username}:${password})}", {"username": "u", "password": ""})
    assert header == "Basic dTo="


def test_template_functions_return_the_named_result() -> None:
    values = {"k": "key, with comma", "m": "ü(x)"}
    assert render_text("${base64(${m})}", values) == base64.b64encode("ü(x)".encode()).decode()
    assert render_text("${sha256Hex(a${m}b)}", values) == hashlib.sha256("aü(x)b".encode()).hexdigest()
    assert render_text("${sha256Base64(a)}", {}) == base64.b64encode(hashlib.sha256(b"a").digest()).decode()
    signed = hmac.new(b"key, with comma", "GET, ü(x)".encode(), "sha1").hexdigest()
    assert render_text("${hmacSha1Hex(GET, ${m}, ${k})}", values) == signed
    assert render_text("${base64(${base64(a)})}-", {}) == "WVE9PQ==-"


def test_hmacs_with_sha256_are_those_of_the_rfc() -> None:
    values = {"key": "Jefe", "data": "what do ya want for nothing?"}  # RFC 4231 §4.3
    digest = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert render_text("${hmacSha256Hex(${data}, ${key})}", values) == digest
    assert base64.b64decode(render_text("${hmacSha256Base64(${data}, ${key})}", values)).hex() == digest


def test_ed25519_signs_as_in_the_rfc() -> None:
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")  # RFC 8032 §7.1, TEST 2
    signature = (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    values = {"m": "\x72", "key": pem(Ed25519PrivateKey.from_private_bytes(seed))}
    assert base64.b64decode(render_text("${ed25519Sign(${m}, ${key})}", values)).hex() == signature


def test_a_fingerprint_is_the_digest_of_the_public_key_from_either_half() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    expected = "SHA256:" + base64.b64encode(hashlib.sha256(der).digest()).decode()
    for half in (pem(key), public):
        assert render_text("${fingerprint(${credentials.privateKey})}", {"privateKey": half}) == expected


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("${fingerprint(${k})}", "must be a key in PEM"),
        ("${ed25519Sign(m, ${k})}", "must be a private key in PEM"),
        ("${ed25519Sign(m, ${ec})}", "must be an Ed25519 private key"),
    ],
)
def test_invalid_key_is_reported_without_its_text(template: str, why: str) -> None:
    values = {"k": "not a key", "ec": pem(ec.generate_private_key(ec.SECP256R1()))}
    with pytest.raises(BadValue, match=why) as raised:
        render_text(template, values)
    assert "not a key" not in str(raised.value)


def test_a_public_key_on_an_unknown_curve_is_refused() -> None:
    # SubjectPublicKeyInfo (RFC 5480 §2.1) of the curve 1.3.132.0.4 (secp112r1), which the library does not know
    der = bytes.fromhex("3032301006072a8648ce3d020106052b81040006031e0004") + bytes(28)
    text = f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"
    with pytest.raises(UnsupportedAlgorithm):
        load_pem_public_key(text.encode())
    with pytest.raises(BadValue, match="must be a key in PEM"):
        render_text("${fingerprint(${k})}", {"k": text})


@pytest.mark.parametrize(
    "template",
    ["${a}.${fingerprint(${k})}", "${ed25519Sign(${a}, ${k})}", "${base64(${a}${fingerprint(${k})})}"],
)
def test_error_names_the_value_that_is_not_a_key(template: str) -> None:
    with pytest.raises(BadValue) as raised:
        render_text(template, {"a": "fine", "k": "not a key"})
    assert raised.value.name == "k"


def pem(key: PrivateKeyTypes) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("${now}", "2026-03-04T15:06:07.089Z"),
        ("${now:YYYY-MM-DD[T]HH:mm:ss.SSSZ}", "2026-03-04T15:06:07.089+00:00"),
        ("${now:ddd, DD MMM YYYY h:mm A}", "Wed, 04 Mar 2026 3:06 PM"),
        ("${now:X} ${now:x}", "1772636767 1772636767089"),
        ("${now+7:days:YYYYMMDD} ${now-90:minutes:HH.mm}", "20260311 13.36"),
        ("${now+1:hour}", "2026-03-04T16:06:07.089Z"),
        ("${random}${random}", AT.random * 2),
    ],
)
def test_a_request_has_one_moment_and_one_uuid(template: str, written: str) -> None:
    assert render_text(template, {}, moment=AT) == written


def test_now_is_the_time_of_the_gateway_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: AT.at)
    assert render_text("${now:YYYY}", {}) == "2026"


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\nb", "a\x00", "\x7f"])
def test_value_with_a_line_break_is_refused_in_a_header(value: str) -> None:
    with pytest.raises(BadValue) as raised:
        render_text("Bearer ${accessToken}", {"accessToken": value})
    assert raised.value.name == "accessToken"
    assert value not in str(raised.value)
    assert "\n" not in render_text("${base64(${a})}", {"a": value})


def test_placeholders_are_the_values_needed() -> None:
    template = "${connectionConfig.a.b-c} ${base64(${username}:${password})} ${now} ${random}"
    assert placeholders(template) == {"connectionConfig.a.b-c", "username", "password"}
    with pytest.raises(TemplateError):
        placeholders("${")


def test_template_that_carries_a_credential_is_recognized() -> None:
    assert carries_credential("Bearer ${accessToken}")
    assert carries_credential("Basic ${base64(${username}:x)}")
    assert carries_credential("${credentials.x}")
    assert carries_credential("${connectionConfig.key}", secret_settings={"key"})
    assert not carries_credential("${connectionConfig.key} ${metadata.x} ${now} application/json")


@given(st.text(), st.text(st.characters(blacklist_categories=["Cs", "Cc"])))
def test_any_text_is_a_template_or_a_clear_refusal(template: str, value: str) -> None:
    try:
        names = placeholders(template)
        rendered = render_text(template, dict.fromkeys(names, value))
    except (TemplateError, BadValue):
        return
    assert names or rendered == template.replace("$${", "${")


def test_settings_take_their_defaults_and_are_found_by_dotted_path() -> None:
    settings = {"region": Setting(title="R", default_value="eu"), "site": Setting(title="S", default_value="x")}
    config = {"site": "acme", "region": "", "team": {"id": 7, "deep": {"a": "b"}}, "team.id": "flat", "on": True}
    assert setting_values(config, settings) == {
        "connectionConfig.site": "acme",
        "connectionConfig.region": "eu",
        "connectionConfig.team.id": "7",
        "connectionConfig.team.deep.a": "b",
    }


# URLs

SITE = "https://${connectionConfig.site}.example.com/v1"


def rules(**rule: object) -> dict[str, Setting]:
    return {"site": Setting.model_validate({"title": "Site", **rule})}


def test_a_value_in_the_host_must_be_one_lower_case_label() -> None:
    assert render_url(SITE, {"site": "AcMe-2"}, {}) == "https://acme-2.example.com/v1"


@pytest.mark.parametrize(
    "value",
    [
        "evil.test/",
        "evil.test",
        "x@evil.test",
        "a:443",
        "a/b",
        "a?b",
        "a#b",
        "a\\b",
        "a b",
        "-a",
        "a-",
        "a" * 64,
        "ä",
        "ⓐ",
        "a\n",
        "a%2e",
        ".",
        "${x}",
        "[::1]",
    ],
)
@pytest.mark.parametrize("setting", [{}, {"pattern": ".*"}])
def test_invalid_value_is_refused_in_a_host(value: str, setting: dict[str, str]) -> None:
    with pytest.raises(BadValue) as raised:
        render_url(SITE, {"site": value}, rules(**setting) if setting else {})
    assert raised.value.name == "site"


def test_a_value_must_fit_its_setting_when_it_is_used() -> None:
    with pytest.raises(BadValue, match=r"site: must match the pattern \[a-z\]\+, for example acme"):
        render_url(SITE, {"site": "a1"}, rules(pattern="[a-z]+", example="acme"))
    with pytest.raises(BadValue, match="must be one of eu, us"):
        render_url(SITE, {"site": "cn"}, rules(enum=["eu", "us"]))
    assert render_url(SITE, {"site": "ACME"}, rules(pattern="[a-z]+")).startswith("https://acme.")
    assert render_url(SITE, {"site": "acme"}, rules(pattern="^[a-z]+$")).startswith("https://acme.")
    assert render_url(SITE, {"site": "Acme"}, rules(pattern="[A-Z][a-z]+")).startswith("https://acme.")


def test_setting_for_a_whole_host_needs_the_format_hostname_or_an_enum() -> None:
    whole = "https://${connectionConfig.site}/api"
    with pytest.raises(BadValue, match="one DNS label"):
        render_url(whole, {"site": "jira.acme.com"}, rules())
    assert render_url(whole, {"site": "Jira.Acme.com"}, rules(format="hostname")) == "https://jira.acme.com/api"
    assert render_url(whole, {"site": "eu.acme.com"}, rules(enum=["eu.acme.com"])) == "https://eu.acme.com/api"
    for odd in ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "a..b", "a.b.", ".a", "a.b:80", "a.b/c"]:
        with pytest.raises(BadValue):
            render_url(whole, {"site": odd}, rules(format="hostname"))


def test_a_setting_of_format_uri_may_be_the_whole_base() -> None:
    template = "${connectionConfig.site}/api"
    base = render_url(template, {"site": "HTTPS://Acme.example.com:8443/Jira/"}, rules(format="uri"))
    assert base == "https://acme.example.com:8443/Jira/api"
    with pytest.raises(BadValue, match="format: uri"):
        render_url(template, {"site": "https://a.example.com"}, rules())
    for odd in [
        "ftp://a.com",
        "https://u@a.com",
        "https://a.com?x=1",
        "https://a.com/../b",
        "https://${x}.com",
        "https://[::1%25eth0]",
        "a.com",
    ]:
        with pytest.raises(BadValue):
            render_url(template, {"site": odd}, rules(format="uri"))


def test_a_value_in_the_path_becomes_one_encoded_segment() -> None:
    template = "https://api.example.com/t/${connectionConfig.site}/x"
    assert render_url(template, {"site": "a b/c?d#e%ü"}, {}) == (
        "https://api.example.com/t/a%20b%2Fc%3Fd%23e%25%C3%BC/x"
    )
    assert render_url("https://api.example.com/bot${apiKey}", {}, {}, {"apiKey": "1:a"}).endswith("/bot1%3Aa")
    for odd in [".", "..", "a/../b", "..\\x", "..;a", "%2e%2e", "a\r\nb", "\ud800"]:
        with pytest.raises(BadValue):
            render_url(template, {"site": odd}, {})
    with pytest.raises(BadValue, match="makes a"):
        render_url("https://api.example.com/.${connectionConfig.site}", {"site": ";x"}, {})


def test_values_allowed_in_ports_and_queries() -> None:
    template = "https://api.example.com:${connectionConfig.site}/?a=${metadata.m}&b=1"
    assert render_url(template, {"site": "8443"}, {}, {"metadata.m": "x&y=1 2"}) == (
        "https://api.example.com:8443/?a=x%26y%3D1%202&b=1"
    )
    for odd in ["0", "65536", "80x", "-1", "٣"]:
        with pytest.raises(BadValue, match="port"):
            render_url(template, {"site": odd}, {}, {"metadata.m": "x"})


def test_unset_and_empty_settings_have_their_default_or_are_named() -> None:
    assert render_url(SITE, {"site": ""}, rules(default_value="www")) == "https://www.example.com/v1"
    with pytest.raises(Unresolved) as raised:
        render_url(SITE + "/${connectionConfig.b}/${apiKey}", {"site": ""}, rules())
    assert raised.value.names == ("connectionConfig.site", "connectionConfig.b", "apiKey")


def test_prefix_and_suffix_are_not_part_of_the_value() -> None:
    assert render_url(SITE, {"site": "a"}, rules(prefix="https://", suffix=".example.com")).count("example") == 1


def test_a_template_without_placeholders_is_the_url_itself() -> None:
    for url in ["https://api.example.com", "http://127.0.0.1:9900/x", "http://[::1]:9900", "https://a.b/c?d=e/f"]:
        assert render_url(url, {}, {}) == url


@given(st.text(max_size=40))
def test_no_value_changes_the_host_or_leaves_its_path_segment(value: str) -> None:
    try:
        host = render_url(SITE, {"site": value}, rules(pattern=".*"))
    except (BadValue, Unresolved):
        pass
    else:
        assert urlsplit(host).hostname == f"{value.lower()}.example.com"
        assert urlsplit(host).username is None
        assert urlsplit(host).path == "/v1"
    try:
        path = render_url("https://api.example.com/t/${connectionConfig.site}/x", {"site": value}, {})
    except (BadValue, Unresolved):
        return
    parts = urlsplit(path)
    assert (parts.netloc, parts.query, parts.fragment) == ("api.example.com", "", "")
    assert [unquote(segment) for segment in parts.path.split("/")] == ["", "t", value, "x"]


# saving


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"format": "uuid"}, "00000000-0000-4000-8000-000000000000", "0000"),
        ({"format": "email"}, "a@b.example", "a@b"),
        ({"format": "hostname"}, "A.example.com", "https://a.example.com"),
        ({"format": "uri"}, "https://a.example.com/x", "javascript:alert(1)"),
        ({"pattern": "[a-z]*"}, "abc", "abc1"),
        ({"pattern": "(a+)b"}, "aab", "a" * 300),
        ({}, "x" * 255, "x" * 256),
        ({"secret": True}, "x" * 8192, "x" * 8193),
        ({}, "a b", "a\x00b"),
    ],
)
def test_a_value_is_checked_by_its_setting_when_it_is_saved(rule: dict[str, object], good: str, bad: str) -> None:
    setting = Setting.model_validate({"title": "T", **rule})
    check_value("site", good, setting)
    with pytest.raises(BadValue) as raised:
        check_value("site", bad, setting)
    assert raised.value.name == "site"
