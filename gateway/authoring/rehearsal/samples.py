"""Makes up values for the rehearsal of an entry: settings, credentials, clients, keys, certificates."""

import base64
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Setting
from gateway.catalog.template import FunctionCall, Name, Template, parse_template, placeholders
from gateway.catalog.template_places import Place, text_templates
from gateway.catalog.value import BadValue, check_value

# ── Keys and certificates for a rehearsal. Each is generated once per process, because generating a key is slow.


@cache
def sample_key(kind: str) -> str:
    """Return a private key in PEM for a JWS algorithm, or a secret for HMAC.

    `kind`: the algorithm, such as ``RS256``. For HMAC, the encoding of the secret follows, as in ``HS256:hex``.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if kind.startswith("HS"):
        raw = secrets.token_bytes(32)
        return base64.b64encode(raw).decode() if kind.endswith(":base64") else raw.hex()
    key: Any
    if kind.startswith("ES"):
        curve = {"ES384": ec.SECP384R1, "ES512": ec.SECP521R1}.get(kind, ec.SECP256R1)
        key = ec.generate_private_key(curve())
    elif kind == "EdDSA":
        key = ed25519.Ed25519PrivateKey.generate()
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()


@cache
def sample_certificate() -> str:
    """Return a self-signed certificate in PEM for the key that ``sample_key("RS256")`` returns."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
    from cryptography.x509.oid import NameOID

    key = load_pem_private_key(sample_key("RS256").encode(), password=None)
    assert isinstance(key, RSAPrivateKey)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rehearsal")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    certificate = (
        builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1)).sign(key, SHA256())
    )
    pem: bytes = certificate.public_bytes(Encoding.PEM)
    return pem.decode()


_PLAIN: Final = (
    "acme",
    "1",
    "12",
    "us",
    "a1b2c3",
    "eu-west-1",
    "v1",
    "12345678",
    "0123456789abcdef" * 2,
    "https://acme.test",
)
_FORMATS: Final = {
    "hostname": "api.acme.test",
    "uri": "https://api.acme.test",
    "uuid": "0b0f6a5e-3c1d-4e5f-8a9b-000000000001",
    "email": "ada@acme.test",
}
_NAME_OF_SECRET: Final = re.compile(r"(?i)secret|password|key|token|private")
KEY_AUTH_METHOD: Final = "private_key_jwt"
KEY_FUNCTIONS: Final = {"fingerprint": "RS256", "ed25519Sign": "EdDSA"}


class NoSample(Exception):
    """No sample value is valid for a setting. `place`: the path of the setting in the entry."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(
            f"{name}: no sample value satisfies its rules; add an example to the entry, or pass --set {name}=VALUE"
        )
        self.place = place


@dataclass(frozen=True, slots=True)
class Samples:
    """Values for a rehearsal.

    `config`: the connection's settings. `typed_values`: the credentials that the end user enters. `assertion`: the values
    of the fields in `assertion_option`.
    """

    config: dict[str, str]
    typed_values: dict[str, str]
    assertion: dict[str, str]
    client_id: str = field(default_factory=lambda: f"client-{secrets.token_hex(4)}")
    client_secret: str = field(default_factory=lambda: f"try-secret-{secrets.token_hex(8)}")

    def secrets(self) -> Iterator[str]:
        """Yield the values that the report must mask."""
        yield self.client_secret
        yield from (value for value in self.typed_values.values() if len(value) > 3)


def samples_for(provider: Provider, given_values: Mapping[str, str]) -> Samples:
    """Return values for all settings and credentials. Raises NoSample.

    `given_values`: values by name, which replace sample values.
    """
    keys = dict(_key_names(provider))
    forms: dict[str, Mapping[str, Setting]] = {
        "connection_config": {
            name: setting for name, setting in provider.connection_config.items() if not setting.automated
        },
        "credentials": _typed_fields(provider),
        "assertion_option": provider.assertion_option,
    }
    values: dict[str, dict[str, str]] = {}
    for form, settings in forms.items():
        values[form] = {
            name: given_values.get(name) or _key_or_certificate(name, keys) or sample_value((form, name), name, setting)
            for name, setting in settings.items()
        }
    for name in provider.connection_configuration or ():
        if name in given_values:
            values["connection_config"][name] = given_values[name]
    return Samples(values["connection_config"], values["credentials"], values["assertion_option"])


def _key_or_certificate(name: str, keys: Mapping[str, str]) -> str | None:
    """Return a key or a certificate for the field `name`; None if the field needs neither.

    `keys`: the fields that are keys, each with its `kind` for `sample_key`.
    """
    if name in {"client_certificate", "clientCertificate"}:
        return sample_certificate()
    return sample_key(keys[name]) if name in keys else None


def _typed_fields(provider: Provider) -> Mapping[str, Setting]:
    """Return the fields of a credential that an end user enters."""
    mode = AUTH_MODES.get(provider.auth_mode)
    if mode is not None and mode.redirects:
        return {}
    # A role is left out, because the gateway would call AWS to assume it.
    left_out_names = {"role_arn", "external_id"} if provider.auth_mode == "AWS_SIGV4" else set()
    own_fields = {
        name: setting
        for name, setting in provider.credentials.items()
        if not setting.automated and name not in left_out_names
    }
    default_fields = {name: Setting(secret=True) for name in (mode.typed_fields if mode else ())}
    if (
        provider.auth_mode == "OAUTH2_CC"
        and provider.token_request_auth_method == KEY_AUTH_METHOD
        and provider.jwt is None
    ):
        default_fields["client_private_key"] = Setting(secret=True)
    if provider.require_client_certificate and mode is not None and not mode.redirects:
        default_fields |= {"client_certificate": Setting(secret=True), "client_private_key": Setting(secret=True)}
    return {**default_fields, **own_fields}


def sample_value(place: Place, name: str, setting: Setting) -> str:
    """Return a value that `setting` accepts. A secret setting gets a new random value each time. Raises NoSample."""
    if setting.secret or (place[0] == "credentials" and _NAME_OF_SECRET.search(name)):
        random_value = f"try-{secrets.token_hex(8)}"
        if _fits(name, random_value, setting):
            return random_value
    candidates = (
        setting.example,
        setting.default_value,
        *(setting.enum or ()),
        _FORMATS.get(setting.format or ""),
        *_PLAIN,
    )
    for candidate in candidates:
        if candidate and _fits(name, str(candidate), setting):
            return str(candidate)
    raise NoSample(place, name)


def _fits(name: str, value: str, setting: Setting) -> bool:
    try:
        check_value(name, value, setting)
    except BadValue:
        return False
    return True


def _key_names(provider: Provider) -> Iterator[tuple[str, str]]:
    """Yield the names of the credentials that are keys, each with its `kind` for `sample_key`."""
    if provider.jwt is not None:
        algorithm = provider.jwt.header.get("alg", "RS256")
        kind = f"{algorithm}:{provider.jwt.key_encoding or 'utf8'}" if algorithm.startswith("HS") else algorithm
        yield from ((_without_prefix(name), kind) for name in placeholders(provider.jwt.key))
    if provider.token_request_auth_method == KEY_AUTH_METHOD or provider.require_client_certificate:
        yield "client_private_key", "RS256"
    for _, template in text_templates(provider):
        yield from _keys_in(parse_template(template))


def _keys_in(template: Template) -> Iterator[tuple[str, str]]:
    for part in template.parts:
        if isinstance(part, FunctionCall):
            kind = KEY_FUNCTIONS.get(part.function)
            for value in part.arguments[-1].parts if kind else ():
                if isinstance(value, Name):
                    yield _without_prefix(value.name), str(kind)
            for argument in part.arguments:
                yield from _keys_in(argument)


def _without_prefix(name: str) -> str:
    return name.partition(".")[2] or name
