"""What a shape cannot say: whether an entry makes sense. Each check yields the place and what is wrong there."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.places import ADDRESSES, Place
from gateway.catalog.provider import Provider, Setting
from gateway.catalog.template_checks import template_faults
from gateway.catalog.value import BadValue, check_value, compiled, is_web_address

Finding = tuple[Place, str]

PROVIDER_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,255}")
_SETTING_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?")
_SCRIPT_NAME = re.compile(r"[a-z][a-z0-9_]*")
_STATUS = re.compile(r"[1-5](?:[0-9]{2}|xx)(?:-[1-5][0-9]{2})?")

FORMS: Final = ("connection_config", "credentials", "assertion_option")
SCRIPT_FIELDS: Final = (
    "post_connection_script", "webhook_routing_script", "credentials_verification_script", "pre_connection_deletion_script",
)  # fmt: skip


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
    yield from _alternatives(provider)
    yield from template_faults(provider)
    for index, status in enumerate((provider.proxy.retry and provider.proxy.retry.error_code) or ()):
        if not _STATUS.fullmatch(status):
            yield ("proxy", "retry", "error_code", index), f"{status!r} is no status; write 429, 5xx or 500-502"


def _modes_and_scripts(provider: Provider, words: Words) -> Iterator[Finding]:
    if provider.auth_mode not in words.modes:
        yield (
            ("auth_mode",),
            f"there is no auth mode {provider.auth_mode!r}; there are {', '.join(sorted(words.modes))}",
        )
    if (mode := AUTH_MODES.get(provider.auth_mode)) is not None:
        for key in mode.needs:
            if getattr(provider, key) is None:
                yield (), f"{key} is missing; auth_mode {provider.auth_mode} needs it"
        proof = provider.token_request_auth_method
        if proof is not None and proof not in mode.proofs:
            known = ", ".join(mode.proofs)
            yield ("token_request_auth_method",), f"auth_mode {provider.auth_mode} knows no {proof}; it knows {known}"
    for key in SCRIPT_FIELDS:
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
    if "type" in provider.credentials:
        yield ("credentials", "type"), "'type' is the credential's own; call the field otherwise"
    for key in FORMS:
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


def _alternatives(provider: Provider) -> Iterator[Finding]:
    known = (*ADDRESSES, "proxy.base_url")
    for key in provider.alternatives:
        main = provider.proxy.base_url if key == "proxy.base_url" else getattr(provider, key, None)
        if key not in known:
            yield ("alternatives", key), f"there is no address {key!r}; there are {', '.join(known)}"
        elif main is None:
            yield ("alternatives", key), f"{key} itself is missing; an alternative stands beside it"
