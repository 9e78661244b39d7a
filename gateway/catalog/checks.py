"""Checks what pydantic cannot check in an entry and its templates.

Each check yields faults. A fault is a pair: the path in the file, and a message.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.catalog.auth_modes import AUTH_MODES, REQUEST_PLACEHOLDERS
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Setting
from gateway.catalog.render import spellings
from gateway.catalog.template import TemplateError, placeholders
from gateway.catalog.template_places import (
    URL_FIELDS,
    Place,
    header_maps,
    known_settings,
    text_templates,
    url_templates,
)
from gateway.catalog.url_template import UrlTemplate, parse_url_template
from gateway.catalog.value import BadValue, check_value, compile_pattern, is_web_url
from gateway.documents.read_document import dotted
from gateway.http.headers import is_token
from gateway.text import did_you_mean

# ── Checks of templates. Each template must be valid and allowed in its place, and something must fill each of its
# placeholders.

Finding = tuple[Place, str]

_INSTALLATION: Final = "${connectionConfig.installation_id}"

# Header fields that an entry cannot set, because only the gateway writes or drops them: framing, hop-by-hop fields
# (RFC 9110 §7.6.1) and the gateway's own fields.
_NOT_FOR_ENTRIES: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer"}
    | {"upgrade", "provider-config-key", "connection-id"}
)


def template_faults(provider: Provider) -> Iterator[Finding]:
    """Yield the faults of an entry's templates and header names."""
    yield from _url_faults(provider)
    yield from _installation_access_faults(provider)
    yield from _text_faults(provider)
    for place, fields in header_maps(provider):
        yield from _header_name_faults(place, fields)


def _url_faults(provider: Provider) -> Iterator[Finding]:
    for place, template in url_templates(provider):
        try:
            url = parse_url_template(template)
        except TemplateError as fault:
            yield place, f"{dotted(place)}: {fault}"
            continue
        if _has_dot_segment(template):
            yield place, f"{dotted(place)} has a segment '.' or '..' in its path; write the URL without it"
        if place[:2] == ("proxy", "allowed_origins") and (url.query or url.path not in {(), ("/",)}):
            yield place, "an allowed origin is scheme, host and port only, such as https://uploads.example.com"
        if any(isinstance(piece, str) and "*" in piece for piece in url.host):
            yield from _wildcard_faults(place, template, url)
        if place == ("proxy", "base_url") and url.query:
            yield place, "a base URL has no query; move the query to proxy.query"
        yield from _unfilled_placeholders(provider, place, template)
    for index, path in enumerate((provider.proxy.verification and provider.proxy.verification.endpoints) or ()):
        place = ("proxy", "verification", "endpoints", index)
        if not path.startswith("/"):
            yield place, "an endpoint must be a path below the base URL and begin with '/'"
        elif faults := list(_path_faults(place, path)):
            yield from faults
        else:
            yield from _unfilled_placeholders(provider, place, path)
    account = provider.account
    if account is not None and account.endpoint is not None and account.endpoint.startswith("/"):
        place = ("account", "endpoint")
        if faults := list(_path_faults(place, account.endpoint)):
            yield from faults
        else:
            yield from _unfilled_placeholders(provider, place, account.endpoint)


def _path_faults(place: Place, path: str) -> Iterator[Finding]:
    """Yield the faults of `path`, a template for a path below the base URL. Placeholders are not checked here."""
    try:
        parse_url_template(f"https://host{path}")
    except TemplateError as fault:
        yield place, f"{dotted(place)}: {fault}"
        return
    if _has_dot_segment(path):
        yield place, f"{dotted(place)} has a segment '.' or '..'; write the path without it"


def _installation_access_faults(provider: Provider) -> Iterator[Finding]:
    for place, template in url_templates(provider):
        if "installation_access_url" in place and _INSTALLATION not in template:
            yield place, f"{dotted(place)} must contain {_INSTALLATION}, or it confirms access to every installation"


def _wildcard_faults(place: Place, template: str, url: UrlTemplate) -> Iterator[Finding]:
    if place[:2] != ("proxy", "allowed_origins"):
        yield place, f"{dotted(place)} has a '*' in its host, which only proxy.allowed_origins may have"
    elif "${" in template or len(str(url.host[0]).split(".")) < 3:
        yield (
            place,
            "'*' stands for one label below a domain of the provider, without placeholders: https://*.example.com",
        )


def _has_dot_segment(template: str) -> bool:
    """Return whether the path of `template` has a segment ``.`` or ``..``, which `/proxy` refuses.

    Percent-encoded dots, slashes and backslashes count too.
    """
    path = template.partition("?")[0].rpartition("://")[2]
    segments = re.split(r"(?i)/|%2f|%5c", re.sub(r"(?i)%2e", ".", path))
    return any(segment.partition(";")[0] in {".", ".."} for segment in segments)


def _text_faults(provider: Provider) -> Iterator[Finding]:
    for place, template in text_templates(provider):
        try:
            names = placeholders(template)
        except TemplateError as fault:
            yield place, f"{dotted(place)}: {fault}"
            continue
        if names and re.search(r"\}\s*\|\|", template):
            yield place, "templates have no '||'; give the setting a default_value instead"
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", template):
            yield place, "contains a line break or another control character"
        yield from _unfilled_placeholders(provider, place, template)


def _header_name_faults(place: Place, fields: Mapping[str, str]) -> Iterator[Finding]:
    seen_names: set[str] = set()
    for name in fields:
        lower_name = name.lower()
        if not is_token(name):
            yield (*place, name), f"{name!r} is not a valid name of a header field"
        elif lower_name in _NOT_FOR_ENTRIES:
            yield (
                (*place, name),
                f"{name} cannot be set by an entry, since the gateway writes or drops it; leave it out",
            )
        elif lower_name in seen_names:
            yield (*place, name), f"{name} is given twice, in different case; keep one"
        seen_names.add(lower_name)


def _exchanges_code(provider: Provider) -> bool:
    mode = AUTH_MODES.get(provider.auth_mode)
    return mode is not None and mode.exchanges_code


def _unfilled_placeholders(provider: Provider, place: Place, template: str) -> Iterator[Finding]:
    """Yield a fault for each placeholder that no setting, credential or request can fill at `place`."""
    settings = known_settings(provider)
    for name in sorted(placeholders(template)):
        namespace, _, member = name.partition(".")
        if name in REQUEST_PLACEHOLDERS and place[:2] not in {("proxy", "headers"), ("proxy", "query")}:
            yield place, f"${{{name}}} is only available for proxied requests; use it in proxy.headers or proxy.query"
        elif namespace == "connectionConfig" and member not in settings:
            yield place, f"${{{name}}} has no setting; add {member!r} to connection_config"
        elif namespace == "callback" and (place[0] != "token_params" or not _exchanges_code(provider)):
            yield place, f"${{{name}}} is only available when a callback's code is exchanged; use it in token_params"
        elif namespace == "assertionOption" and member not in provider.assertion_option:
            yield place, f"${{{name}}} has no field; add {member!r} to assertion_option"
        elif namespace.startswith("step") and member and not _is_earlier_step(provider, place, namespace):
            yield (
                place,
                f"${{{name}}} is not known here; the token request is step1, additional_steps are step2 and following",
            )
        elif not _is_filled(provider, name):
            mode = AUTH_MODES[provider.auth_mode]
            fillable_names = sorted({*mode.placeholders, *mode.members, *provider.credentials})
            fillable_text = ", ".join(f"${{{filled_name}}}" for filled_name in fillable_names) or "none"
            message = f"${{{name}}} is not available in auth_mode {provider.auth_mode}; this mode has {fillable_text}"
            if name == "body" and place[0] == "proxy":
                message = "${body} is not available, so a whole body cannot be signed; ${bodyCanonicalParams} has the "
                message += "members of a form or of a JSON object"
            elif not mode.redirects and fillable_names:
                message += f", or add {member or name!r} to credentials"
            yield place, message


def _is_earlier_step(provider: Provider, place: Place, namespace: str) -> bool:
    """Return whether a template at `place` can use the response to the step `namespace`, such as ``step1``."""
    number = int(namespace.removeprefix("step"))
    if place[0] == "additional_steps":
        return number < int(place[1]) + 2
    # If the auth mode exchanges a code, only the response to the last step is stored.
    is_stored = place[0] == "proxy" and not _exchanges_code(provider)
    return is_stored and number <= len(provider.additional_steps or ()) + 1


def _is_filled(provider: Provider, name: str) -> bool:
    mode = AUTH_MODES.get(provider.auth_mode)
    namespace, dot, member = name.partition(".")
    if mode is None or name in REQUEST_PLACEHOLDERS or (dot and namespace != "credentials"):
        return True
    fillable_names = {*mode.placeholders, *provider.credentials}
    if dot:
        return (
            member.startswith("raw.")
            or member in mode.members
            or any(spelling in fillable_names for spelling in spellings(name))
        )
    return any(spelling in fillable_names for spelling in spellings(name))


# ── Checks of the entry as a whole.

PROVIDER_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,255}")
_SETTING_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?")
_SCRIPT_NAME = re.compile(r"[a-z][a-z0-9_]*")
_STATUS_FORM = re.compile(r"[1-5](?:[0-9]{2}|xx)(?:-[1-5][0-9]{2})?")

FORM_FIELDS: Final = ("connection_config", "credentials", "assertion_option")
SCRIPT_FIELDS: Final = (
    "post_connection_script", "webhook_routing_script", "credentials_verification_script", "pre_connection_deletion_script",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExternalNames:
    """Names that entries use, but that are defined outside the catalog.

    `modes`: the names of all auth modes. `scripts`: the names of all scripts; None: the scripts are unknown, so only
    the spelling of a script's name is checked.
    """

    modes: Collection[str]
    scripts: Collection[str] | None


def entry_faults(provider: Provider, external_names: ExternalNames) -> Iterator[Finding]:
    """Yield all faults of `provider`. A fault is a path in the file and a message."""
    if not PROVIDER_NAME.fullmatch(provider.name):
        yield (), f"{provider.name!r} cannot name a provider; use only letters, digits, '_' and '-' in the file's name"
    yield from _mode_and_script_faults(provider, external_names)
    yield from _page_faults(provider)
    yield from _settings_faults(provider)
    yield from _alternative_faults(provider)
    yield from _account_faults(provider)
    yield from template_faults(provider)
    for index, status in enumerate((provider.proxy.retry and provider.proxy.retry.error_code) or ()):
        if not _STATUS_FORM.fullmatch(status):
            yield ("proxy", "retry", "error_code", index), f"{status!r} is not a status; write 429, 5xx or 500-502"


def _mode_and_script_faults(provider: Provider, external_names: ExternalNames) -> Iterator[Finding]:
    if provider.auth_mode not in external_names.modes:
        modes = sorted(external_names.modes)
        hint = did_you_mean(provider.auth_mode, modes) or f"; use one of {', '.join(modes)}"
        yield ("auth_mode",), f"there is no auth mode {provider.auth_mode!r}{hint}"
    if (mode := AUTH_MODES.get(provider.auth_mode)) is not None:
        for key in mode.required_fields:
            if getattr(provider, key) is None:
                yield (), f"{key} is missing; auth_mode {provider.auth_mode} needs it"
        client_auth = provider.token_request_auth_method
        if client_auth is not None and client_auth not in mode.client_auth_methods:
            known_methods = ", ".join(mode.client_auth_methods)
            yield (
                ("token_request_auth_method",),
                f"auth_mode {provider.auth_mode} does not support {client_auth}; it supports {known_methods}",
            )
    for key in SCRIPT_FIELDS:
        script = getattr(provider, key)
        if script is None:
            continue
        if external_names.scripts is not None and script not in external_names.scripts:
            yield (
                (key,),
                f"there is no script {script!r}; use one of {', '.join(sorted(external_names.scripts)) or 'none'}",
            )
        elif not _SCRIPT_NAME.fullmatch(script):
            yield (key,), f"{script!r} is not a script name; write it in snake_case"


def _page_faults(provider: Provider) -> Iterator[Finding]:
    for key in ("docs", "docs_connect", "homepage", "setup_guide_url", "logo_url"):
        page = getattr(provider, key)
        if page is not None and not is_web_url(page):
            yield (key,), f"{key} must be a URL such as https://docs.example.com"
    if provider.issuer is not None and not is_web_url(provider.issuer):
        yield ("issuer",), "issuer must be the URL that the provider sends as `iss`"
    for index, category in enumerate(provider.categories):
        if not category.strip():
            yield ("categories", index), "a category must not be empty"


def _settings_faults(provider: Provider) -> Iterator[Finding]:
    if "type" in provider.credentials:
        yield ("credentials", "type"), "'type' is reserved for the auth mode; give the field another name"
    for key in FORM_FIELDS:
        forms: Mapping[str, Setting] = getattr(provider, key)
        for name, setting in forms.items():
            if not _SETTING_NAME.fullmatch(name):
                yield (key, name), f"{name!r} cannot name a setting; use only letters, digits, '_', '.' and '-'"
            yield from (((key, name, *place), message) for place, message in _setting_faults(name, setting))
    names = provider.connection_configuration or []
    for index, name in enumerate(names):
        if not _SETTING_NAME.fullmatch(name) or name in names[:index]:
            yield ("connection_configuration", index), f"{name!r} is given twice, or is not a name of a setting"


def _setting_faults(name: str, setting: Setting) -> Iterator[Finding]:
    if setting.pattern is not None:
        try:
            compile_pattern(setting.pattern)
        except (re.error, OverflowError, RecursionError) as fault:
            yield ("pattern",), f"the pattern is not a regular expression: {fault}"
            return
    if setting.enum is not None and not setting.enum:
        yield ("enum",), "an enum without values allows nothing; leave it out"
        return
    for key in ("default_value", "example"):
        value = getattr(setting, key)
        if value:
            try:
                check_value(name, value, setting)
            except BadValue as fault:
                yield (key,), f"{key} does not fit its own setting: it {fault.why}"


def _account_faults(provider: Provider) -> Iterator[Finding]:
    if provider.account is None:
        return
    for name in provider.account.settings:
        if name not in provider.connection_config:
            yield (
                ("account", "settings", name),
                f"there is no setting {name!r}; add it to connection_config, with `automated: true`",
            )


def _alternative_faults(provider: Provider) -> Iterator[Finding]:
    known_fields = (*URL_FIELDS, "proxy.base_url")
    for key in provider.alternatives:
        field_template = provider.proxy.base_url if key == "proxy.base_url" else getattr(provider, key, None)
        if key not in known_fields:
            yield ("alternatives", key), f"there is no URL field {key!r}; use one of {', '.join(known_fields)}"
        elif field_template is None:
            yield ("alternatives", key), f"{key} itself is missing; alternatives need it"
