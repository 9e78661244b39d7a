"""Finds faults in catalog files, and warns about missing or unusual fields in entries without faults."""

import datetime as dt
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway import resources
from gateway.catalog.api_operations import FOLDER
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.checks import FORM_FIELDS, Finding
from gateway.catalog.evidence import GROUPS, is_old
from gateway.catalog.load_catalog import read_folders
from gateway.catalog.operation_checks import operation_faults
from gateway.catalog.pagination import is_requested_by_post, misplaced_fields
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import CATEGORIES, Paginate, Setting, title_from
from gateway.catalog.render import Unresolved, carries_credential, render_url
from gateway.catalog.template import Name, parse_template, placeholders, unknown_letters
from gateway.catalog.template_places import text_templates, url_templates
from gateway.catalog.url_template import UrlTemplate, parse_url_template
from gateway.catalog.value import BadValue
from gateway.catalog.yaml_file import CatalogFault, read_yaml

# Secrets that end users know by name. Any other secret needs its own title or a description.
_COMMON_NAMES: Final = frozenset(
    {"apiKey", "password", "client_secret", "clientSecret", "client_certificate", "client_private_key"}
    | {"secret_access_key", "token_secret"}
)
# Finds a repetition inside a repeated group. If a text almost matches such a pattern, the matching time doubles with
# every character.
_EXPONENTIAL = re.compile(r"\((?:\?:)?[^()]*[*+]\)[*+{]")

# Requests to these hosts stay on this machine, so plain http is allowed.
_LOOPBACK = {("127.0.0.1",), ("localhost",), ("[::1]",)}

_FOR_SOME_MODES = {key for mode in AUTH_MODES.values() for key in (*mode.required_fields, *mode.optional_fields)}

# Auth modes with alternative credentials: a role instead of a key, or a certificate instead of a secret. In these
# modes, the entry's form decides which fields an end user needs.
_EITHER_OR = frozenset({"AWS_SIGV4", "OAUTH2_CC"})

_REQUIRED_PAGING_KEYS = {
    "cursor": ("cursor_name_in_request", "cursor_path_in_response"),
    "link": (),
    "offset": ("offset_name_in_request",),
    "graphql": (),
}


def lint(
    folders: Sequence[Path],
    *,
    scripts: Collection[str] | None = None,
    modes: Collection[str] | None = None,
    base_folders: Sequence[Path] = (),
) -> list[CatalogFault]:
    """Return the faults of all entries in `folders`, then the warnings, then the faults of files with API operations.

    The level of a finding is ``fault`` if the gateway would not start with the entry, and for files with API operations;
    otherwise ``warning``. `scripts`: the names of scripts that an entry can use; None: names of scripts are not
    checked. `modes`: the auth modes that an entry can use; None: all of `AUTH_MODES`. `base_folders`: further folders
    with entries from which entries in `folders` can inherit.
    """
    entries, faults = read_folders(folders, scripts=scripts, modes=modes, base_folders=base_folders)
    for entry in entries:
        if entry.content is None:
            continue
        findings = list(warnings(Provider.model_validate_json(entry.content)))
        if not findings:
            continue
        document = read_yaml(entry.path)
        warnings_of_entry = [
            CatalogFault(document.file_and_line(*place), message, "warning") for place, message in findings
        ]
        faults += sorted(warnings_of_entry, key=lambda fault: (fault.line, fault.message))
    folders_with_operations = [folder for folder in folders if (folder / FOLDER).is_dir()]
    if folders_with_operations:
        all_entries = [*(read_folders(base_folders, scripts=scripts, modes=modes)[0] if base_folders else ()), *entries]
        providers = {
            entry.name: Provider.model_validate_json(entry.content)
            for entry in all_entries
            if entry.content is not None
        }
        for folder in folders_with_operations:
            faults += operation_faults(folder, providers, resources.folder("catalog"))
    return faults


def warnings(provider: Provider) -> Iterator[Finding]:
    """Yield the warnings for `provider`, an entry without faults."""
    yield from _vocabulary_warnings(provider)
    yield from _fields_without_effect(provider)
    yield from _missing_fields_of_the_mode(provider)
    yield from _plain_http_warnings(provider)
    yield from _time_format_warnings(provider)
    yield from _credential_warnings(provider)
    yield from _open_host_warnings(provider)
    yield from _installation_warnings(provider)
    yield from _example_warnings(provider)
    yield from _call_warnings(provider)
    yield from _paging_warnings(provider)
    yield from _evidence_warnings(provider, dt.datetime.now(dt.UTC).date())
    if provider.sunset is not None:
        yield ("sunset",), provider.sunset.sentence()
    for key in FORM_FIELDS:
        for name, setting in getattr(provider, key).items():
            yield from (((key, name, *place), message) for place, message in _setting_warnings(name, setting))


def _vocabulary_warnings(provider: Provider) -> Iterator[Finding]:
    for index, category in enumerate(provider.categories):
        if category not in CATEGORIES:
            yield ("categories", index), f"{category!r} is not a category of the vocabulary in docs/catalog.md"
    required_scope = provider.refresh.requires_scope if provider.refresh else None
    if required_scope and required_scope not in (provider.default_scopes or ()):
        yield ("default_scopes",), f"without {required_scope!r} among default_scopes, connections cannot be refreshed"
    if not provider.sources and provider.evidence is None:
        yield (), "names no sources, so its reliability is unknown"


def _evidence_warnings(provider: Provider, today: dt.date) -> Iterator[Finding]:
    if provider.provenance == "reviewed":
        yield (
            ("provenance",),
            "'reviewed' is shown as unconfirmed, since it comes without evidence; add `evidence` with the sources",
        )
    for name, group in provider.evidence.groups() if provider.evidence else ():
        place, title = ("evidence", name), GROUPS[name]
        if group.level == "assumed":
            yield place, f"{title}: a field has a default without a source; `gateway catalog evidence` lists the fields"
        if is_old(group, today):
            yield place, f"{title}: its sources were read more than 12 months ago, on {group.date}; read them again"


def _fields_without_effect(provider: Provider) -> Iterator[Finding]:
    """Yield a warning for each field that the entry sets, but that only other auth modes read."""
    mode = AUTH_MODES.get(provider.auth_mode)
    if mode is None:
        return
    mode_fields = {"credentials"} if mode.redirects or provider.auth_mode == "NONE" else set()
    for key in sorted((_FOR_SOME_MODES | mode_fields) - {*mode.required_fields, *mode.optional_fields}):
        if key in provider.model_fields_set and getattr(provider, key) not in (None, {}, []):
            yield (key,), f"auth_mode {provider.auth_mode} does not read {key}, so it has no effect; remove it"


def _missing_fields_of_the_mode(provider: Provider) -> Iterator[Finding]:
    """Yield a warning for each field that the auth mode needs and that is missing in the entry's `credentials`.

    The form shows only fields in `credentials`, so an end user could not fill in a missing field.
    """
    mode = AUTH_MODES.get(provider.auth_mode)
    if mode is None or not provider.credentials or provider.auth_mode in _EITHER_OR:
        return
    for name in mode.typed_fields:
        if name not in provider.credentials:
            reason = f"which auth_mode {provider.auth_mode} needs, so nobody can connect; add it"
            yield ("credentials",), f"has no {name!r}, {reason}"


def _plain_http_warnings(provider: Provider) -> Iterator[Finding]:
    for place, template in url_templates(provider):
        url = parse_url_template(template)
        if url.scheme == "http" and url.host not in _LOOPBACK:
            yield place, "is plain http, which only networks in egress.allow may use"
    for key in ("docs", "docs_connect", "homepage", "setup_guide_url"):
        page = urlsplit(str(getattr(provider, key)))
        if page.scheme == "http" and (page.hostname,) not in _LOOPBACK:
            yield (key,), "is plain http; use the page's https URL"


def _time_format_warnings(provider: Provider) -> Iterator[Finding]:
    for place, template in (*text_templates(provider), *url_templates(provider)):
        for time in parse_template(template).times():
            for letters in unknown_letters(time.format or ""):
                yield place, f"{letters!r} in ${{now:…}} is not a token of a time format; put literal text in [ ]"


def _credential_warnings(provider: Provider) -> Iterator[Finding]:
    if provider.auth_mode not in {"API_KEY", "BASIC"}:
        return
    if provider.proxy.verification is None:
        yield ("proxy",), "has no verification, so a wrong credential is found only when it is used"
    templates = [
        template for place, template in (*text_templates(provider), *url_templates(provider)) if place[0] == "proxy"
    ]
    # A user name and password are sent in the Authorization header by default. An API key has no default place.
    if provider.auth_mode == "API_KEY" and not any(map(carries_credential, templates)):
        yield ("proxy",), "does not send the key; add a field with ${apiKey} to proxy.headers or proxy.query"


def _open_host_warnings(provider: Provider) -> Iterator[Finding]:
    """Yield a warning for each URL with a host that ends in a setting without a rule.

    The person who enters such a setting chooses the host that gets the credential.
    """
    for place, template in url_templates(provider):
        url: UrlTemplate = parse_url_template(template)
        last_part = url.whole_base_url or (url.host[-1] if url.host else None)
        if not isinstance(last_part, Name):
            continue
        setting = provider.connection_config.get(last_part.name.removeprefix("connectionConfig."))
        if setting is None or not (setting.pattern or setting.enum or setting.automated or setting.any_host):
            remedy = "give the setting a pattern or an enum, or `any_host: true` if the software is self-hosted"
            yield place, f"${{{last_part.name}}} decides the end of the host; {remedy}"


def _installation_warnings(provider: Provider) -> Iterator[Finding]:
    if provider.auth_mode == "CUSTOM" and provider.installation_access_url is None:
        consequence = "so an end user can connect another customer's installation"
        yield ("installation_token_url",), f"is used without installation_access_url, {consequence}; add it"


def _example_warnings(provider: Provider) -> Iterator[Finding]:
    """Yield a warning for each URL that cannot be built from the examples of its settings.

    An end user enters values that are similar to the examples, so these values would fail too.
    """
    settings = provider.connection_config
    config = {
        name: setting.example or setting.default_value or next(iter(setting.enum or ()), "")
        for name, setting in settings.items()
    }
    for place, template in url_templates(provider):
        names = placeholders(template)
        sample_values = {name: "x" for name in names if not name.startswith("connectionConfig.")}
        try:
            render_url(template, {name: value for name, value in config.items() if value}, settings, sample_values)
        except Unresolved:
            continue  # a setting has no example, for instance because the provider returns the setting's value
        except BadValue as fault:
            yield place, f"cannot be built from the example of {fault.name!r}: it {fault.why}"


def _call_warnings(provider: Provider) -> Iterator[Finding]:
    """Yield the warnings about the call that verifies a credential and the call that reads the account."""
    verification, account = provider.proxy.verification, provider.account
    if verification is not None and verification.expect is not None:
        if not verification.expect:
            yield ("proxy", "verification", "expect"), "is empty; name a member of the response, or leave expect out"
        if verification.method == "HEAD":
            yield ("proxy", "verification", "expect"), "needs a body, which a response to HEAD does not have; use GET"
        for path in verification.expect:
            if not path or "" in path.split("."):
                yield ("proxy", "verification", "expect"), f"{path!r} is not a dotted path, such as user.id"
    if account is not None and account.data is not None and account.method != "POST":
        yield ("account", "data"), "is a body, which only a POST has; add `method: POST`"
    if account is not None and account.method is not None and account.endpoint is None:
        yield ("account", "method"), "has no effect without endpoint"


def _paging_warnings(provider: Provider) -> Iterator[Finding]:
    alternatives = enumerate(provider.proxy.paginate_alternatives or ())
    schemes: list[tuple[tuple[str | int, ...], Paginate]] = [
        (("proxy", "paginate_alternatives", index), scheme) for index, scheme in alternatives
    ]
    if provider.proxy.paginate is not None:
        schemes.append((("proxy", "paginate"), provider.proxy.paginate))
    for place, scheme in schemes:
        for key in _REQUIRED_PAGING_KEYS[scheme.type]:
            if getattr(scheme, key) is None:
                yield place, f"pagination of type {scheme.type} needs {key}"
        if (
            scheme.type == "link"
            and scheme.link_rel_in_response_header is None
            and scheme.link_path_in_response_body is None
        ):
            yield place, "pagination of type link needs link_rel_in_response_header or link_path_in_response_body"
        if (fault := misplaced_fields(scheme)) is not None:
            yield place, f"has {fault}"
        if is_requested_by_post(scheme.type, scheme.in_body) and not (scheme.applies_to or "").startswith("/"):
            yield place, "is requested by POST, so applies_to must be the path of these lists"


def _setting_warnings(name: str, setting: Setting) -> Iterator[Finding]:
    if setting.pattern is not None and _EXPONENTIAL.search(setting.pattern):
        yield ("pattern",), "repeats a repetition, which can take forever to match; write it without nesting"
    has_own_name = name in _COMMON_NAMES or setting.title != title_from(name)
    is_described = setting.description or (setting.secret and has_own_name)
    if not is_described and not setting.automated and not setting.hidden:
        yield (), f"setting '{name}' has no description, so the end user must guess where to find it"
