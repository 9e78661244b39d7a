"""The form of a provider: the fields that an end user fills in, and the values that the browser posts."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qsl

from aiohttp import hdrs, web

from gateway.auth import modes
from gateway.auth.mode import GrantingMode
from gateway.auth.pasted_keys import CERTIFICATE, PRIVATE_KEY
from gateway.catalog.auth_modes import AUTH_MODES, ModeFormat
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Setting, title_from
from gateway.errors import BodyTooLarge, InvalidRequest, Issue
from gateway.http.headers import media_type
from gateway.middleware.request_message import read_limited_body
from gateway.pages.frame import PageWords
from gateway.records.connecting import ConnectSession

# ── Reads the fields that a form of the gateway's pages posts.

URLENCODED: Final = "application/x-www-form-urlencoded"
NOT_A_GATEWAY_FORM: Final = "This is not a form of the gateway's pages."
MAX_FORM_FIELDS: Final = 1000  # the forms of the gateway's pages have fewer than 100 fields


async def read_form(request: web.Request, limit_bytes: int) -> dict[str, str]:
    """Return the fields of the posted form. If a name is repeated, its last value is returned.

    Raises InvalidRequest for a body that no form of the gateway sends, and for a body that arrives too slowly.

    `request.content_type` and `request.post()` are not used. The time in which aiohttp parses Content-Type grows with
    the square of its length, and the client is not authenticated yet. The pages are in UTF-8, so browsers send their
    forms in UTF-8.
    """
    if media_type(request.headers.get(hdrs.CONTENT_TYPE, "")) != URLENCODED:
        raise InvalidRequest("invalid_body", NOT_A_GATEWAY_FORM, close=True)
    try:
        await read_limited_body(request, limit_bytes, NOT_A_GATEWAY_FORM)
        body = (await request.read()).decode("ascii")
        return dict(parse_qsl(body, keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS))
    except (BodyTooLarge, ValueError):  # browsers do not send such bodies
        raise InvalidRequest("invalid_body", NOT_A_GATEWAY_FORM, close=True) from None


PARAMS: Final = "params"
CREDENTIALS: Final = "credentials"
ASSERTION: Final = "assertionOption"
SECRET_NAMES: Final = re.compile(r"password|secret|token|key|pin\b|passphrase|certificate", re.IGNORECASE)
LONG_TEXT_NAMES: Final = re.compile(r"private_?key|certificate|pem\b|service_account|json", re.IGNORECASE)
INPUT_TYPES: Final = {"email": "email", "uri": "url"}
# The optional fields of auth modes, for providers that do not define their own credential fields.
OPTIONAL_FIELDS: Final = {
    ("AWS_SIGV4", "region"),
    ("BASIC", "password"),
    ("OAUTH2_CC", CERTIFICATE),
    ("OAUTH2_CC", PRIVATE_KEY),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """An input of the form.

    - `name`: the name that the browser posts, such as ``params[subdomain]``
    - `group`: what the value is: a setting, a part of the credential, or a part of its assertion
    - `key`: the name in the provider's catalog entry
    - `when_field`, `when_equals`: the input is shown only if the field with this name has this value; None: always
    - `fault`: the error that is shown at the input
    """

    name: str
    group: str
    key: str
    id: str
    title: str
    description: str | None = None
    example: str | None = None
    pattern: str | None = None
    options: tuple[str, ...] = ()
    value: str = ""
    prefix: str | None = None
    suffix: str | None = None
    help: str | None = None
    type: str = "text"
    secret: bool = False
    long: bool = False
    optional: bool = False
    when_field: str | None = None
    when_equals: str | None = None
    fault: str | None = None


def fields_of(
    provider: Provider,
    session: ConnectSession,
    integration_id: str,
    words: PageWords,
    current_settings: Mapping[str, Any],
) -> list[FormField]:
    """Return all inputs of the form.

    Settings that the gateway sets itself, and settings that the customer's back end has fixed, are left out.
    `current_settings`: the settings of the connection that the end user connects again. These settings are the initial
    values of the inputs, except for secret settings.
    """
    fixed = {name.casefold() for name in session.defaults.get(integration_id, {}).get("connection_config") or {}}
    settings = {name: setting for name, setting in provider.connection_config.items() if name.casefold() not in fixed}
    override = session.overrides.get(integration_id, {}).get("docs_connect")
    docs = override or provider.docs_connect
    groups: list[tuple[str, Mapping[str, Setting]]] = [(PARAMS, settings)]
    if not isinstance(modes()[provider.auth_mode], GrantingMode):
        groups += [(CREDENTIALS, credentials_of(provider, words)), (ASSERTION, provider.assertion_option)]
    fields = [
        _field(group, key, setting, docs, current_settings.get(key) if group == PARAMS else None)
        for group, settings_in_group in groups
        for key, setting in settings_in_group.items()
        if not (setting.automated or setting.hidden)
    ]
    order = {PARAMS: 0, CREDENTIALS: 1, ASSERTION: 2}
    positions = {
        (group, key): setting.order for group, settings_in_group in groups for key, setting in settings_in_group.items()
    }
    return sorted(fields, key=lambda field: (order[field.group], _position(positions[field.group, field.key])))


def credentials_of(provider: Provider, words: PageWords) -> Mapping[str, Setting]:
    """Return the credential fields of the provider's entry or, if it has none, the fields of its auth mode."""
    if provider.credentials:
        return provider.credentials
    mode = AUTH_MODES.get(provider.auth_mode, ModeFormat(""))
    return {
        name: Setting(
            title=words(f"field_{name}") if words.has(f"field_{name}") else title_from(name),
            secret=bool(SECRET_NAMES.search(name)) and name != "token_id",
            optional=(provider.auth_mode, name) in OPTIONAL_FIELDS,
        )
        for name in mode.typed_fields
    }


def with_posted_values(
    fields: Iterable[FormField], form: Mapping[str, str], faults: Iterable[Issue]
) -> list[FormField]:
    """Return the fields with the values that the end user typed, except secrets, and with the errors of the fields.

    An error names the field by its title, because end users do not know the names in the catalog entry.
    """
    messages: dict[tuple[str, ...], str] = {}
    for fault in faults:
        messages.setdefault(fault.path, fault.message)
    return [
        replace(
            field,
            value="" if field.secret else form.get(field.name, ""),
            fault=(
                messages.get((field.group, field.key), "")
                or (messages.get((field.key,), "") if field.group != PARAMS else "")
            ).replace(f"'{field.key}'", f"'{field.title}'", 1)
            or None,
        )
        for field in fields
    ]


def values_from_form(fields: Iterable[FormField], form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the settings and the credential's fields from a posted form.

    A field name with dots is the path of a member in nested objects. Posted names that are not in `fields` are ignored.
    """
    params: dict[str, str] = {}
    credential: dict[str, Any] = {}
    for field in fields:
        text = form.get(field.name, "")
        text = text.strip() if not field.secret or not field.long else text
        if field.group == PARAMS:
            if text:
                params[field.key] = _without_affixes(field, text)
        elif field.group == ASSERTION:
            if text:
                credential.setdefault(ASSERTION, {})[field.key] = text
        elif text or not field.optional or field.key == "password":
            _set_member(credential, field.key.split("."), text)
    return params, credential


def _without_affixes(field: FormField, text: str) -> str:
    """Return the text without the prefix and suffix that are shown next to the input, because people paste them too."""
    if field.prefix and text.startswith(field.prefix):
        text = text[len(field.prefix) :]
    if field.suffix and text.lower().endswith(field.suffix.lower()) and len(text) > len(field.suffix):
        text = text[: -len(field.suffix)]
    return text


def _set_member(target: dict[str, Any], path: list[str], text: str) -> None:
    for step in path[:-1]:
        target = target.setdefault(step, {})
    target[path[-1]] = text


def _field(group: str, key: str, setting: Setting, docs: str | None, current_value: Any) -> FormField:
    condition = setting.visible_when
    prefilled_value = current_value if isinstance(current_value, str) and not setting.secret else None
    return FormField(
        name=f"{group}[{key}]",
        group=group,
        key=key,
        id=f"field-{group}-{re.sub(r'[^A-Za-z0-9_-]', '-', key)}",
        title=setting.title or title_from(key),
        description=setting.description,
        example=None if setting.enum else setting.example,
        pattern=browser_pattern(setting, setting.pattern),
        options=tuple(setting.enum or ()),
        value=prefilled_value or setting.default_value or "",
        prefix=setting.prefix,
        suffix=setting.suffix,
        help=f"{docs}#{setting.doc_section}" if docs and setting.doc_section else None,
        type=INPUT_TYPES.get(setting.format or "", "text"),
        secret=setting.secret,
        long=bool(LONG_TEXT_NAMES.search(key)) and setting.secret,
        optional=setting.optional or setting.default_value is not None,
        when_field=f"{group}[{condition.field}]" if condition else None,
        when_equals=condition.equals if condition else None,
    )


def browser_pattern(setting: Setting, pattern: str | None) -> str | None:
    r"""Return `pattern` as the pattern attribute of an input; None if the end user can also type a prefix or suffix.

    Browsers compile the attribute with the ``v`` flag of regular expressions. So ``-``, ``/``, ``|`` and some other
    characters must be escaped in a character class.
    """
    if pattern is None or setting.prefix or setting.suffix:
        return None
    escaped_pattern, in_class, position = "", False, 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            escaped_pattern += pattern[position : position + 2]
            position += 2
            continue
        if in_class and char == "]":
            in_class = False
        elif char == "[" and not in_class:
            in_class = True
            escaped_pattern += char
            position += 1
            if pattern[position : position + 1] == "^":
                escaped_pattern += "^"
                position += 1
            continue
        elif in_class and (
            char in "()[{}/|" or (char == "-" and (escaped_pattern[-1] in "[^" or pattern[position + 1] == "]"))
        ):
            char = "\\" + char
        escaped_pattern += char
        position += 1
    return escaped_pattern


def _position(order: int | None) -> int:
    return 1000 if order is None else order
