"""Converts one entry of a public catalog, after its aliases are expanded, into the values of a gateway entry."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from gateway.authoring.conversion.notes import (
    FallbackTemplates,
    Notes,
    Place,
    as_flag,
    as_list,
    as_text,
    is_flat,
    with_defaults,
)
from gateway.authoring.conversion.token_fields import (
    NO_XML,
    convert_jwt,
    convert_proxy,
    convert_steps,
    convert_text_map,
    convert_token_response,
    convert_value,
)
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.checks import FORM_FIELDS, SCRIPT_FIELDS
from gateway.catalog.provider_parts import SCRIPT_ALIASES, Setting
from gateway.catalog.render import spellings
from gateway.catalog.template import Name, TemplateError, placeholders
from gateway.catalog.template_places import URL_FIELDS
from gateway.catalog.url_template import parse_url_template
from gateway.catalog.value import is_label, is_web_url

# ── Converting the fields of a form into settings of a gateway entry.

_SETTING_FLAGS: Final = frozenset({"optional", "secret", "hidden", "automated"})
_SETTING_TEXTS: Final = frozenset(
    {"title", "description", "example", "pattern", "default_value", "prefix", "suffix", "doc_section"}
)
_FORMATS: Final = frozenset({"hostname", "uri", "uuid", "email"})
_JS_GROUP: Final = re.compile(r"\(\?<(?![=!])")


def convert_form(form: Any, place: Place, notes: Notes) -> dict[str, Any]:
    """Convert a form of the public catalog, which has fields by name, to settings of a gateway entry by name."""
    if not isinstance(form, Mapping):
        notes.add_lost(place, "is not a form: a form has names, each with its fields")
        return {}
    return {str(name): _convert_setting(field, (*place, name), notes) for name, field in form.items()}


def _convert_setting(source: Any, place: Place, notes: Notes) -> dict[str, Any]:
    setting: dict[str, Any] = {}
    for key, value in source.items() if isinstance(source, Mapping) else ():
        inner_place = (*place, key)
        match key:
            case "type":
                if value != "string":
                    notes.add_changed(inner_place, f"{value!r}: a setting is always text")
            case "pattern":
                _convert_pattern(setting, str(value), inner_place, notes)
            case "format" if value not in _FORMATS:
                notes.add_lost(inner_place, f"there is no format {value!r}; use one of {', '.join(sorted(_FORMATS))}")
            case "enum" if isinstance(value, list):
                setting[key] = [as_text(item) for item in value]
            case "order" | "visible_when" | "format":
                setting[key] = value
            case _ if key in _SETTING_FLAGS:
                setting[key] = as_flag(value)
            case _ if key in _SETTING_TEXTS:
                if value is not None:
                    setting[key] = as_text(value)
            case _ if key in Setting.model_fields:
                setting[key] = value
            case _:
                notes.add_lost(inner_place, f"a setting has no {key!r}")
    return setting


def _convert_pattern(setting: dict[str, Any], pattern: str, place: Place, notes: Notes) -> None:
    """Put `pattern` into `setting`, converted from JavaScript's regular expression syntax to Python's syntax."""
    python_pattern = _JS_GROUP.sub("(?P<", pattern).replace("\\/", "/")
    try:
        re.compile(python_pattern)
    except (re.error, OverflowError, RecursionError) as fault:
        notes.add_lost(place, f"is not a regular expression in Python's syntax: {fault}")
        return
    setting["pattern"] = python_pattern


# ── Adding values that a gateway entry requires and the public catalog's format does not: settings, and their formats.

_CAPTURING_FIELDS: Final = ("connection_configuration", "token_response_metadata", "redirect_uri_metadata")
_SEVERAL_LABELS: Final = "a.b"


def fill_gaps(entry: dict[str, Any], notes: Notes) -> None:
    """Add a missing setting for each placeholder. Add ``format`` to settings that are a host or a whole base URL."""
    for name in sorted(set(_names_in(entry))):
        namespace, dot, member = name.partition(".")
        if namespace == "connectionConfig" and dot:
            _add_missing_setting(entry, member, notes)
        elif dot == "" or namespace == "credentials":
            _add_missing_credential(entry, name, member or name, notes)
        elif namespace == "assertionOption" and member not in entry.get("assertion_option", {}):
            entry.setdefault("assertion_option", {})[member] = {}
            notes.add_changed(("assertion_option",), f"{member!r} is used but not declared; an empty setting was added")
    for template in _url_templates(entry):
        with suppress(TemplateError):
            _add_formats(entry, template, notes)


def _add_missing_setting(entry: dict[str, Any], name: str, notes: Notes) -> None:
    known_names = {*entry.get("connection_config", {})}.union(*(entry.get(key) or () for key in _CAPTURING_FIELDS))
    if name not in known_names:
        entry.setdefault("connection_config", {})[name] = {}
        notes.add_changed(("connection_config",), f"{name!r} is used but not declared; an empty setting was added")


def _add_missing_credential(entry: dict[str, Any], name: str, short_name: str, notes: Notes) -> None:
    mode = AUTH_MODES.get(str(entry.get("auth_mode")))
    if mode is None or mode.redirects or short_name.startswith("raw.") or name.startswith("credentials") is False:
        return
    known_names = {*mode.placeholders, *mode.members, *entry.get("credentials", {})}
    if not any(spelling in known_names for spelling in (*spellings(name), short_name)):
        credentials = entry.setdefault("credentials", {})
        for typed_field in () if credentials else mode.typed_fields:
            credentials.setdefault(typed_field, {})
        credentials[short_name] = {"secret": True}
        notes.add_changed(
            ("credentials",), f"{short_name!r} is used but not declared; an empty setting was added, as a secret"
        )


def _add_formats(entry: dict[str, Any], template: str, notes: Notes) -> None:
    url = parse_url_template(template)
    if url.whole_base_url is not None:
        _add_format(entry, url.whole_base_url.name, "uri", notes)
    literal_text = "".join(piece for piece in url.host if isinstance(piece, str)).strip(".")
    for piece in url.host:
        if isinstance(piece, Name):
            setting = _find_setting(entry, piece.name)
            if setting is not None and (not literal_text or _may_have_dots(setting)):
                _add_format(entry, piece.name, "hostname", notes)


def _may_have_dots(setting: Mapping[str, Any]) -> bool:
    """Return whether the setting's example or default value is a host name with several labels."""
    samples = [str(setting[key]) for key in ("example", "default_value") if setting.get(key)]
    return any("." in sample and not is_label(sample.lower()) for sample in samples)


def _add_format(entry: dict[str, Any], name: str, format_: str, notes: Notes) -> None:
    setting = _find_setting(entry, name)
    if setting is None or setting.get("format") == format_ or setting.get("enum"):
        return
    setting_name = name.partition(".")[2]
    setting["format"] = format_
    notes.add_changed(
        ("connection_config", setting_name), f"is {_FORMAT_PARTS[format_]} of a URL, so 'format: {format_}' was added"
    )
    for key in ("example", "default_value"):
        if key in setting and format_ == "uri" and not re.match(r"https?://", str(setting[key])):
            notes.add_lost(("connection_config", setting_name, key), "is not a whole URL")
            del setting[key]


_FORMAT_PARTS: Final = {"hostname": "the host", "uri": "the beginning"}


def _find_setting(entry: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    namespace, _, setting_name = name.partition(".")
    setting = entry.get("connection_config", {}).get(setting_name) if namespace == "connectionConfig" else None
    return setting if isinstance(setting, dict) else None


def _url_templates(entry: Mapping[str, Any]) -> Iterator[str]:
    yield from (entry[key] for key in URL_FIELDS if isinstance(entry.get(key), str))
    for templates in entry.get("alternatives", {}).values():
        yield from templates
    yield from (step["url"] for step in entry.get("additional_steps", ()) if "url" in step)
    proxy = entry.get("proxy", {})
    if "base_url" in proxy:
        yield proxy["base_url"]
    if (override := proxy.get("verification", {}).get("base_url_override")) is not None:
        yield override


def _names_in(value: Any) -> Iterator[str]:
    match value:
        case str() if "${" in value:
            with suppress(TemplateError):
                yield from placeholders(value)
        case Mapping():
            for member in value.values():
                yield from _names_in(member)
        case list():
            for member in value:
                yield from _names_in(member)


_PAGE_FIELDS: Final = ("docs", "docs_connect", "setup_guide_url", "homepage", "logo_url")
_TEXT_FIELDS: Final = (
    "display_name", "auth_mode", "scope_separator", "authorization_url_fragment", "expires_in_unit", "issuer",
    "authorization_code_param_in_callback", "alternate_access_token_response_path", "signature_method",
)  # fmt: skip
_MAP_FIELDS: Final = ("authorization_params", "token_headers", "refresh_params", "request_params")
_LIST_FIELDS: Final = (
    "default_scopes", "available_scopes", "token_response_metadata", "redirect_uri_metadata", "connection_configuration",
)  # fmt: skip
_FLAG_FIELDS: Final = ("disable_pkce", "webhook_user_defined_secret", "require_client_certificate")
_REGISTRATION: Final = {"metadata": "metadata_document", "client_metadata_document": "metadata_document"}
# Fields of the public catalog that gateway entries do not have, with the reason or the alternative.
_NOT_SUPPORTED: Final = {
    "integration_config": "an integration has no fields of its own here; use connection_config or metadata",
    "authorization_url_replacements": "a URL is one template here; use `alternatives`",
    "authorization_url_skip_encode": "parameters are always percent-encoded",
    "authorization_url_skip_empty": "empty parameters are sent as they are; leave them out of the entry",
    "webhook_allowed_query_params": "entries do not describe the contents of incoming webhooks",
    "webhook_response_metadata": "entries do not describe the contents of incoming webhooks",
    "authorization_code_param_in_webhook": "a code is read from the callback only",
    "installation": "an installation cannot begin at the provider",
}


class EntryConversion:
    """The conversion of one entry. `scripts`: the names of the available scripts. `converted_fields`: the fields that are

    converted so far."""

    def __init__(self, scripts: Collection[str]) -> None:
        self.scripts = scripts
        self.notes = Notes()
        self.converted_fields: dict[str, Any] = {}
        self._mode = ""
        self._fallbacks = FallbackTemplates(self.notes)
        self._alternatives: dict[str, list[str]] = {}

    def values(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Convert `entry` and return the values of the new entry file."""
        self._mode = as_text(entry.get("auth_mode"))
        for key, value in entry.items():
            if value is None:
                continue
            try:
                self._field(str(key), value, entry)
            except (ValueError, TypeError, AttributeError) as fault:
                self.notes.add_lost((str(key),), f"has a value that cannot be converted: {fault}")
        self._add_implied_values()
        if self._alternatives:
            self.converted_fields["alternatives"] = self._alternatives
        with_defaults(self.converted_fields, self._fallbacks.defaults)
        fill_gaps(self.converted_fields, self.notes)
        return {key: value for key, value in self.converted_fields.items() if value not in ({}, [], None)}

    def _field(self, key: str, value: Any, entry: Mapping[str, Any]) -> None:
        field_converter: Callable[[Any, Mapping[str, Any]], None] | None = getattr(self, f"_on_{key}", None)
        if field_converter is not None:
            field_converter(value, entry)
        elif key in URL_FIELDS:
            self._url(key, value)
        elif key in _TEXT_FIELDS:
            self.converted_fields[key] = as_text(value)
        elif key in _MAP_FIELDS:
            self.converted_fields[key] = convert_text_map(value, (key,), self.notes, self._fallbacks)
        elif key in _LIST_FIELDS:
            self.converted_fields[key] = as_list(value)
        elif key in _FLAG_FIELDS:
            self.converted_fields[key] = as_flag(value)
        elif key in FORM_FIELDS:
            self.converted_fields[key] = {
                **self.converted_fields.get(key, {}),
                **convert_form(value, (key,), self.notes),
            }
        elif key in _PAGE_FIELDS:
            self._page(key, value)
        elif key in SCRIPT_FIELDS:
            self._script(key, as_text(value))
        else:
            self.notes.add_lost((key,), _NOT_SUPPORTED.get(key, f"gateway entries have no {key!r}"))

    def _url(self, key: str, value: Any) -> None:
        if isinstance(value, Mapping):
            self._url_by_mode(key, value)
            return
        self.converted_fields[key], alternatives = self._fallbacks.url(as_text(value), (key,))
        if alternatives:
            self._alternatives[key] = alternatives
            self.notes.add_changed((key,), f"'||' became alternatives.{key}")

    def _url_by_mode(self, key: str, value: Mapping[str, Any]) -> None:
        """Convert a URL that differs by auth mode, ``{OAUTH2: …, APP: …}``. CUSTOM uses the URLs of both these modes."""
        own_url = value.get("OAUTH2" if self._mode == "CUSTOM" else self._mode)
        if own_url is not None:
            self._url(key, own_url)
        if self._mode == "CUSTOM" and key == "token_url" and value.get("APP"):
            self._url("installation_token_url", value["APP"])
            self.notes.add_changed((key, "APP"), "became installation_token_url")

    def _page(self, key: str, value: Any) -> None:
        if is_web_url(as_text(value)):
            self.converted_fields[key] = as_text(value)
        else:
            self.notes.add_lost((key,), "is not the URL of a page")

    def _script(self, key: str, name: str) -> None:
        gateway_name = SCRIPT_ALIASES.get(name, name)
        if gateway_name in self.scripts:
            self.converted_fields[key] = gateway_name
        else:
            self.notes.add_lost(
                (key,), f"there is no script {name!r} here; use one of {', '.join(sorted(self.scripts))}"
            )

    def _on_categories(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["categories"] = list(dict.fromkeys(as_list(value)))

    def _on_name(self, value: Any, _: Mapping[str, Any]) -> None:
        """Ignore `name`: the name of the file is used instead."""

    def _on_proxy(self, value: Any, _: Mapping[str, Any]) -> None:
        if not isinstance(value, Mapping):
            self.notes.add_lost(("proxy",), "is not a mapping: `key: value` lines")
            return
        self.converted_fields["proxy"] = convert_proxy(value, self.notes, self._fallbacks, self._alternatives)
        if isinstance(other_settings := value.get("connection_config"), Mapping):
            converted_settings = convert_form(other_settings, ("proxy", "connection_config"), self.notes)
            self.converted_fields["connection_config"] = {
                **converted_settings,
                **self.converted_fields.get("connection_config", {}),
            }
            self.notes.add_changed(("proxy", "connection_config"), "became part of the entry's connection_config")

    def _on_token_params(self, value: Any, _: Mapping[str, Any]) -> None:
        if isinstance(value, Mapping) and not is_flat(value):
            self.converted_fields["token_body"] = convert_value(value, ("token_params",), self._fallbacks)
            self.notes.add_changed(("token_params",), "became token_body, since it is more than a flat list")
        else:
            self.converted_fields["token_params"] = convert_text_map(
                value, ("token_params",), self.notes, self._fallbacks
            )

    def _on_refresh_token_params(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["refresh_params"] = convert_text_map(
            value, ("refresh_token_params",), self.notes, self._fallbacks
        )
        self.notes.add_changed(("refresh_token_params",), "became refresh_params")

    def _on_body_format(self, value: Any, _: Mapping[str, Any]) -> None:
        if value == "xml":
            self.notes.add_refused(("body_format",), NO_XML)
        else:
            self.converted_fields["body_format"] = as_text(value)

    def _on_token_request_method(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["token_request_method"] = as_text(value).upper()

    def _on_token_request_auth_method(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["token_request_auth_method"] = as_text(value)

    def _on_authorization_method(self, value: Any, entry: Mapping[str, Any]) -> None:
        if "token_request_auth_method" not in entry:
            self.converted_fields["token_request_auth_method"] = "basic" if value == "header" else "body"
        self.notes.add_changed(("authorization_method",), "became token_request_auth_method")

    def _on_client_registration(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["client_registration"] = _REGISTRATION.get(as_text(value), as_text(value))

    def _on_token_response(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["token_response"] = convert_token_response(value, ("token_response",), self.notes)

    def _on_token_expires_in_ms(self, value: Any, _: Mapping[str, Any]) -> None:
        seconds = max(1, int(value) // 1000)
        if self._mode == "SIGNATURE":
            self.converted_fields.setdefault("signature", {})["lifetime_s"] = seconds
        else:
            self.converted_fields["token_ttl"] = seconds
        self.notes.add_changed(("token_expires_in_ms",), "was converted to seconds")

    def _on_token_expiration_buffer(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["token_expiration_buffer"] = int(value)

    def _on_signature(self, value: Any, _: Mapping[str, Any]) -> None:
        scheme = as_text(value.get("protocol") if isinstance(value, Mapping) else value).lower()
        if self._mode == "SIGNATURE" and scheme == "wsse":
            self.converted_fields.setdefault("signature", {})["scheme"] = scheme
        else:
            self.notes.add_refused(("signature",), "the only supported signature is WSSE, in auth_mode SIGNATURE")

    def _on_token(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["jwt"] = convert_jwt(value, ("token",), self.notes)

    def _on_assertion(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["jwt"] = convert_jwt(value, ("assertion",), self.notes)

    def _on_additional_steps(self, value: Any, _: Mapping[str, Any]) -> None:
        self.converted_fields["additional_steps"] = convert_steps(
            value, ("additional_steps",), self.notes, self._fallbacks
        )

    def _add_implied_values(self) -> None:
        """Add values that the public catalog has by default and a gateway entry must state."""
        entry = self.converted_fields
        entry.setdefault("display_name", None)
        entry.setdefault("categories", ["other"])
        if self._mode == "TWO_STEP" and "body_format" not in entry and "token_body" not in entry:
            entry["body_format"] = "query" if entry.get("token_request_method") == "GET" else "json"
        if self._mode == "AWS_SIGV4" and "request_signing" not in entry:
            namespaces = {
                part: "connectionConfig" if part in entry.get("connection_config", {}) else "credentials"
                for part in ("region", "service")
            }
            parts = {part: f"${{{namespace}.{part}}}" for part, namespace in namespaces.items()}
            entry["request_signing"] = {"scheme": "aws-sigv4", **parts}
        if "base_url" not in entry.setdefault("proxy", {}):
            self._add_base_url()

    def _add_base_url(self) -> None:
        """Set the required base URL to the origin of token_url or authorization_url.

        This is safe: the server there issued the tokens, so calls with them reveal nothing new to it.
        """
        for key in ("token_url", "authorization_url"):
            scheme, separator, host_and_path = str(self.converted_fields.get(key) or "").partition("://")
            if separator:
                self.converted_fields["proxy"]["base_url"] = f"{scheme}://{host_and_path.partition('/')[0]}"
                self.notes.add_changed(
                    ("proxy",), f"has no base_url; the origin of {key} was used: replace it by the API's base URL"
                )
                return
        self.notes.add_refused(("proxy",), "has no base_url, and no other field has the origin of the API")
