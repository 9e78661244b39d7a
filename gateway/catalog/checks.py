"""What a shape cannot say: whether an entry makes sense. Each check yields the place and what is wrong there."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.catalog.address import parse_address
from gateway.catalog.names import spellings
from gateway.catalog.places import Place, addresses, dotted, known_settings, texts
from gateway.catalog.provider import Provider, Setting
from gateway.catalog.template import TemplateError, placeholders
from gateway.catalog.value import BadValue, check_value, compiled, is_web_address
from gateway.catalog.vocabulary import AUTH_MODES, REDIRECTING

Finding = tuple[Place, str]

PROVIDER_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,255}")
_SETTING_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?")
_SCRIPT_NAME = re.compile(r"[a-z][a-z0-9_]*")
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STATUS = re.compile(r"[1-5](?:[0-9]{2}|xx)(?:-[1-5][0-9]{2})?")

# Framing, hop-by-hop and our own fields: the gateway alone writes or drops them (RFC 9110 §7.6.1).
_NOT_FOR_ENTRIES: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer"}
    | {"upgrade", "provider-config-key", "connection-id"}
)


@dataclass(frozen=True, slots=True)
class Words:
    """Names that exist outside the catalog. None: not known here, so not checked."""

    modes: Collection[str]
    scripts: Collection[str] | None


def check(provider: Provider, words: Words) -> Iterator[Finding]:
    """Everything that keeps `provider` from working, as (path in the file, message)."""
    if not PROVIDER_NAME.fullmatch(provider.name):
        yield (), f"{provider.name!r} cannot name a provider; call the file by letters, digits, '_' and '-'"
    yield from _modes_and_scripts(provider, words)
    yield from _pages(provider)
    yield from _settings(provider)
    yield from _addresses(provider)
    yield from _texts(provider)
    for index, status in enumerate((provider.proxy.retry and provider.proxy.retry.error_code) or ()):
        if not _STATUS.fullmatch(status):
            yield ("proxy", "retry", "error_code", index), f"{status!r} is no status; write 429, 5xx or 500-502"


def _modes_and_scripts(provider: Provider, words: Words) -> Iterator[Finding]:
    if provider.auth_mode not in words.modes:
        yield (
            ("auth_mode",),
            f"there is no auth mode {provider.auth_mode!r}; there are {', '.join(sorted(words.modes))}",
        )
    if provider.auth_mode in REDIRECTING:
        for key in ("authorization_url", "token_url"):
            if getattr(provider, key) is None:
                yield (), f"{key} is missing; auth_mode {provider.auth_mode} needs it"
    for key in ("post_connection_script", "webhook_routing_script"):
        script = getattr(provider, key)
        if script is None:
            continue
        if words.scripts is not None and script not in words.scripts:
            yield (key,), f"there is no script {script!r}; there are {', '.join(sorted(words.scripts)) or 'none'}"
        elif not _SCRIPT_NAME.fullmatch(script):
            yield (key,), f"{script!r} cannot name a script; write it in snake_case"


def _pages(provider: Provider) -> Iterator[Finding]:
    for key in ("docs", "docs_connect", "homepage", "setup_guide_url", "logo_url"):
        page = getattr(provider, key)
        if page is not None and not is_web_address(page):
            yield (key,), f"{key} must be an address such as https://docs.example.com"
    if provider.issuer is not None and not is_web_address(provider.issuer):
        yield ("issuer",), "issuer must be the address that the provider sends as `iss`"
    for index, category in enumerate(provider.categories):
        if not category.strip():
            yield ("categories", index), "a category must not be empty"


def _settings(provider: Provider) -> Iterator[Finding]:
    for key in ("connection_config", "credentials"):
        forms: Mapping[str, Setting] = getattr(provider, key)
        for name, setting in forms.items():
            if not _SETTING_NAME.fullmatch(name):
                yield (key, name), f"{name!r} cannot name a setting; use letters, digits, '_', '.' and '-'"
            yield from (((key, name, *place), message) for place, message in _setting(name, setting))
    names = provider.connection_configuration or []
    for index, name in enumerate(names):
        if not _SETTING_NAME.fullmatch(name) or name in names[:index]:
            yield ("connection_configuration", index), f"{name!r} is given twice, or is no name of a setting"


def _setting(name: str, setting: Setting) -> Iterator[Finding]:
    if setting.pattern is not None:
        try:
            compiled(setting.pattern)
        except (re.error, OverflowError, RecursionError) as wrong:
            yield ("pattern",), f"the pattern is not a regular expression: {wrong}"
            return
    if setting.enum is not None and not setting.enum:
        yield ("enum",), "an enum without values allows nothing; leave it out"
        return
    for key in ("default_value", "example"):
        value = getattr(setting, key)
        if value:
            try:
                check_value(name, value, setting)
            except BadValue as wrong:
                yield (key,), f"{key} does not fit its own setting: it {wrong.why}"


def _addresses(provider: Provider) -> Iterator[Finding]:
    for place, template in addresses(provider):
        try:
            address = parse_address(template)
        except TemplateError as wrong:
            yield place, f"{dotted(place)}: {wrong}"
            continue
        if _has_dot_segment(template):
            yield place, f"{dotted(place)} has a segment '.' or '..' in its path; write the address it leads to"
        if place[:2] == ("proxy", "allowed_origins") and (address.query or address.path not in {(), ("/",)}):
            yield place, "an allowed origin is scheme, host and port only, such as https://uploads.example.com"
        if place == ("proxy", "base_url") and address.query:
            yield place, "a base address has no query; put it in proxy.query"
        yield from _unfilled(provider, place, template)
    for index, path in enumerate((provider.proxy.verification and provider.proxy.verification.endpoints) or ()):
        place = ("proxy", "verification", "endpoints", index)
        if not path.startswith("/"):
            yield place, "an endpoint is a path below the base address and begins with '/'"
            continue
        try:
            parse_address(f"https://host{path}")
        except TemplateError as wrong:
            yield place, f"{dotted(place)}: {wrong}"
        else:
            if _has_dot_segment(path):
                yield place, f"{dotted(place)} has a segment '.' or '..'; write the path it leads to"
            yield from _unfilled(provider, place, path)


def _has_dot_segment(template: str) -> bool:
    """As `/proxy` refuses them in a caller's path: plain or percent-encoded, between any kind of slash."""
    path = template.partition("?")[0].rpartition("://")[2]
    steps = re.split(r"(?i)/|%2f|%5c", re.sub(r"(?i)%2e", ".", path))
    return any(step.partition(";")[0] in {".", ".."} for step in steps)


def _texts(provider: Provider) -> Iterator[Finding]:
    for place, template in texts(provider):
        try:
            names = placeholders(template)
        except TemplateError as wrong:
            yield place, f"{dotted(place)}: {wrong}"
            continue
        if names and re.search(r"\}\s*\|\|", template):
            yield place, "templates have no '||'; give the setting a default_value instead"
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", template):
            yield place, "holds a line break or another control character"
        yield from _unfilled(provider, place, template)
    proxy = provider.proxy
    yield from _field_names(("proxy", "headers"), proxy.headers)
    yield from _field_names(("token_headers",), provider.token_headers)
    if proxy.verification is not None:
        yield from _field_names(("proxy", "verification", "headers"), proxy.verification.headers)


def _field_names(place: Place, fields: Mapping[str, str]) -> Iterator[Finding]:
    seen: set[str] = set()
    for name in fields:
        folded = name.lower()
        if not _FIELD_NAME.fullmatch(name):
            yield (*place, name), f"{name!r} cannot name a header field"
        elif folded in _NOT_FOR_ENTRIES:
            yield (*place, name), f"{name} belongs to the connection, not to the entry; leave it out"
        elif folded in seen:
            yield (*place, name), f"{name} is given twice in different case; keep one"
        seen.add(folded)


def _unfilled(provider: Provider, place: Place, template: str) -> Iterator[Finding]:
    """Placeholders that neither a setting nor the credential will ever fill."""
    bare = AUTH_MODES.get(provider.auth_mode, frozenset()) | frozenset(provider.credentials)
    for name in sorted(placeholders(template)):
        namespace, dot, rest = name.partition(".")
        if dot and namespace == "metadata":
            continue
        if dot and namespace == "connectionConfig":
            if rest not in known_settings(provider):
                yield place, f"${{{name}}} has no setting; add {rest!r} to connection_config"
        elif provider.auth_mode in AUTH_MODES and not any(known in bare for known in spellings(name)):
            filled = ", ".join(f"${{{known}}}" for known in sorted(bare)) or "none"
            yield place, f"${{{name}}} is not filled by auth_mode {provider.auth_mode}; it fills {filled}"
