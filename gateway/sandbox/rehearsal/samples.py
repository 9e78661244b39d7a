"""Made-up values for whatever an entry asks for: settings that fit their rules, credentials, clients, keys."""

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.places import Place, texts
from gateway.catalog.provider import Provider, Setting
from gateway.catalog.template import Call, Name, Template, parse, placeholders
from gateway.catalog.value import BadValue, check_value
from gateway.sandbox.rehearsal.keys import certificate, key_for

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
_SECRETIVE: Final = re.compile(r"(?i)secret|password|key|token|private")
BY_KEY: Final = "private_key_jwt"
KEY_FUNCTIONS: Final = {"fingerprint": "RS256", "ed25519Sign": "EdDSA"}


class NoSample(Exception):
    """A setting for which no fitting value is known; `place` is where the entry describes it."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(
            f"{name}: nothing we can think of fits its rules; give it an example, or call with --set {name}=VALUE"
        )
        self.place = place


@dataclass(frozen=True, slots=True)
class Samples:
    """`typed` is what the end user types in, `config` the settings that somebody is asked for."""

    config: dict[str, str]
    typed: dict[str, str]
    assertion: dict[str, str]
    client_id: str = field(default_factory=lambda: f"client-{secrets.token_hex(4)}")
    client_secret: str = field(default_factory=lambda: f"try-secret-{secrets.token_hex(8)}")

    def secrets(self) -> Iterator[str]:
        """What must not be shown."""
        yield self.client_secret
        yield from (value for value in self.typed.values() if len(value) > 3)


def samples_for(provider: Provider, given: Mapping[str, str]) -> Samples:
    """`given`: values by name that go before all others. Raises NoSample."""
    keys = dict(_key_names(provider))
    forms: dict[str, Mapping[str, Setting]] = {
        "connection_config": {name: one for name, one in provider.connection_config.items() if not one.automated},
        "credentials": _asked(provider),
        "assertion_option": provider.assertion_option,
    }
    made: dict[str, dict[str, str]] = {}
    for form, settings in forms.items():
        made[form] = {
            name: given.get(name) or _known_kind(name, keys) or value_for((form, name), name, setting)
            for name, setting in settings.items()
        }
    for name in provider.connection_configuration or ():
        if name in given:
            made["connection_config"][name] = given[name]
    return Samples(made["connection_config"], made["credentials"], made["assertion_option"])


def _known_kind(name: str, keys: Mapping[str, str]) -> str | None:
    """A key or a certificate, where that is what is asked for."""
    if name in {"client_certificate", "clientCertificate"}:
        return certificate()
    return key_for(keys[name]) if name in keys else None


def _asked(provider: Provider) -> Mapping[str, Setting]:
    mode = AUTH_MODES.get(provider.auth_mode)
    if mode is not None and mode.redirects:
        return {}
    left_out = {"role_arn", "external_id"} if provider.auth_mode == "AWS_SIGV4" else set()  # AWS itself would be asked
    own = {name: one for name, one in provider.credentials.items() if not one.automated and name not in left_out}
    default = {name: Setting(secret=True) for name in (mode.asks if mode else ())}
    if provider.auth_mode == "OAUTH2_CC" and provider.token_request_auth_method == BY_KEY and provider.jwt is None:
        default["client_private_key"] = Setting(secret=True)
    if provider.require_client_certificate and mode is not None and not mode.redirects:
        default |= {"client_certificate": Setting(secret=True), "client_private_key": Setting(secret=True)}
    return {**default, **own}


def value_for(place: Place, name: str, setting: Setting) -> str:
    """One that `setting` takes; a secret is another one each time."""
    if setting.secret or (place[0] == "credentials" and _SECRETIVE.search(name)):
        fresh = f"try-{secrets.token_hex(8)}"
        if _fits(name, fresh, setting):
            return fresh
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
    """Credentials that are keys, with what they sign by."""
    if provider.jwt is not None:
        algorithm = provider.jwt.header.get("alg", "RS256")
        kind = f"{algorithm}:{provider.jwt.key_encoding or 'utf8'}" if algorithm.startswith("HS") else algorithm
        yield from ((_bare(name), kind) for name in placeholders(provider.jwt.key))
    if provider.token_request_auth_method == BY_KEY or provider.require_client_certificate:
        yield "client_private_key", "RS256"
    for _, template in texts(provider):
        yield from _keys_in(parse(template))


def _keys_in(template: Template) -> Iterator[tuple[str, str]]:
    for part in template.parts:
        if isinstance(part, Call):
            kind = KEY_FUNCTIONS.get(part.function)
            for one in part.arguments[-1].parts if kind else ():
                if isinstance(one, Name):
                    yield _bare(one.name), str(kind)
            for argument in part.arguments:
                yield from _keys_in(argument)


def _bare(name: str) -> str:
    return name.partition(".")[2] or name
