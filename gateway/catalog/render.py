"""Fills in templates: `render_text` for header fields, query and parameters, `render_url` for URLs.

In a URL, the position of a value decides which values are allowed:

host     one DNS label, converted to lower case; several labels only for a setting with `format: hostname` or an `enum`
port     1 to 65535
path     one segment or a part of a segment, which is percent-encoded; never ``.`` or ``..``
query    any text, which is percent-encoded
whole    a base URL, if the template begins with a setting that has `format: uri`
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from gateway import clock
from gateway.catalog.auth_modes import REQUEST_PLACEHOLDERS
from gateway.catalog.provider_parts import Setting
from gateway.catalog.template import (
    FUNCTIONS,
    BadArgument,
    FunctionCall,
    Name,
    Now,
    Random,
    Template,
    TemplateError,
    parse_template,
    placeholders,
    write_time,
)
from gateway.catalog.url_template import Piece, is_port, parse_url_template
from gateway.catalog.value import BadValue, check_value, flat_values, is_hostname, is_label
from gateway.http.headers import CONTROL_CHAR
from gateway.http.url import has_dot_segment
from gateway.origin import non_ascii_fault

# ── Names of values in templates: their synonyms, and which names belong to a credential.

# Published entries write ``accessToken``, but the credential's JSON has ``access_token``. Templates can use both names.
_SYNONYMS: Final = {"accessToken": "access_token", "access_token": "accessToken"}


def find_value(values: Mapping[str, str], name: str) -> str | None:
    """Return the value called `name` or one of its synonyms; None if there is none."""
    for spelling in spellings(name):
        if spelling in values:
            return values[spelling]
    return None


def spellings(name: str) -> tuple[str, ...]:
    """Return `name` and its synonyms: ``credentials.apiKey`` and ``apiKey`` name the same value."""
    short_name = name.removeprefix("credentials.")
    synonyms = (_SYNONYMS[short_name],) if short_name in _SYNONYMS else ()
    return (name, *((short_name,) if short_name != name else ()), *synonyms)


def carries_credential(template: str, *, secret_settings: Collection[str] = ()) -> bool:
    """Return whether `template` adds a credential to a request. A caller cannot override a field with such a template.

    `secret_settings`: the names of settings that the entry marks as secret.
    """
    return any(credential_names(template, secret_settings=secret_settings))


def credential_names(template: str, *, secret_settings: Collection[str] = ()) -> Iterator[str]:
    """Yield the names of the values in `template` that belong to a credential or are in `secret_settings`."""
    return (name for name in placeholders(template) if _is_credential(name, secret_settings))


def _is_credential(name: str, secret_settings: Collection[str]) -> bool:
    namespace, dot, member = name.partition(".")
    if dot and namespace == "connectionConfig":
        return member in secret_settings
    return namespace != "metadata" and name not in REQUEST_PLACEHOLDERS


NO_VALUES: Final[Mapping[str, str]] = {}
MAX_SEGMENT_LENGTH: Final = 4096


class Unresolved(LookupError):
    """The connection lacks values that the template needs. `names`: their names in the template."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(", ".join(names))
        self.names = names


def render_url(
    template: str, config: Mapping[str, Any], settings: Mapping[str, Setting], values: Mapping[str, str] = NO_VALUES
) -> str:
    """Return the URL that results from `template` for a connection.

    `config`: the connection's settings, by names without ``connectionConfig.``. `settings`: the rules of these
    settings. An unset or empty setting gets its `default_value`. `values`: other values, such as ``apiKey`` and
    ``metadata.team``.

    Raises Unresolved with the names of all missing values, BadValue for a value that is not allowed in its position,
    and TemplateError for an invalid template.
    """
    url = parse_url_template(template)
    known_values = _KnownValues(flat_values(config), settings, values)
    known_values.require(parse_template(template).names())
    if url.whole_base_url is not None:
        base = _whole_base_url(url.whole_base_url, known_values)
    else:
        port = "" if url.port is None else f":{_render_port(url.port, known_values)}"
        base = f"{url.scheme}://{_render_host(url.host, known_values)}{port}"
    return base + _render_path(url.path, known_values) + _render_query(url.query, known_values)


class _KnownValues:
    """The values for a URL template, and the rules of their settings."""

    def __init__(self, config: Mapping[str, str], settings: Mapping[str, Setting], values: Mapping[str, str]) -> None:
        self._config = config
        self._settings = settings
        self._values = values

    def require(self, names: Iterable[str]) -> None:
        missing_names = tuple(name for name in dict.fromkeys(names) if not self._find(name))
        if missing_names:
            raise Unresolved(missing_names)

    def setting(self, name: str) -> Setting | None:
        return self._settings.get(_without_prefix(name))

    def value(self, name: str) -> str:
        """Return the value after checking it against its setting. Raises BadValue."""
        value = self._find(name) or ""
        self._check(name, value)
        return value

    def lower_case_value(self, name: str) -> str:
        """Return the value in lower case, for use in a host.

        Raises BadValue if neither the value nor the value in lower case fits the rules of its setting.
        """
        value = self._find(name) or ""
        if fault := non_ascii_fault(value):
            setting = self.setting(name)
            is_typed = name.startswith("connectionConfig.") and not (setting is not None and setting.secret)
            raise BadValue(
                _without_prefix(name), fault if is_typed else "must have only ASCII letters, digits and hyphens"
            )
        try:
            self._check(name, value.lower())
        except BadValue:
            self._check(name, value)
        return value.lower()

    def _check(self, name: str, value: str) -> None:
        setting = self.setting(name)
        if setting is not None:
            check_value(_without_prefix(name), value, setting)
        elif len(value) > MAX_SEGMENT_LENGTH:
            raise BadValue(_without_prefix(name), f"is longer than {MAX_SEGMENT_LENGTH} characters")

    def _find(self, name: str) -> str | None:
        if not name.startswith("connectionConfig."):
            return find_value(self._values, name)
        short_name = _without_prefix(name)
        setting = self._settings.get(short_name)
        return self._config.get(short_name) or (setting.default_value if setting else None)


def _without_prefix(name: str) -> str:
    return name.removeprefix("connectionConfig.")


def _whole_base_url(piece: Name, known_values: _KnownValues) -> str:
    setting = known_values.setting(piece.name)
    value = known_values.value(piece.name)
    if setting is None or setting.format != "uri":
        raise BadValue(
            _without_prefix(piece.name), "can be the whole base URL only if the entry gives it `format: uri`"
        )
    try:
        url = parse_url_template(value) if "${" not in value else None
    except TemplateError as fault:
        raise BadValue(_without_prefix(piece.name), str(fault)) from None
    if url is None or url.query:
        raise BadValue(
            _without_prefix(piece.name), "must be a base URL without a query, such as https://api.example.com"
        )
    scheme, _, host_and_path = value.partition("://")
    authority, slash, path = host_and_path.partition("/")
    if has_dot_segment(path):
        raise BadValue(_without_prefix(piece.name), "has a '.' or '..' segment")
    return f"{scheme.lower()}://{authority.lower()}{slash}{path}".rstrip("/")


def _render_host(pieces: tuple[Piece, ...], known_values: _KnownValues) -> str:
    host = "".join(
        piece if isinstance(piece, str) else _render_host_value(piece.name, known_values) for piece in pieces
    ).lower()
    names = [piece.name for piece in pieces if isinstance(piece, Name)]
    if names and not is_hostname(host):
        raise BadValue(_without_prefix(names[-1]), "does not make a valid host name here")
    return host


def _render_host_value(name: str, known_values: _KnownValues) -> str:
    setting = known_values.setting(name)
    lower_case_value = known_values.lower_case_value(name)
    allows_labels = setting is not None and (setting.format == "hostname" or setting.enum is not None)
    if not (is_hostname(lower_case_value) if allows_labels else is_label(lower_case_value)):
        description = (
            "a host name, such as api.example.com"
            if allows_labels
            else "one DNS label: letters, digits and hyphens, no dot"
        )
        raise BadValue(_without_prefix(name), f"must be {description}")
    return lower_case_value


def _render_port(piece: Piece, known_values: _KnownValues) -> str:
    if isinstance(piece, str):
        return piece
    value = known_values.value(piece.name)
    if not is_port(value):
        raise BadValue(_without_prefix(piece.name), "must be a port from 1 to 65535")
    return str(int(value))


def _render_path(pieces: tuple[Piece, ...], known_values: _KnownValues) -> str:
    path = ""
    for piece in pieces:
        if isinstance(piece, str):
            path += piece
            continue
        value = known_values.value(piece.name)
        if has_dot_segment(value):
            raise BadValue(_without_prefix(piece.name), "has a '.' or '..' segment")
        path += _encode_value(piece.name, value)
        if has_dot_segment(path):
            raise BadValue(_without_prefix(piece.name), "makes a '.' or '..' segment")
    return path


def _render_query(pieces: tuple[Piece, ...], known_values: _KnownValues) -> str:
    return "".join(
        piece if isinstance(piece, str) else _encode_value(piece.name, known_values.value(piece.name))
        for piece in pieces
    )


def _encode_value(name: str, value: str) -> str:
    if any(c < " " or c == "\x7f" for c in value):
        raise BadValue(_without_prefix(name), "contains a control character")
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise BadValue(_without_prefix(name), "is not valid Unicode text") from None


# ── Templates of headers, query and parameters.


def _now() -> datetime:
    return clock.now()


@dataclass(frozen=True, slots=True)
class Moment:
    """The values of ``${now}`` and ``${random}``: one time and one UUID for all templates of a request."""

    at: datetime = field(default_factory=_now)
    random: str = field(default_factory=lambda: str(uuid.uuid4()))


def render_text(template: str, values: Mapping[str, str], *, moment: Moment | None = None, breaks: bool = False) -> str:
    """Return `template` with `values` filled in.

    `values`: the values by their names in templates: ``accessToken``, ``connectionConfig.cloudId``, ``metadata.team``.
    A value ``apiKey`` also fills ``${credentials.apiKey}``, and ``accessToken`` also fills ``${access_token}``. An
    empty value counts as present. `moment`: the time and the UUID of the request, the same object for all templates of
    a request; None: the present time and a new UUID. `breaks`: whether the result can have control characters, such as
    the line breaks of a PEM key.

    Raises Unresolved with the names of all missing values. Raises BadValue if a function does not accept a value, or if
    the result has a control character that is not allowed. Raises TemplateError if `template` is invalid.
    """
    parsed_template = parse_template(template)
    missing_names = [name for name in dict.fromkeys(parsed_template.names()) if find_value(values, name) is None]
    if missing_names:
        raise Unresolved(tuple(missing_names))
    rendered = _fill(parsed_template, values, moment or Moment())
    if not breaks and CONTROL_CHAR.search(rendered):
        raise BadValue(
            _name_with_control(parsed_template, values), "contains a line break or another control character"
        )
    return rendered


def differs_each_time(template: str) -> bool:
    """Return whether `template` has ``${now}`` or ``${random}``, so that each request needs its own rendered text."""
    return _differs_at_each_use(parse_template(template))


def needs_request(template: str) -> bool:
    """Return whether `template` uses parts of the request that is sent, such as ``${method}`` or ``${path}``.

    `auth.request_templates` renders such a template again for each attempt.
    """
    return not REQUEST_PLACEHOLDERS.isdisjoint(placeholders(template))


def _differs_at_each_use(template: Template) -> bool:
    return any(
        isinstance(part, Now | Random)
        or (isinstance(part, FunctionCall) and any(map(_differs_at_each_use, part.arguments)))
        for part in template.parts
    )


def _fill(template: Template, values: Mapping[str, str], moment: Moment) -> str:
    filled_parts: list[str] = []
    for part in template.parts:
        match part:
            case str():
                filled_parts.append(part)
            case Name(name):
                filled_parts.append(find_value(values, name) or "")
            case Now():
                filled_parts.append(write_time(part.time_at(moment.at), part.format))
            case Random():
                filled_parts.append(moment.random)
            case FunctionCall(function, arguments):
                filled_parts.append(_call(function, arguments, values, moment))
    return "".join(filled_parts)


def _call(function: str, arguments: tuple[Template, ...], values: Mapping[str, str], moment: Moment) -> str:
    texts = [_fill(argument, values, moment) for argument in arguments]
    try:
        return FUNCTIONS[function](*texts)
    except BadArgument as fault:  # only a key can be wrong, and a key is always the last argument
        raise BadValue(next(arguments[-1].names(), "the template itself"), str(fault)) from None


def _name_with_control(template: Template, values: Mapping[str, str]) -> str:
    """Return the name of the first value with a control character."""
    names = (name for name in template.names() if CONTROL_CHAR.search(find_value(values, name) or ""))
    return next(names, "the template itself")
